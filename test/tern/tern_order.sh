#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What must not rely on an order between requests, nor on each being placed once: tests of the engine and of the
# transport on the software HCA, with the faults swap-writes and replay-write.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
export UCX_LOG_LEVEL=error
use_hca --faults replay-write=1000
check 'a frame that is placed twice' "${hca[@]}" ./tern-engine --gtest_filter=OrderTest.AFrameThatIsPlacedAgainIsNoMessage
use_hca --faults swap-writes
check 'credit, sleep and streams of the engine' "${hca[@]}" ./tern-engine \
    --gtest_filter='OrderTest.*:EngineCreditTest.*:EngineSleepTest.*'
if [ -x ./tern-uct ]; then
    hca+=("$(dirname "$SOFTHCA")/tern-run" --)
    for repeat in y n; do
        check "messages behind puts, UCX_TERN_PUT_REPEAT=$repeat" env UCX_TERN_PUT_REPEAT=$repeat "${hca[@]}" ./tern-uct \
            --gtest_filter='PutAmTest.*:PutAmLongTest.*:*FencedPutTest.Message*'
    done
else
    skip 'messages behind puts' 'built without UCX'
fi
finish
