#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tests of ucp.sh with UCP's newer protocols, the default since UCX 1.16.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
export UCX_PROTO_ENABLE=y
judge "${1:-$(ucp_filter)}"
