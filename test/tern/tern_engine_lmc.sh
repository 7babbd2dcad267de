#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Those tests of Tern's engine for which it makes a difference that ports have several LIDs.
export GTEST_FILTER='PortPathsTest.*'
exec "$(dirname "$0")/tern_engine.sh" --rules lmc=2
