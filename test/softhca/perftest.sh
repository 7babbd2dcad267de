#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The programs of perftest on the software HCA.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
require ib_write_lat ib_send_bw ib_atomic_bw

perf() { # program option...
    local program=$1
    shift
    new_port
    pair "$label$program $*" "${hca[@]}" "$program" -F -p "$port" "$@" ::: \
        "${hca[@]}" "$program" -F -p "$port" "$@" 127.0.0.1
}

label=
for program in ib_write_lat ib_read_lat ib_send_lat; do
    for size in 2 4096 65536; do
        perf $program -n 1000 -s $size
    done
done
for program in ib_write_bw ib_read_bw ib_send_bw; do
    for size in 64 4096 1048576; do
        perf $program -n 500 -s $size
    done
done
perf ib_write_bw -n 300 -s 65536 -b
perf ib_send_bw -n 300 -s 65536 -b
perf ib_write_bw -n 300 -s 4096 -q 4
perf ib_send_bw -n 320 -s 4096 -l 16
perf ib_write_bw -n 320 -s 4096 -l 16
perf ib_send_bw -n 300 -s 4096 -Q 1
perf ib_write_bw -n 320 -s 4096 -Q 32
perf ib_send_lat -n 500 -s 64 -I 64

for program in ib_atomic_lat ib_atomic_bw; do
    perf $program -n 1000 -A FETCH_AND_ADD
    perf $program -n 1000 -A CMP_AND_SWAP
done

# UC supports sends and writes, UD only sends.
for program in ib_write_lat ib_write_bw ib_send_lat ib_send_bw; do
    perf $program -n 500 -s 4096 -c UC
done
for program in ib_send_lat ib_send_bw; do
    perf $program -n 500 -s 1024 -c UD
done
for program in ib_write_lat ib_write_bw ib_read_lat ib_read_bw ib_send_lat ib_send_bw; do
    perf $program -n 500 -s 4096 -c XRC
done
perf ib_atomic_lat -n 500 -c XRC
perf ib_atomic_bw -n 500 -c XRC

# Shared receive queues, events, the executing thread and Ethernet: device.sh and conformance_inline.sh have them too.
[ "${TERN_SELECTION:-all}" != short ] || finish

perf ib_send_lat -n 500 -s 4096 --use-srq
perf ib_send_bw -n 500 -s 4096 --use-srq
perf ib_send_bw -n 300 -s 4096 --use-srq -q 4
perf ib_send_bw -n 500 -s 1024 -c UD --use-srq

perf ib_send_lat -n 500 -s 4096 -e
perf ib_send_bw -n 500 -s 4096 -e
perf ib_send_lat -n 500 -s 1024 -c UD -e
perf ib_send_bw -n 500 -s 4096 -c XRC -e
perf ib_read_lat -n 500 -s 4096 -e
perf ib_read_bw -n 500 -s 4096 -e
perf ib_atomic_lat -n 500 -e

use_hca --executor thread
label='thread: '
for program in ib_write_lat ib_read_lat ib_send_lat ib_write_bw ib_read_bw ib_send_bw; do
    perf $program -n 500 -s 65536
done
perf ib_atomic_lat -n 500
perf ib_send_bw -n 500 -s 1024 -c UD
perf ib_send_bw -n 500 -s 4096 -c XRC -e

use_hca --link-layer ethernet
label='ethernet: '
perf ib_write_bw -n 300 -s 65536 -x 0
perf ib_send_lat -n 300 -s 1024 -c UD -x 0

finish
