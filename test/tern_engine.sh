#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tests of Tern's engine, without UCX, on the software HCA, which forgives no completion of a queue that is gone.
export SOFTHCA_FABRIC=test-engine-$$
"$(dirname "$0")/gtest_tap.sh" "$SOFTHCA" run --faults stale-cq -- ./tern-engine
status=$?
"$SOFTHCA" clean >/dev/null
exit $status
