#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# UCX's tests of UCP, except those of connections by socket address. UCX_SELECTION=ci: only a part of them.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
judge "${1:-$(ucp_filter)}"
