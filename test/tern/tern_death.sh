#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A process is killed in each state of its connection with another one, which must be told: UCX's endpoints have error
# handling by peer. docs/tern/reliability.md has a table of the times.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require cc
export UCX_TLS=tern,self UCX_NET_DEVICES=$device UCX_WARN_UNUSED_ENV_VARS=n UCX_LOG_LEVEL=fatal
use_tern

cc -std=gnu11 -O2 -o "$tmp/death" "$srcdir/tern/ucp/death.c" -lucp -lucs 2>"$tmp/compiler" ||
    { sed 's/^/# /' "$tmp/compiler"; echo 'Bail out! death.c does not compile'; exit 1; }

names=()

# dies STATE SECONDS [VARIABLE=VALUE...]: begins a run, beside others: most of the time they sleep.
dies() {
    local state=$1 seconds=$2
    shift 2
    start "$tmp/out.${#names[@]}" "${hca[@]}" env "$@" "$tmp/death" "$state" "$seconds"
    names+=("$state${*:+ ($*)}")
}

# told LABEL: waits for the runs, and shows how long each took.
told() {
    local i
    for i in "${!names[@]}"; do
        wait "${pids[$i]}"
        result $? "$1: ${names[$i]}" "$tmp/out.$i" && sed 's/^/# /' "$tmp/out.$i"
    done
    names=() pids=()
}

# long SECONDS VARIABLE=VALUE...: the same for transfers of long messages, whichever side is killed.
long() {
    local seconds=$1
    shift
    dies sending-long "$seconds" "$@"
    dies receiving-long "$seconds" "$@"
}

# The connect time-out stays: no death may be told by it, after minutes.
short_timeouts() {
    local -x UCX_TERN_TIMEOUT=200ms UCX_KEEPALIVE_INTERVAL=500ms
    local state limit=120
    for state in idle unused connect asleep asleep-receiving receiving-cold receiving-hot sending-stalled getting; do
        dies $state 60
    done
    dies ended 60 UCX_TERN_QP_MAX=1
    dies matcher 60 UCX_TERN_TM_ENABLE=y
    dies stopped 3
    long 60 UCX_TERN_RNDV_SCHEME=superpipeline
    long 60 UCX_TERN_RNDV_SCHEME=zcopy
    told 'short time-outs'
}

# As programs have them, against the longest time over rc_v in the table, and a second more.
default_timeouts() {
    local state limit=200
    for state in getting putting sending; do dies $state 9.7; done
    dies connect 34.9
    dies receiving-cold 38.3
    dies sending-stalled 39.5
    for state in idle idle-hot unused; do dies $state 41.8; done
    dies receiving-hot 49.5
    dies matcher 51.9 UCX_TERN_TM_ENABLE=y
    for state in asleep asleep-receiving; do dies $state 65.1; done
    dies ended 41.8 UCX_TERN_QP_MAX=1
    dies stopped 60
    told 'default time-outs'
    long 43.7 UCX_TERN_RNDV_SCHEME=superpipeline
    long 43.7 UCX_TERN_RNDV_SCHEME=zcopy
    long 43.7 UCX_RNDV_SCHEME=put_zcopy
    long 43.7 UCX_RNDV_SCHEME=get_zcopy UCX_TERN_PIN_PUBLISH=n
    long 43.7 UCX_TERN_TM_ENABLE=y
    told 'default time-outs'
}

short_timeouts
more default_timeouts
finish
