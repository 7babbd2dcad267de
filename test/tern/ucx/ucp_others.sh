#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Of CI's selection of ucp.sh, the tests that do not wait.
UCX_SELECTION=ci-others exec "$(dirname "$0")/ucp.sh"
