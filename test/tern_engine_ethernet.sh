#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Those tests of Tern's engine for which Ethernet makes a difference.
export SOFTHCA_FABRIC=test-engine-ethernet-$$
"$(dirname "$0")/gtest_tap.sh" "$SOFTHCA" run --link-layer ethernet -- ./tern-engine \
    --gtest_filter='AddressHandleTest.*'
status=$?
"$SOFTHCA" clean >/dev/null
exit $status
