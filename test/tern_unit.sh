#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Unit tests. They do not wait; the longest ones need 20 seconds of processor time with a sanitizer.
exec "$(dirname "$0")/gtest_tap.sh" -t 180 ./tern-unit
