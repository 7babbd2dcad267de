# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-3-Clause
#
# What the tests with rdma_rxe share: what the integration tests do, without the software HCA in front. A test sources
# this file, calls in_guest, then check, pair and so on, and ends with `finish`. RXE_SELECTION=ci leaves out what takes
# long. By hand: test/rxe/NAME.sh
rxe_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run_sh=$rxe_dir/../../contrib/rxe-vm/run.sh

# in_guest [option of run.sh...]: runs this test in a guest, unless that is where it runs. Comes before all else.
in_guest() {
    [ -z "${RXE_RANK:-}" ] || return 0
    clean_up
    trap - EXIT
    exec "$run_sh" --timeout 600 --env SRCDIR --env 'AM_*' "$@" -- bash "$0" 2>&1
}

# True in the selection that CI runs.
selection() {
    [ "${RXE_SELECTION:-}" = ci ]
}

SOFTHCA=${SOFTHCA:-/bin/true}
limit=240 # the processor is emulated, and others may be at work on the machine
# shellcheck source=../integration/lib.sh
. "$rxe_dir/../integration/lib.sh"
hca=()

finish() {
    echo "1..$count"
    [ "$failures" = 0 ]
    exit
}
