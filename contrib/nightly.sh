#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Usage: contrib/nightly.sh [--list | PHASE...]
#
# What takes too long for contrib/check.sh, which is to pass first: clang-tidy on all files; builds with clang++, of
# each file by itself, and of the software HCA alone; packages of Debian 12 and 13 in clean roots; the unit tests and
# the engine's for arm64; every test with all its settings; the tests of Tern and of verbs, and CI's selection of UCX's
# own, with each personality of the software HCA; all rows of the gate; ten minutes of random jobs; all of UCX's own
# tests; all tests on rdma_rxe; all tests that the sanitizers can run. Takes about five hours on two processors. Of
# these, a personality takes some ten minutes; on processors that had other work, the suites took 36 minutes under
# mlx5. The last line is "N passed, N failed, N skipped".
#
# PHASE is a name that --list prints, or a pattern: contrib/nightly.sh 'build *' arm64 runs only these phases. The phases
# that test build/check need 'build' and 'build of the tests' before them, once.
. "$(dirname "$0")/common.sh"
. contrib/tests.sh

# A build that succeeds is a test that passes. `needed`: the phases after it need it.
needed() { # command...
    "$@"
    passed=$((passed + 1))
}

# And the others go on.
counted() { # command...
    if "$@"; then
        passed=$((passed + 1))
    else
        failures+=("$(say "failed: $*")")
        failed=$((failed + 1))
    fi
}

build_with_tests() { # FOLDER [configure option...]
    build "$@" && build_tests "$1"
}

# The device needs no UCX, and tests itself.
softhca_alone() {
    counted build_with_tests build/nightly-softhca --enable-werror --disable-tern --disable-rwapi CXXFLAGS='-g1 -O2'
    run_tests build/nightly-softhca check \
        TESTS='softhca/unit.sh softhca/conformance_inline.sh softhca/device.sh softhca/tool.sh'
    ! ldd build/nightly-softhca/src/softhca/.libs/libsofthca.so | grep -E 'libuc[pst]' || failed=$((failed + 1))
}

# That a release builds outside of its source tree, installs, uninstalls and cleans up; without tests, which run anyway.
# What it compiles is mostly in the cache.
source_package() {
    local log=build/distcheck.log
    if cached make -C build/check -s -j"$(nproc)" distcheck TESTS= check_PROGRAMS= GZIP_ENV=--fast \
        DISTCHECK_CONFIGURE_FLAGS="--quiet --enable-werror --with-ucx-src=$source_dir/build/ucx-headers \
            CXXFLAGS='$check_flags'" >$log 2>&1; then
        passed=$((passed + 1))
    else
        tail -n 40 $log
        failed=$((failed + 1))
    fi
}

# Two builds of the packages have the same bytes; what is installed works and goes away.
packages() {
    local command
    for command in dh lintian mmdebstrap; do
        command -v $command >/dev/null || die "$command is missing; install debhelper, lintian and mmdebstrap"
    done
    contrib/packaging/deb.sh build/check build/deb
    contrib/packaging/deb.sh build/check build/deb-again
    run_tap build/packages.log test/common/packaging/deb.sh build/deb build/deb-again
}

# Another release of Debian, in roots of its own. TRIXIE_UCX_SRC=FOLDER: its UCX's source, if the mirror has none.
packages_of() { # release
    local log=build/deb-$1.log
    if UCX_SRC=${TRIXIE_UCX_SRC:-} contrib/packaging/release.sh "$1" "build/deb-$1" >"$log" 2>&1; then
        RELEASE=$1 run_tap "build/packages-$1.log" test/common/packaging/deb.sh "build/deb-$1"
    else
        tail -n 40 "$log"
        failed=$((failed + 1))
    fi
}

case ${1:-} in
    -h | --help)
        trap - EXIT
        sed -n '/^# Usage/,/^[^#]/ s/^# \{0,1\}//p' contrib/nightly.sh
        exit 0
        ;;
    --list)
        trap - EXIT
        phase() { echo "$1"; }
        ;;
    *)
        phases=("$@")
        mapfile -t names < <(contrib/nightly.sh --list)
        for pattern; do
            matched=no
            for name in "${names[@]}"; do ! matches "$name" "$pattern" || matched=yes; done
            [ $matched = yes ] || die "no phase is called $pattern; contrib/nightly.sh --list prints the names"
        done
        [ $# -gt 0 ] || say "this takes about five hours on two processors"
        install_packages
        ;;
esac
phase 'build' needed build_to_check
phase 'form of the sources' run_lint yes --tidy all
phase 'build with clang++' counted build_with_tests build/nightly-clang \
    --enable-werror CC=clang CXX=clang++ CXXFLAGS='-g1 -O2'
optimization=-O0 phase 'build of each file by itself' counted build_with_tests build/nightly-files \
    --enable-werror --disable-units CXXFLAGS=-O0
phase 'build without the commands' counted build build/nightly-libraries \
    --enable-werror --disable-tools CXXFLAGS='-g1 -O2'
phase 'the software HCA by itself' softhca_alone
phase 'files of a release' run_tap build/dist.log test/common/packaging/dist.sh build/check
phase 'source package' source_package
phase 'Debian packages' packages
phase 'packages of Debian 13' packages_of trixie
phase 'arm64' run_tap build/arm64.log contrib/arm64.sh
phase 'build of the tests' needed build_tests build/check
KILL_EVERY=7 phase 'tests without a device' run_tests build/check check-pure
phase 'fuzz targets' run_tap build/fuzz.log contrib/fuzz.sh 60
TERN_STORM=300 TERN_PINNING_STORM=20 TERN_MANY_PEERS=1000 TERN_ALL_TO_ALL=256 TERN_TEST_SLEEPS=50000 TERN_TEST_HUGE=y \
    TERN_TEST_KILLS=100 CONFORMANCE_DEADLINE=300 FIRST_RUN_PERSONALITIES='strict mlx5 mlx4 hns rxe' phase 'tests on the software HCA' run_tests build/check check-device
phase 'tests that take long' run_tests build/check check-nightly
GATE_SUBSET=all phase 'Tern and its peers' run_tests build/check check TESTS=bench/tern_gate.sh check_PROGRAMS=
phase 'random jobs' run_tap build/soak.log contrib/soak.sh 10 build/check
phase "build of UCX's own tests" needed contrib/ucx-gtest.sh --build-only
for personality in strict mlx5 mlx4 bnxt_re hns rxe; do
    export TERN_PERSONALITY=$personality
    phase "as on $personality" run_tests build/check check-personality
    UCX_SELECTION=ci phase "UCX's own tests as on $personality" run_tests build/check check-ucx -j2
done
unset TERN_PERSONALITY
# Tern needs shared receive queues, which irdma does not have.
TERN_PERSONALITY=irdma phase 'verbs as on irdma' run_tests build/check check \
    TESTS='softhca/conformance_inline.sh softhca/conformance_ethernet.sh'
phase "UCX's own tests" run_tests build/check check-ucx
phase 'guests with rdma_rxe' run_tests build/check check-rxe
phase 'address sanitizer and assertions' sanitize build/check-sanitize address "$sanitized_programs" \
    "$suites softhca/device.sh tern/tern_models.sh rwapi/rwapi_core.sh rwapi/rwapi_job.sh"
phase 'thread sanitizer' sanitize build/check-threads thread \
    'tern-engine tern-uct rwapi-job rwapi-launch softhca-unit tern-unit verbs-conformance' \
    'tern/uct.sh tern/tern_engine.sh rwapi/rwapi_job.sh softhca/unit.sh tern/tern_unit.sh softhca/conformance_thread.sh'
