#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Unit tests of the software HCA. With the thread sanitizer only those with threads, and not those that fork: a child
# may not start threads then.
filter=()
if ldd ./softhca-unit | grep -q tsan; then
    filter=(--gtest_filter='RobustLock*:Owner*:Faults*:NicModel*')
fi
exec "$(dirname "$0")/../common/gtest_tap.py" ./softhca-unit ${filter[@]+"${filter[@]}"}
