#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Stock UCX on the software HCA: its RC and UD transports over verbs, and a peer that is killed.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=killed.sh
. "$(dirname "$0")/killed.sh"
# shellcheck source-path=SCRIPTDIR source=tern_perf.sh
. "$(dirname "$0")/tern_perf.sh"
require ucx_info

# What differs between the transports on the device.
some_tests() {
    each '-n 1000 -t @ -s 8' tag_lat
    each '-n 50 -t @ -s 262144' tag_bw
    each '-t @ -s 8' ucp_put_lat ucp_get
    each '-E sleep -t @ -s 8' tag_lat
}

# With TERN_SELECTION=ci, tests of latency have short messages, and those of bandwidth long ones.
every_test() {
    local test selection=${TERN_SELECTION:-all}
    for test in tag_lat tag_bw stream_lat stream_bw ucp_am_lat ucp_am_bw ucp_put_lat ucp_put_bw ucp_get; do
        [[ $selection = ci && $test = *_bw ]] || echo "-n 1000 -t $test -s 8"
        [[ $selection = ci && $test = *_lat ]] || echo "-n 50 -t $test -s 262144"
    done
    each '-t @ -s 8' ucp_add ucp_fadd ucp_swap ucp_cswap
    each '-E sleep -t @ -s 8' tag_lat ucp_am_lat
    echo '-E sleep -t tag_bw -s 65536'
    echo '-t tag_sync_lat -s 1024'
    echo '-U -t tag_lat -s 1024'
    echo '-D iov,iov -t tag_lat -s 100,3000,7'
}

for transport in rc_verbs ud_verbs; do
    check_match "ucx_info lists $transport" 'Device: +softhca0:1' "${hca[@]}" ucx_info -d -t $transport
done

export UCX_TLS=rc_v,self
perf rc_v < <(every_test)
# UCP's part is the same as over rc_v, so TERN_SELECTION=ci leaves it out.
export UCX_TLS=ud_v,self
perf ud_v < <(if [ "${TERN_SELECTION:-all}" = ci ]; then some_tests; else every_test; fi)

export UCX_TLS=rc_v,self
use_hca --executor thread
{
    each '-t @ -s 8' tag_lat ucp_fadd
    each '-t @ -s 262144' tag_bw ucp_put_bw
    echo '-E sleep -t tag_lat -s 8'
} >"$tmp/list"
perf 'rc_v, thread' <"$tmp/list"

use_hca --link-layer ethernet
export UCX_IB_GID_INDEX=0
{
    echo '-t tag_lat -s 8'
    echo '-t tag_bw -s 262144'
} >"$tmp/list"
perf 'rc_v, ethernet' <"$tmp/list"
unset UCX_IB_GID_INDEX

use_hca
export UCX_RC_RETRY_COUNT=6 UCX_KEEPALIVE_INTERVAL=1s
killed 'rc_v: the receiver is killed under load' server tag_bw
killed 'rc_v: the sender is killed under load' client tag_bw
killed 'rc_v: one side of a ping-pong is killed' server tag_lat
killed 'rc_v: the target of puts is killed' server ucp_put_bw
use_hca --executor thread
killed 'rc_v, thread: the receiver is killed under load' server tag_bw

# The fabric still works.
use_hca
unset UCX_RC_RETRY_COUNT UCX_KEEPALIVE_INTERVAL
perf 'rc_v after the deaths' < <(echo '-t tag_bw -s 4096')

finish
