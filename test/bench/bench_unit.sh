#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
srcdir=$(dirname "$0")/..
export srcdir
exec "$srcdir/common/gtest_tap.py" ./bench-unit
