#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
export SOFTHCA_FABRIC=test-conformance-ethernet-$$
exec "$(dirname "$0")/gtest_tap.sh" "$SOFTHCA" run --link-layer ethernet -- ./verbs-conformance
