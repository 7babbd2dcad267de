#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
export SOFTHCA_FABRIC=test-conformance-inline-$$
exec "$(dirname "$0")/gtest_tap.sh" "$SOFTHCA" run --executor inline -- ./verbs-conformance
