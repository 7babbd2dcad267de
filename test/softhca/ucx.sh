#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Stock UCX on the software HCA: its RC and UD transports over verbs, and a peer that is killed.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../common/killed.sh
. "$(dirname "$0")/../common/killed.sh"
require ucx_info ucx_perftest
iterations=200
export UCX_NET_DEVICES=softhca0:1 UCX_WARN_UNUSED_ENV_VARS=n

perf() { # label test option...
    local name=$1 test=$2
    shift 2
    new_port
    pair "$name: $test${*:+ $*}" "${hca[@]}" ucx_perftest -p "$port" ::: \
        "${hca[@]}" ucx_perftest -p "$port" -t "$test" -n "$iterations" -w 10 -f "$@" 127.0.0.1
}

# What differs between the transports on the device.
some_tests() { # label
    iterations=1000 perf "$1" tag_lat -s 8
    iterations=50 perf "$1" tag_bw -s 262144
    perf "$1" ucp_put_lat -s 8
    perf "$1" ucp_get -s 8
    perf "$1" tag_lat -s 8 -E sleep
}

every_test() { # label
    local test iterations
    for test in tag_lat tag_bw stream_lat stream_bw ucp_am_lat ucp_am_bw ucp_put_lat ucp_put_bw ucp_get; do
        iterations=1000 perf "$1" $test -s 8
        iterations=50 perf "$1" $test -s 262144
    done
    iterations=200
    for test in ucp_add ucp_fadd ucp_swap ucp_cswap; do
        perf "$1" $test -s 8
    done
    perf "$1" tag_lat -s 8 -E sleep
    perf "$1" tag_bw -s 65536 -E sleep
    perf "$1" ucp_am_lat -s 8 -E sleep
    perf "$1" tag_sync_lat -s 1024
    perf "$1" tag_lat -s 1024 -U
    perf "$1" tag_lat -s 100,3000,7 -D iov,iov
}

for transport in rc_verbs ud_verbs; do
    check_match "ucx_info lists $transport" 'Device: +softhca0:1' "${hca[@]}" ucx_info -d -t $transport
done

# rc_verbs asks for 64 bytes of inline data, and gets what the adapter of a profile has.
for profile in cx3-fdr cx5-edr cx6-hdr cx7-ndr; do
    check_match "$profile has the inline data of its adapter" 'am_short: <= 123$' \
        "$SOFTHCA" run --profile $profile -- ucx_info -d -t rc_verbs
done

# UCP's part is the same on any device, so a selection leaves most of it out. tern_perftest.sh has all of it.
for label in rc_v ud_v; do
    export UCX_TLS=$label,self
    if whole; then every_test $label; else some_tests $label; fi
done

export UCX_TLS=rc_v,self
use_hca --executor thread
perf 'rc_v, thread' tag_lat -s 8
perf 'rc_v, thread' tag_bw -s 262144
perf 'rc_v, thread' ucp_put_bw -s 262144
perf 'rc_v, thread' ucp_fadd -s 8
perf 'rc_v, thread' tag_lat -s 8 -E sleep

use_hca --link-layer ethernet
export UCX_IB_GID_INDEX=0
perf 'rc_v, ethernet' tag_lat -s 8
perf 'rc_v, ethernet' tag_bw -s 262144
unset UCX_IB_GID_INDEX

use_hca
export UCX_RC_RETRY_COUNT=6 UCX_RC_TIMEOUT=200ms UCX_KEEPALIVE_INTERVAL=1s # as killed() has Tern find out
killed 'rc_v: the receiver is killed under load' server tag_bw
killed 'rc_v: the sender is killed under load' client tag_bw
killed 'rc_v: one side of a ping-pong is killed' server tag_lat
killed 'rc_v: the target of puts is killed' server ucp_put_bw
use_hca --executor thread
killed 'rc_v, thread: the receiver is killed under load' server tag_bw

# The fabric still works.
use_hca
unset UCX_RC_RETRY_COUNT UCX_RC_TIMEOUT UCX_KEEPALIVE_INTERVAL
perf 'rc_v after the deaths' tag_bw -s 4096

finish
