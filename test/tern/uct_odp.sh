#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Transfers of each kind with on-demand paging: staged, direct, put and get, on a device whose page faults take time and
# are answered like a missing receive.
export UCX_TERN_PIN_MONITOR=odp TERN_PERSONALITY=strict
export GTEST_FILTER='Ways/TransferTest.*:DirectTest.*:Put*Test.*:RmaTest.*:RmaInPlaceTest.*:AtomicTest.*:Transfer*Test.*'
# Of other monitors; and a test that waits for the sender as often as pinned memory has it.
GTEST_FILTER+='-RmaInPlaceTest.UntilTheMemoryIsUnmapped:PublishedKeyTest.*'
exec "$(dirname "$0")/uct.sh" --rules odp=1
