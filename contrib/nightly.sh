#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# What takes too long for contrib/check.sh, which is to pass first: clang-tidy on all files; builds with clang++ and of
# each file by itself; packages of Debian 12 and 13 in clean roots; the unit tests for arm64; every test with all its
# settings; the tests of Tern and of verbs, and CI's selection of UCX's own, with each personality of the software HCA;
# ten minutes of random jobs; all of UCX's own tests; all tests on rdma_rxe; all tests that the sanitizers can run.
# Takes about five hours on two processors. Of these, a personality takes some ten minutes; on processors that had
# other work, the suites took 36 minutes under mlx5. The last line is "N passed, N failed, N skipped".
. "$(dirname "$0")/common.sh"
. contrib/tests.sh

clang_build() {
    command -v clang++ >/dev/null || die "clang++ is missing; install clang"
    build build/nightly-clang --enable-werror CC=clang CXX=clang++ CXXFLAGS='-g1 -O2'
    build_tests build/nightly-clang
}

# Two builds of the packages have the same bytes; what is installed works and goes away.
packages() {
    local command
    for command in dh lintian mmdebstrap; do
        command -v $command >/dev/null || die "$command is missing; install debhelper, lintian and mmdebstrap"
    done
    contrib/packaging/deb.sh build/check build/deb
    contrib/packaging/deb.sh build/check build/deb-again
    run_tap build/packages.log test/packaging/deb.sh build/deb build/deb-again
}

# Another release of Debian, in roots of its own. TRIXIE_UCX_SRC=FOLDER: its UCX's source, if the mirror has none.
packages_of() { # release
    local log=build/deb-$1.log
    if UCX_SRC=${TRIXIE_UCX_SRC:-} contrib/packaging/release.sh "$1" "build/deb-$1" >"$log" 2>&1; then
        RELEASE=$1 run_tap "build/packages-$1.log" test/packaging/deb.sh "build/deb-$1"
    else
        tail -n 40 "$log"
        failed=$((failed + 1))
    fi
}

say "this takes about five hours on two processors"
install_packages
phase 'build' build_to_check
phase 'form of the sources' run_lint yes --tidy all
phase 'build with clang++' clang_build
phase 'build of each file by itself' build build/nightly-files --enable-werror --disable-units CXXFLAGS='-g1 -O1'
phase 'build without the commands' build build/nightly-libraries --enable-werror --disable-tools CXXFLAGS='-g1 -O2'
phase 'files of a release' run_tap build/dist.log test/packaging/dist.sh build/check
phase 'source package' source_package
phase 'Debian packages' packages
phase 'packages of Debian 13' packages_of trixie
phase 'arm64' run_tap build/arm64.log contrib/arm64.sh
phase 'build of the tests' build_tests build/check
KILL_EVERY=7 phase 'tests without a device' run_tests build/check check-pure
phase 'fuzz targets' run_tap build/fuzz.log contrib/fuzz.sh 60
TERN_STORM=300 TERN_PINNING_STORM=20 TERN_MANY_PEERS=1000 TERN_ALL_TO_ALL=256 TERN_TEST_SLEEPS=50000 TERN_TEST_HUGE=y \
    TERN_TEST_KILLS=100 CONFORMANCE_DEADLINE=300 phase 'tests on the software HCA' run_tests build/check check-device
phase 'tests that take long' run_tests build/check check-nightly
phase 'random jobs' run_tap build/soak.log contrib/soak.sh 10 build/check
phase "build of UCX's own tests" contrib/ucx-gtest.sh --build-only
for personality in strict mlx5 mlx4 bnxt_re hns rxe; do
    export TERN_PERSONALITY=$personality
    phase "as on $personality" run_tests build/check check-personality
    UCX_SELECTION=ci phase "UCX's own tests as on $personality" run_tests build/check check-ucx -j2
done
unset TERN_PERSONALITY
# Tern needs shared receive queues, which irdma does not have.
TERN_PERSONALITY=irdma phase 'verbs as on irdma' run_tests build/check check \
    TESTS='conformance_inline.sh conformance_ethernet.sh'
phase "UCX's own tests" run_tests build/check check-ucx
phase 'guests with rdma_rxe' run_tests build/check check-rxe
phase 'address sanitizer and assertions' sanitize build/check-sanitize address "$sanitized_programs" \
    "$suites device.sh tern_models.sh rwapi_core.sh rwapi_job.sh"
phase 'thread sanitizer' sanitize build/check-threads thread 'tern-engine tern-uct rwapi-job' \
    'uct.sh tern_engine.sh rwapi_job.sh'
