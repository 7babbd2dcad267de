#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Unit tests, without those of tern_models.sh. They do not wait.
exec "$(dirname "$0")/gtest_tap.sh" -t 180 ./tern-unit --gtest_filter='-*EveryOrderOfEvents*:TupleSchedules.*'
