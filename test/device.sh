#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tests of the software HCA itself. They set the device up as they need it.
exec "$(dirname "$0")/gtest_tap.sh" "$SOFTHCA" run -- ./softhca-device
