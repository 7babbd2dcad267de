#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The conformance tests on the software HCA, on their own fabric. Arguments are options of `softhca run`.
export SOFTHCA_FABRIC=test-conformance-$$
"$(dirname "$0")/gtest_tap.sh" "$SOFTHCA" run "$@" -- ./verbs-conformance
status=$?
"$SOFTHCA" clean >/dev/null
exit $status
