#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# All of UCX's tests of transports and memory domains, without the tag interface.
# test_uct_perf measures twenty operations with two threads that poll. Where others use the processors too, one has to
# wait for the other for as long as the scheduler likes.
export UCX_GTEST_LIMIT=${UCX_GTEST_LIMIT:-600}
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
judge "${1:-tern/*:-tern/*ucp*:tern/test_tag.*}"
