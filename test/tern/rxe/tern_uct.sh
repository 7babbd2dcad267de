#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tests of the transport through UCX's own interface, on rxe.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
program=$(dirname "$SOFTHCA")/../../test/tern-uct
if [ ! -x "$program" ]; then
    echo "1..0 # SKIP built without UCX"
    exit 0
fi
in_guest --timeout 1200
# The processor is emulated, so deadlines are longer.
export UCX_LOG_LEVEL=error CONFORMANCE_DEADLINE=60
filter='*'
! selection || filter='Attributes.*:TernAttributes.*:MemoryTest.*:MessageTest*.*:*ZcopyTest.*:PutTest.*:PendingTest.*:FlushTest*.*:TeardownTest.*:EpCheckTest.ColdPeer:Setups/SetupTest.TrafficIsRight/Poll*'
exec "$srcdir/common/gtest_tap.py" -t 100 "$(dirname "$SOFTHCA")/tern-run" -- "$program" --gtest_filter="$filter"
