#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# These tests wait for nobody: the longest take 20 seconds of a processor's time with a sanitizer.
exec "$(dirname "$0")/gtest_tap.sh" -t 180 ./tern-unit
