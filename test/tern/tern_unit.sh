#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Unit tests, without those of tern_models.sh. They do not wait. With the thread sanitizer only those with threads.
filter='-*EveryOrderOfEvents*:TupleSchedules.*'
if ldd ./tern-unit | grep -q tsan; then
    filter='Block.ReaderMayPoll*:Regions.*:WatchedRanges*:Userfault*:*Hooked*'
fi
exec "$(dirname "$0")/../common/gtest_tap.py" ./tern-unit --gtest_filter="$filter"
