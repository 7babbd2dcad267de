#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The same tests of UCP with its newer protocols, which became the default with UCX 1.16.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
export UCX_PROTO_ENABLE=y
judge "${1:-$(ucp_filter)}"
