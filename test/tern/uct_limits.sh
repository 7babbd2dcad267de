#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The transport on a device that has few queue pairs and short completion queues.
export GTEST_FILTER='LimitTest.*'
exec "$(dirname "$0")/uct.sh" --rules max-qp=12,max-cqe=300
