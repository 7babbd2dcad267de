#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Installs missing packages, builds with warnings as errors, checks the form of the sources, and runs the tests: all
# that use the software HCA, the transport's with its personality strict and a selection with mlx5; then a selection of
# UCX's own tests over Tern, and a selection of the tests on rdma_rxe in a guest. Builds once more with the address and
# undefined-behaviour sanitizers and with the transport's own assertions, and runs the tests that need no other
# programs; and once with the thread sanitizer for the tests of threads. What takes longer is in contrib/nightly.sh. The
# last line is "N passed, N failed, N skipped".
#
#   CHECK_LINT=no         leaves out the form of the sources
#   CHECK_RXE=no          leaves out the guests, which need 6 GiB of free memory and a kernel from Debian
#   CHECK_UCX=no          leaves out UCX's own tests, which take 3 minutes to build
#   CHECK_SANITIZERS=no   leaves out the sanitizers
. "$(dirname "$0")/common.sh"
. contrib/tests.sh

# Tests that sweep settings leave out what another test or the nightly run covers.
export TERN_SELECTION=ci UCX_SELECTION=ci RXE_SELECTION=ci
# Tests that need nothing else run on the strictest device.
export TERN_PERSONALITY=strict
# What mlx5 does in its own way: sizes and errors of queues, keys that come back at once, order promised in RTS only.
mlx5_filter='Cq*:Srq*:Qp*:Mr*:QueueLimit*:RcLocal*:Xrc*:Capacity*:*Refus*:DirectTest.*:DirectRogue.*:DirectExtremes*'
mlx5_filter+=':EngineCredit*:ReplyTest.*:TransferRogue*:TernAttributes.*:AtomicTest.*:MemoryTest.*:Published*:HotPathTest*:FlushTest*'

# Guests fill both processors only if two run, and some tests have two. Each needs 3 GiB.
guests_at_a_time() {
    awk '/^MemAvailable:/ { print ($2 > 13 * 1024 * 1024) ? 2 : 1 }' /proc/meminfo
}

say "this takes 30 to 40 minutes on two processors"
install_packages
phase 'build' build_to_check
phase 'form of the sources' run_lint "${CHECK_LINT:-yes}" --tidy changed
phase 'build of the tests' build_tests build/check
phase 'tests without a device' run_tests build/check check-pure
phase 'tests on the software HCA' run_tests build/check check-device
TERN_PERSONALITY=mlx5 GTEST_FILTER=$mlx5_filter \
    phase 'a selection as on mlx5' run_tests build/check check -j2 TESTS='uct.sh tern_engine.sh conformance_inline.sh'
if [ "${CHECK_UCX:-yes}" != no ]; then
    phase "build of UCX's own tests" contrib/ucx-gtest.sh --build-only
    phase "UCX's own tests" run_tests build/check check-ucx -j2
fi
[ "${CHECK_RXE:-yes}" = no ] || phase 'guests with rdma_rxe' run_tests build/check check-rxe "-j$(guests_at_a_time)"
if [ "${CHECK_SANITIZERS:-yes}" != no ]; then
    phase 'address sanitizer and assertions' sanitize build/check-sanitize address \
        'softhca-unit tern-unit tern-engine tern-uct verbs-conformance rwapi-core rwapi-job' \
        'uct.sh tern_engine.sh unit.sh tern_models.sh tern_unit.sh conformance_inline.sh conformance_thread.sh rwapi_core.sh rwapi_job.sh'
    # Tests of many settings, each with one thread, tell the thread sanitizer nothing new, and take three minutes.
    # Of rwapi's jobs, those with threads.
    GTEST_FILTER='-Setups/*:Ways/*' RWAPI_CASES='threads sleeps-beside-a-thread contexts' \
        phase 'thread sanitizer' sanitize build/check-threads thread 'tern-engine tern-uct rwapi-job' \
        'uct.sh tern_engine.sh rwapi_job.sh'
fi
