#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
exec "$(dirname "$0")/gtest_tap.sh" ./bench-unit
