#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The conformance tests on the software HCA, on their own fabric. Arguments are options of `softhca run`. With the thread
# sanitizer only those with threads.
export SOFTHCA_FABRIC=test-conformance-$$
filter=()
if ldd ./verbs-conformance | grep -q tsan; then
    filter=(--gtest_filter='ThreadTest*:CqEvent*:QpEvent*')
fi
"$(dirname "$0")/../common/gtest_tap.py" "$SOFTHCA" run "$@" -- ./verbs-conformance ${filter[@]+"${filter[@]}"}
status=$?
"$SOFTHCA" clean --fabric "$SOFTHCA_FABRIC" >/dev/null
exit $status
