#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# All of UCX's tests of transports and memory domains, without the tag interface.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
judge "${1:-tern/*:-tern/*ucp*:tern/test_tag.*}"
