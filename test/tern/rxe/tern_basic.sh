#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What UCX reports about the transport on rxe, and which of the port's addresses the transport uses.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
in_guest
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require ucx_info ucx_perftest

# describes PATTERN...: each pattern must match a line of ucx_info's output.
describes() {
    local pattern
    "${hca[@]}" ucx_info -d -t tern >"$tmp/output" 2>&1
    for pattern in "$@"; do
        grep -Eq "$pattern" "$tmp/output"
        result $? "ucx_info -d: $pattern" "$tmp/output"
    done
    ! grep -q ' UCX ' "$tmp/output"
    result $? 'ucx_info -d: no complaints' "$tmp/output"
}

describes 'Transport: tern' 'Device: rxe0:1$' 'Type: network' 'register: unlimited' \
    'bandwidth: [1-9][0-9]*\.[0-9]+/ppn' 'latency: [1-9][0-9]* ' 'am_bcopy: <= [0-9]{4}' 'am_zcopy: <= [0-9]{4}' \
    'put_short: <= [1-9]' 'connection: to iface' 'error handling: peer failure'
check_match 'ucx_info -cf: has the settings' '^UCX_TERN_GID_INDEX=auto' "${hca[@]}" ucx_info -cf

# goes NAME GID-of-server GID-of-client
goes() {
    new_port
    pair "$1" env UCX_TERN_GID_INDEX="$2" "${hca[@]}" ucx_perftest -p "$port" ::: \
        env UCX_TERN_GID_INDEX="$3" "${hca[@]}" ucx_perftest -p "$port" 127.0.0.1 -t tag_lat -n 100 -w 10 -f
}

goes 'the GID is found' auto auto
goes 'by the link-local address' 0 0
goes 'by the IPv4 address' 1 1
refuses 'an entry that is not set' 255 'cannot use rxe0:1: the GID table has no address' \
    env UCX_LOG_FILE=stderr UCX_TERN_GID_INDEX=500 "${hca[@]}" ucx_perftest -t tag_lat -l
refuses 'an entry that is not there' 255 'cannot use rxe0:1: GID_INDEX 5000 is not below' \
    env UCX_LOG_FILE=stderr UCX_TERN_GID_INDEX=5000 "${hca[@]}" ucx_perftest -t tag_lat -l
finish_tern
