#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Those tests of the transport for which Ethernet makes a difference, with GIDs of RoCE v1 and v2.
export GTEST_FILTER='WireSettingsTest.*:UnreachableTest.Lost*'
exec "$(dirname "$0")/uct.sh" --link-layer ethernet --personality mlx5
