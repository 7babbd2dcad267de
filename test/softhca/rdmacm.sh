#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs that connect by rdma_cm on the software HCA: those of rdmacm-utils, perftest with -R, and libfabric's.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
require rping ucmatose udaddy rdma_server ib_send_lat

# Whether somebody listens on a TCP port, or on a port of rdma_cm in this fabric.
eval "$(declare -f listening | sed '1s/listening/listening_tcp/')"
listening() { # port
    listening_tcp "$1" ||
        grep -Eq "^[^ ]+ [^ ]+ [^ ]+ 00010000 .* @softhca-cm/[0-9]+/$SOFTHCA_FABRIC/[0-9a-f]+/$1\$" /proc/net/unix
}

# both NAME PROGRAM-OF-SERVER OPTIONS ::: PROGRAM-OF-CLIENT OPTIONS: on a new port, which both get with -p.
both() {
    local name=$1 word words=()
    shift
    new_port
    for word; do
        if [ "$word" = ::: ]; then words+=(-p "$port" ::: "${hca[@]}"); else words+=("$word"); fi
    done
    pair "$label$name" "${hca[@]}" "${words[@]}" -p "$port"
}

# rping of rdma-core before 59 can end with 255 after a good run: its thread for events may look once more at the channel
# that the main thread has just destroyed (mended there by f3ae6534a). Then nothing else went wrong.
cat >"$tmp/rping" <<'EOF'
#!/bin/sh
output=$(rping "$@" 2>&1)
status=$?
printf '%s\n' "$output"
usual='(client|server) DISCONNECT EVENT|wait for RDMA_READ_ADV state 10$|(server )?ping data: '
if [ $status = 255 ] &&
    [ "$(printf '%s\n' "$output" | grep -Ev "^($usual)")" = 'rdma_get_cm_event: Bad file descriptor' ]; then
    status=0
fi
exit $status
EOF
chmod +x "$tmp/rping"

# udaddy has one port; its -p is another option.
services() { # number
    port=7174
    pair "${label}udaddy: $1 datagram services" "${hca[@]}" udaddy -c "$1" ::: "${hca[@]}" udaddy -s 127.0.0.1 -c "$1"
    port=0
}

# Two members of a multicast group. The second one sends as soon as the first one has joined.
group() { # address
    local member sender status
    start "$tmp/server" stdbuf -oL "${hca[@]}" mckey -m "$1"
    member=$pid
    until grep -q 'joined dgid' "$tmp/server" || ! kill -0 "$member" 2>/dev/null; do sleep 0.05; done
    start "$tmp/client" "${hca[@]}" mckey -s -m "$1"
    sender=$pid
    wait "$sender"
    status=$?
    [ $status = 0 ] || kill "$member" 2>/dev/null
    wait "$member" 2>/dev/null || status=1
    pids=()
    grep -q 'data transfers complete' "$tmp/server" || status=1
    result $status "${label}mckey: group $1" "$tmp/server" "$tmp/client"
}

label=
both 'rping' "$tmp/rping" -s -C 20 -v -V ::: "$tmp/rping" -c -a 127.0.0.1 -C 20 -v -V
both 'rping: long messages' "$tmp/rping" -s -C 20 -S 60000 -V ::: "$tmp/rping" -c -a 127.0.0.1 -C 20 -S 60000 -V
both 'rping: IPv6' "$tmp/rping" -s -a ::1 -C 5 ::: "$tmp/rping" -c -a ::1 -C 5
both 'rping: address of a port' "$tmp/rping" -s -a 10.72.0.1 -C 5 ::: "$tmp/rping" -c -a 10.72.0.1 -C 5
both 'ucmatose: 50 connections' ucmatose -c 50 ::: ucmatose -s 127.0.0.1 -c 50
both 'ucmatose: migrated' ucmatose -c 10 -m ::: ucmatose -s 127.0.0.1 -c 10 -m
services 5
group 239.1.1.1
both 'rdma_server' rdma_server ::: rdma_client -s 127.0.0.1

new_port
refuses 'rping: nobody listens' 255 'RDMA_CM_EVENT_REJECTED, error 8' "${hca[@]}" rping -c -a 127.0.0.1 -p "$port" -C 1
refuses 'rping: nobody has the address' 255 'RDMA_CM_EVENT_ADDR_ERROR' "${hca[@]}" rping -c -a 192.0.2.177 -p "$port" -C 1
refuses 'rstream: no rsockets' 255 'not supported' "${hca[@]}" rstream -s 127.0.0.1 -p "$port"

