#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# UCX's tests of the tag interface. No stock transport of the software HCA has this interface, so there is nothing to
# compare with.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
export UCX_TERN_TM_ENABLE=y
judge "${1:-tern/test_tag.*}"
