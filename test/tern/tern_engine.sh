#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tests of Tern's engine without UCX, on the software HCA, with the fault stale-cq: a completion of a destroyed
# shared receive queue fails the poll. Arguments are options of `softhca run`. TERN_PERSONALITY: the device that is
# imitated.
export SOFTHCA_FABRIC=test-engine-$$ SOFTHCA_PERSONALITY=${TERN_PERSONALITY:-default}
"$(dirname "$0")/../common/gtest_tap.py" "$SOFTHCA" run --faults stale-cq "$@" -- ./tern-engine
status=$?
"$SOFTHCA" clean >/dev/null
exit $status
