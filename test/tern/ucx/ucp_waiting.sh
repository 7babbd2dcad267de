#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Of CI's selection of ucp.sh, the tests that wait for time-outs.
UCX_SELECTION=ci-waiting exec "$(dirname "$0")/ucp.sh"
