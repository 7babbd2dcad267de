#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# ucx_perftest over the transport on rxe: UCT tests and every UCP test, with both ways of polling for messages.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
in_guest --timeout 1200
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
# shellcheck source=../tern_perf.sh
. "$srcdir/tern/tern_perf.sh"
iterations=30

# Every UCP test, with its smallest and largest sizes.
ucp_short_tests() {
    ucp_tests | grep -E -- '-s (4|8|70000)$'
}
uct_short_tests() {
    uct_tests | grep -E -- '-D (short|bcopy|zcopy) -s (8|16|8192)$'
}

if selection; then
    perf UCT < <(uct_short_tests | sed "s/^/-d $device -x tern /")
    UCX_TERN_POLL=memory perf 'POLL=memory' < <(ucp_short_tests)
    UCX_TERN_POLL=cq perf 'POLL=cq' < <(some)
else
    perf UCT < <(uct_tests | sed "s/^/-d $device -x tern /")
    for poll in memory cq; do
        UCX_TERN_POLL=$poll perf "POLL=$poll" < <(ucp_tests)
    done
fi
finish_tern
