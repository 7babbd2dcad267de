#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The conformance tests with GIDs as addresses. TERN_SELECTION=ci: those that make addresses, or connect by them in
# every way; the others are the same on both link layers.
addresses='Device*:Pd*:*UdTest*:*UcTest*:*QpStateTest*:*QpValueTest*:*QpBadValueTest*:*RemoteTest*:RemoteRc*:*SendTest*'
addresses+=':*RdmaWriteTest*:XrcTraffic*:RcRetry*:*RcAbsentPeer*'
[ "${TERN_SELECTION:-all}" != ci ] || export GTEST_FILTER=$addresses
exec "$(dirname "$0")/conformance.sh" --link-layer ethernet
