#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The unit tests that try every order of events, or many random ones: half of the time of all unit tests.
exec "$(dirname "$0")/../common/gtest_tap.py" ./tern-unit --gtest_filter='*EveryOrderOfEvents*:TupleSchedules.*'
