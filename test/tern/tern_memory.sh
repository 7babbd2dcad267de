#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Large messages from and to memory of different owners: preloaded allocators, an allocator that no library can
# intercept, Python. With each way of noticing that pages have gone, every byte is right. (The software HCA accesses
# memory by address, so outdated registrations would not show here; tern_engine.sh checks the pages themselves.)
mpi=openmpi
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern_mpi.sh
. "$(dirname "$0")/tern_mpi.sh"

# program NAME command...: two ranks print "NAME: ok".
program() {
    local name=$1
    shift
    rm -f "$tmp/counters"
    UCX_TERN_COUNTERS=$tmp/counters check_match "$name, $how" "^$name: ok$" \
        bash -c 'launch_"$@"' _ "$mpi" 2 "${hca[@]}" "$@"
}

compile
must_compile "mpicc.$mpi" -std=gnu11 -O2 -o "$tmp/hidden" "$srcdir/tern/mpi/hidden.c"
python=/usr/bin/python3 # the interpreter of Debian's packages
"$python" -c 'import mpi4py, numpy' 2>/dev/null || python=
use_tern
for monitor in auto userfaultfd ucm none; do
    export UCX_TERN_PIN_MONITOR=$monitor
    # The kernel's word is enough, and without a monitor there is nothing to tell.
    case $monitor in
        userfaultfd | none) export UCX_MEM_EVENTS=n ;;
        *) export UCX_MEM_EVENTS=y ;;
    esac
    how="PIN_MONITOR=$monitor, MEM_EVENTS=$UCX_MEM_EVENTS"
    verify "$how" 2 large
    other_allocators
    program hidden "$tmp/hidden"
    if [ $monitor = userfaultfd ]; then
        [ "$(counter "$tmp/counters" pin_invalidations)" -gt 0 ]
        result $? 'what no library sees is heard of' "$tmp/counters"
    fi
    if [ -n "$python" ]; then
        program arrays "$python" "$srcdir/tern/mpi/arrays.py"
    else
        skip "arrays of NumPy, $how" 'python3-mpi4py or python3-numpy is not installed'
    fi
done
finish
