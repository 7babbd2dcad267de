#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Unit tests of rwapi's pure core.
exec "$(dirname "$0")/../common/gtest_tap.py" ./rwapi-core
