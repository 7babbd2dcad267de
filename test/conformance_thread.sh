#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
export SOFTHCA_FABRIC=test-conformance-thread-$$
exec "$(dirname "$0")/gtest_tap.sh" "$SOFTHCA" run --executor thread -- ./verbs-conformance
