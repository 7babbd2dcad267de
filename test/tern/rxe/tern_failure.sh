#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The transport on rxe after failures: peers that are killed, and users with a low limit of locked memory.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
in_guest
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
# shellcheck source=../../common/killed.sh
. "$srcdir/common/killed.sh"
require ucx_perftest ucx_info setpriv

export UCX_KEEPALIVE_INTERVAL=1s UCX_TERN_CONNECT_TIMEOUT=10s
killed 'the receiver is killed under load' server tag_bw
selection || {
    killed 'the sender is killed under load' client tag_bw
    killed 'one side of a ping-pong is killed' server tag_lat
    killed 'the target of puts is killed' server ucp_put_bw
}

# Runs a command as an unprivileged user with the given limit of locked memory.
# shellcheck disable=SC2317 # called by bash -c
as_nobody() { # KiB command...
    ulimit -l "$1"
    shift
    exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}
export -f as_nobody
nobody() { # KiB transports command...: the command's output goes to $tmp/output
    local limit_kib=$1
    UCX_TLS=$2 timeout -k 5 "$limit" bash -c 'as_nobody "$@"' _ "$limit_kib" "${hca[@]}" "${@:3}" >"$tmp/output" 2>&1 </dev/null
}
said() { # the number of messages of the transport, all of which name the limit
    [ "$(grep -c 'tern: ' "$tmp/output")" = "$1" ] && [ "$(grep -c 'tern: .*ulimit -l' "$tmp/output")" = "$1" ]
}

# Too little for an interface: one line says so, and UCX continues without the transport.
nobody 64 tern,self ucx_info -d -t tern
! grep -q 'Transport: tern' "$tmp/output" && said 1
result $? '64 KiB: the device is not listed, and one line says why' "$tmp/output"
nobody 64 tern,self,tcp env UCX_NET_DEVICES=all ucx_perftest -t tag_lat -n 100 -w 10 -f -l && said 1
result $? '64 KiB: UCX goes on without' "$tmp/output"
! nobody 64 tern ucx_perftest -t tag_lat -n 100 -w 10 -f -l && said 1
result $? '64 KiB: an error where there is nothing else' "$tmp/output"

# Enough for an interface with fewer buffers.
nobody 1024 tern ucx_perftest -t tag_lat -n 100 -w 10 -f -l && said 1
result $? '1 MiB: it works, and one line says what would be better' "$tmp/output"
nobody 1024 tern ucx_perftest -t tag_bw -s 8192 -n 200 -w 10 -f -l
result $? '1 MiB: many messages' "$tmp/output"

# Debian's default limit.
nobody 8192 tern ucx_perftest -t tag_lat -n 100 -w 10 -f -l && said 0
result $? '8 MiB: it works' "$tmp/output"

# Two ranks exchange messages larger than the memory that can be pinned.
mpi=openmpi
if command -v mpirun.openmpi mpicc.openmpi >"$tmp/commands"; then
    # shellcheck source=../../common/mpi.sh
    . "$srcdir/common/mpi.sh"
    compile
    chmod 755 "$tmp"
    export -f launch_openmpi
    sizes=(1024)
    selection || sizes+=(8192)
    for kib in "${sizes[@]}"; do
        HOME=/tmp nobody "$kib" tern,self bash -c 'launch_openmpi 2 "$@"' _ "$tmp/verify" point-to-point outstanding &&
            grep -q '^verify: ok' "$tmp/output"
        result $? "$((kib / 1024)) MiB: Open MPI, messages up to 4 MiB" "$tmp/output"
    done
else
    skip 'Open MPI with little memory' 'it is not installed'
fi
finish_tern
