#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The transport between two guests, which both run this script: rank 0 runs the servers and reports, rank 1 runs the
# clients. They communicate through files in a shared folder.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
in_guest --vms 2
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require ucx_perftest
step=0
port=21000

say() { # word [file]
    cp "${2:-/dev/null}" "$RXE_RESULTS/new.$RXE_RANK" && mv "$RXE_RESULTS/new.$RXE_RANK" "$RXE_RESULTS/$step.$1"
}
await() { # word: fails if it does not come in time
    local tick
    for ((tick = 0; tick < limit * 10; tick++)); do
        [ ! -e "$RXE_RESULTS/$step.$1" ] || return 0
        [ "$RXE_RANK" = 1 ] || [ ! -e "$RXE_RESULTS/guest1" ] || stop
        sleep 0.1
    done
    return 1
}

# What the guest has sent and received, and how often the queues of its network device interrupted it.
counters() {
    ip -s -s link show dev eth0
    ip neighbour show dev eth0
    grep -E -- '-(input|output)' /proc/interrupts
}
other_answers() {
    busybox ping -c 1 -W 5 "$RXE_PEER"
}
# Rank 1: pings the other guest as long as it answers at least once a minute.
watch_network() {
    local unanswered=0
    while [ $unanswered -lt 12 ]; do
        if other_answers; then
            unanswered=0
            sleep 5
        else
            unanswered=$((unanswered + 1))
        fi
    done
    counters >"$RXE_RESULTS/new.guest1" 2>&1
    mv "$RXE_RESULTS/new.guest1" "$RXE_RESULTS/guest1"
}
# Rank 1, before a step: without an answer, watch_network lets the test end.
wait_for_other() {
    until other_answers >>"$tmp/pings" 2>&1; do
        sleep 1
    done
}
# Rank 0: ends the test when the network is dead. Each step to come would only take all of its time.
stop() {
    counters >"$tmp/guest0" 2>&1
    result 1 "step $step: packets arrive" "$tmp/server" "$tmp/guest0" "$RXE_RESULTS/guest1"
    finish
}

packets() { # Ip or Ip6: the number of received packets
    awk -v name="$1" '$1 == name "InReceives" { print $2 }
        $1 == name ":" && $2 == "Forwarding" { for (i = 1; i <= NF; i++) if ($i == "InReceives") at = i; next }
        $1 == name ":" { print $at }' /proc/net/snmp /proc/net/snmp6
}

# between NAME option...: runs one test of ucx_perftest.
between() {
    local name=$1 status=0
    shift
    step=$((step + 1))
    new_port
    if [ "$RXE_RANK" = 1 ]; then
        await listens
        wait_for_other
        timeout -k 5 "$limit" "${hca[@]}" ucx_perftest -p "$port" "$RXE_PEER" "$@" -f >"$tmp/client" 2>&1 </dev/null
        echo "status $?" >>"$tmp/client"
        say ended "$tmp/client"
        await reported
        return
    fi
    start "$tmp/server" "${hca[@]}" ucx_perftest -p "$port"
    wait_for_server "$pid"
    say listens
    await ended || status=1
    grep -q '^status 0$' "$RXE_RESULTS/$step.ended" || { status=1; kill "$pid" 2>/dev/null; }
    wait "$pid" || status=1
    result $status "$name" "$tmp/server" "$RXE_RESULTS/$step.ended"
    say reported
}

# by_gid INDEX NAME MORE LESS: with this GID, the packets must be of protocol MORE, not LESS.
by_gid() {
    local more less
    more=$(packets "$3") less=$(packets "$4")
    UCX_TERN_GID_INDEX=$1 between "tag_lat by $2" -t tag_lat -s 8 -n 300 -w 10
    more=$(($(packets "$3") - more)) less=$(($(packets "$4") - less))
    [ "$RXE_RANK" = 0 ] || return 0
    [ "$more" -gt 300 ] && [ "$less" -lt 200 ]
    result $? "by $2: $more packets of $3, $less of $4"
}

# Kills the server; the client's endpoint must fail.
killed() {
    local name=$1 status=0 tick
    shift
    step=$((step + 1))
    new_port
    if [ "$RXE_RANK" = 1 ]; then
        await listens
        wait_for_other
        start "$tmp/client" "${hca[@]}" ucx_perftest -p "$port" "$RXE_PEER" -e "$@" -n 2000000000
        disown "$pid" # otherwise bash reports its end
        for ((tick = 0; tick < limit * 5; tick++)); do
            ! grep -q '^\[thread' "$tmp/client" || break
            sleep 0.1
        done
        say running "$tmp/client"
        for ((tick = 0; tick < limit * 5; tick++)); do
            ! grep -q 'error handler called' "$tmp/client" || break
            sleep 0.1
        done
        kill -KILL -- "-$pid"
        say ended "$tmp/client"
        await reported
        return
    fi
    start "$tmp/server" "${hca[@]}" ucx_perftest -p "$port" -e
    disown "$pid"
    wait_for_server "$pid"
    say listens
    await running || status=1
    grep -q '^\[thread' "$RXE_RESULTS/$step.running" || status=1
    kill -KILL -- "-$pid"
    await ended || status=1
    grep -q 'error handler called' "$RXE_RESULTS/$step.ended" || status=1
    result $status "$name" "$tmp/server" "$RXE_RESULTS/$step.ended"
    say reported
}

if [ "$RXE_RANK" = 1 ]; then
    watch_network >"$tmp/pings" 2>&1 &
    watcher=$!
    disown "$watcher"
fi
by_gid 0 'link-local address' Ip6 Ip
by_gid 1 'IPv4 address' Ip Ip6
between 'am_lat of UCP' -t ucp_am_lat -s 1000 -n 200 -w 10
UCX_TERN_POLL=memory between 'tag_lat, POLL=memory' -t tag_lat -s 1000 -n 200 -w 10
UCX_TERN_POLL=cq between 'tag_bw, POLL=cq' -t tag_bw -s 8192 -n 100 -w 10
between 'rendezvous' -t tag_bw -s 1000000 -n 5 -w 1
between 'am_bw of UCT' -d $device -x tern -t am_bw -D bcopy -s 4000 -n 200 -w 10
killed 'a process dies in the other guest' -t tag_bw -s 4096
between 'after its death' -t tag_lat -s 8 -n 100 -w 10
if [ "$RXE_RANK" = 1 ]; then
    kill "$watcher"
    exit 0
fi
finish_tern
