#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Unit tests of the start-up of rwapi.
exec "$(dirname "$0")/../common/gtest_tap.py" ./rwapi-start-unit
