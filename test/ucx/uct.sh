#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# All of UCX's tests of transports and memory domains, without the tag interface. UCX_SELECTION=ci: without those that
# measure for half a minute each.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
filter='tern/*:-tern/*ucp*:tern/test_tag.*'
[ "${UCX_SELECTION:-all}" != ci ] || filter+=':tern/test_uct_perf*:tern/test_uct_loopback*'
judge "${1:-$filter}"
