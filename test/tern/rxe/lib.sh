# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-3-Clause
#
# Common functions of the tests with rdma_rxe: those of the integration tests, without the software HCA as launcher. A
# test sources this file, calls in_guest, then check, pair and so on, and ends with `finish`. RXE_SELECTION=ci leaves
# out tests that take long. By hand: test/tern/rxe/NAME.sh
rxe_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run_sh=$rxe_dir/../../../contrib/rxe-vm/run.sh

# in_guest [option of run.sh...]: runs this test in a guest, unless it runs in one already. Call it first.
in_guest() {
    [ -z "${RXE_RANK:-}" ] || return 0
    clean_up
    trap - EXIT
    exec "$run_sh" --timeout 600 --env SRCDIR --env 'AM_*' "$@" -- bash "$0" 2>&1
}

# Whether CI's selection was requested.
selection() {
    [ "${RXE_SELECTION:-}" = ci ]
}

SOFTHCA=${SOFTHCA:-/bin/true}
limit=240 # the processor is emulated, and the machine may be busy
# shellcheck source=../../common/lib.sh
. "$rxe_dir/../../common/lib.sh"
hca=()

finish() {
    echo "1..$count"
    [ "$failures" = 0 ]
    exit
}
