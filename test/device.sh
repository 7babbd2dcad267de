#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tests of the software HCA itself. Each test chooses the settings of the device.
exec "$(dirname "$0")/gtest_tap.sh" "$SOFTHCA" run -- ./softhca-device
