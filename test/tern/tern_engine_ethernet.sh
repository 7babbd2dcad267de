#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Those tests of Tern's engine for which Ethernet makes a difference.
export GTEST_FILTER='AddressHandleTest.*:PortPathsTest.*'
exec "$(dirname "$0")/tern_engine.sh" --link-layer ethernet
