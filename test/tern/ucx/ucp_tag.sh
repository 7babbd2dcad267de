#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# UCX's tests of UCP's tagged messages, which Tern matches. The stock transport leaves matching to UCP.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
export UCX_TERN_TM_ENABLE=y
judge "${1:-tern/test_ucp_tag*}"
