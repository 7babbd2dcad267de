#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tests of the software HCA itself. Each test chooses the settings of the device. DEVICE_SELECTION=unsanitized: only
# those that the build with the address sanitizer leaves out.
#
# Left out there: tests of the order in which words appear, which poll for so long that they exceed their time; a process
# without descriptors, with which the check of virtual tables reads memory; and a child that ends with what it has
# inherited, which the check for leaks reports.
left_out='*OrderTest.WordsAppear*:*PipelineTest.ASendShows*:CmConnectionTest.WithoutDescriptors'
left_out+=':*ForkTest.ChildMayReleaseWhatItInherited*'
filter=()
if ldd ./softhca-device | grep -q asan; then
    filter=(--gtest_filter="-$left_out")
elif [ "${DEVICE_SELECTION:-}" = unsanitized ]; then
    filter=(--gtest_filter="$left_out")
fi
exec "$(dirname "$0")/../common/gtest_tap.py" "$SOFTHCA" run -- ./softhca-device ${filter[@]+"${filter[@]}"}
