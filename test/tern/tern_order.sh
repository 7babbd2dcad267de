#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What must not rely on an order between requests, nor on each being placed once: tests of the engine and of the
# transport on the software HCA, with the faults swap-writes and replay-write. And what must not rely on an order of
# bytes: the same with relaxed ordering, on a device that then shuffles lines.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
export UCX_LOG_LEVEL=error

# passes NAME FILTER COMMAND...: a filter that finds no test fails.
passes() {
    local name=$1 filter=$2
    shift 2
    check_match "$name" '^\[  PASSED  \] [1-9]' "${hca[@]}" "$@" --gtest_color=no --gtest_filter="$filter"
}

use_hca --faults replay-write=1000
passes 'a frame that is placed twice' OrderTest.AFrameThatIsPlacedAgainIsNoMessage ./tern-engine
use_hca --faults swap-writes
passes 'credit, sleep and streams of the engine' 'OrderTest.*:EngineCreditTest.*:EngineSleepTest.*' ./tern-engine
if [ -x ./tern-uct ]; then
    hca+=("$(dirname "$SOFTHCA")/tern-run" --)
    for repeat in 1 0; do
        export TERN_TUNABLES=put_repeat=$repeat
        passes "messages behind puts, put_repeat=$repeat" 'PutAmTest.*:PutAmLongTest.*:*FencedPutTest.Message*' \
            ./tern-uct
    done
    unset TERN_TUNABLES
    # Where the device does not even promise the order of bytes, a fence waits until puts are complete.
    use_hca --faults swap-writes --rules in-order=0
    hca+=("$(dirname "$SOFTHCA")/tern-run" --)
    passes 'puts behind puts' '*FencedPutTest.*:FenceTest.*' ./tern-uct
else
    skip 'messages and puts behind puts' 'built without UCX'
fi

# relaxes VARIABLE=VALUE...: whether a memory domain uses relaxed ordering with these settings.
relaxes() {
    "${hca[@]}" env "$@" UCX_LOG_LEVEL=debug ucx_info -d -t tern 2>&1 | grep -q 'registered with relaxed ordering'
}

# The thread makes the copies, so that a reader sees them half done.
use_hca --rules relaxed-order=1 --executor thread
export UCX_TERN_PCI_RELAXED_ORDERING=on
passes 'relaxed ordering in the engine' 'RelaxedOrderTest.*:OrderTest.Random*' ./tern-engine
if [ -x ./tern-uct ]; then
    hca+=("$(dirname "$SOFTHCA")/tern-run" --)
    passes 'relaxed ordering in the transport' \
        'OrderTest.TwoProcesses:*TransferTest.Lengths/*:*TransferTest.AnyPlace*' ./tern-uct
    unset UCX_TERN_PCI_RELAXED_ORDERING
    result "$(relaxes UCX_TERN_PCI_RELAXED_ORDERING=try; echo $?)" 'the setting relaxes'
    result "$(relaxes UCX_IB_PCI_RELAXED_ORDERING=y; echo $?)" 'the setting of UCX counts if there is none of Tern'
    result "$(! relaxes UCX_IB_PCI_RELAXED_ORDERING=y UCX_TERN_PCI_RELAXED_ORDERING=off; echo $?)" \
        'the setting of Tern comes first'
fi
finish