for program in ib_write_lat ib_send_bw ib_read_bw; do
    both "$program -R" $program -R -F -n 200 -s 4096 ::: $program -R -F -n 200 -s 4096 127.0.0.1
done
both 'ib_send_lat -R: UD' ib_send_lat -R -F -n 200 -s 1024 -c UD ::: ib_send_lat -R -F -n 200 -s 1024 -c UD 127.0.0.1
both 'ib_write_bw -R: four queue pairs' ib_write_bw -R -F -n 200 -q 4 ::: ib_write_bw -R -F -n 200 -q 4 127.0.0.1

use_hca --link-layer ethernet --addresses per-process
label='ethernet: '
both 'rping' "$tmp/rping" -s -C 20 -V ::: "$tmp/rping" -c -a 127.0.0.1 -C 20 -V
services 5
group ff0e::1234

use_hca --personality mlx5
label='mlx5: ' # inline data is rounded up, as these two programs expect
both 'rdma_xserver: RC' rdma_xserver -c r ::: rdma_xclient -s 127.0.0.1 -c r
both 'rdma_xserver: XRC' rdma_xserver -c x ::: rdma_xclient -s 127.0.0.1 -c x

use_hca --personality strict
label='strict: '
both 'rping' "$tmp/rping" -s -C 20 -V ::: "$tmp/rping" -c -a 127.0.0.1 -C 20 -V
both 'ib_send_lat -R' ib_send_lat -R -F -n 200 -s 4096 ::: ib_send_lat -R -F -n 200 -s 4096 127.0.0.1

# A peer that is killed: the other one sees that, and ends.
use_hca
new_port
start "$tmp/server" "${hca[@]}" rping -s -p "$port"
survivor=$pid
wait_for_server "$survivor"
start "$tmp/client" "${hca[@]}" rping -c -a 127.0.0.1 -p "$port" -v
victim=$pid
until grep -q 'ping data' "$tmp/client" || ! kill -0 "$victim" 2>/dev/null; do sleep 0.05; done
kill -KILL -- "-$victim"
wait "$victim" 2>/dev/null
wait "$survivor"
grep -q 'DISCONNECT EVENT' "$tmp/server"
result $? 'rping: the client is killed' "$tmp/server"
pids=()

# libfabric takes the addresses of the machine's network interfaces, except the loopback's.
can_ping_pong() { # NAME
    if ! command -v fi_pingpong >/dev/null; then
        skip "$1" 'fi_pingpong is not installed'
    elif [ -z "$(hostname -I)" ]; then
        skip "$1" 'the machine has no address but the loopback'
    else
        return 0
    fi
    return 1
}
ping_pong() { # option...
    local name="fi_pingpong -p verbs $*"
    can_ping_pong "$name" || return 0
    new_port
    pair "$name" "${hca[@]}" fi_pingpong -p verbs -I 50 "$@" -B "$port" ::: \
        "${hca[@]}" fi_pingpong -p verbs -I 50 "$@" -P "$port" 127.0.0.1
}
have_last_rows() {
    grep -q '^1m ' "$tmp/server" && grep -q '^1m ' "$tmp/client"
}
# The same up to the last row of both sides' tables. What follows is a race of libfabric's: a side that sees the other
# one's disconnection before the last completion destroys the queue pair with it, and waits for it for ever.
rows() { # option...
    local name="fi_pingpong -p verbs $*" server client tick
    can_ping_pong "$name" || return 0
    new_port
    start "$tmp/server" stdbuf -oL "${hca[@]}" fi_pingpong -p verbs -I 50 "$@" -B "$port"
    server=$pid
    wait_for_server "$server"
    start "$tmp/client" stdbuf -oL "${hca[@]}" fi_pingpong -p verbs -I 50 "$@" -P "$port" 127.0.0.1
    client=$pid
    for ((tick = 0; tick < limit * 10; tick++)); do
        have_last_rows && break
        lives "$server" || lives "$client" || break
        sleep 0.1
    done
    disown "$server" "$client" # otherwise bash reports their ends
    kill -KILL -- "-$server" "-$client" 2>/dev/null
    reap_group "$server"
    reap_group "$client"
    pids=()
    have_last_rows
    result $? "$name" "$tmp/server" "$tmp/client"
}
ping_pong -e msg -c
rows -e rdm -c
ping_pong -e dgram

finish
