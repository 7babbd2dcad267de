#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Usage: contrib/check.sh [--all]
#
# Installs missing packages, builds with warnings as errors, and runs tests on the software HCA, in some 15 minutes:
# unit tests and documents; verbs, device and librwapi; the transport through UCT and with peers that break its protocol;
# perftest and ucx_perftest; Open MPI and MPICH over Tern and over stock UCX; and a selection of UCX's own tests. With
# --all, what a change must pass, in an hour: all other tests and programs too, with the form of the sources, packages,
# fuzz targets and guests with rdma_rxe; the suites of GoogleTest with the address and undefined-behaviour sanitizers and
# the transport's own assertions, those about threads with the thread sanitizer too, and a part of them on mlx5. What
# takes longer is in contrib/nightly.sh. The device is the personality strict. The last line is "N passed, N failed, N
# skipped".
#
# With --all, these leave out a part:
#   CHECK_LINT=no         the form of the sources
#   CHECK_RXE=no          the guests, which need 6 GiB of free memory and a kernel from Debian
#   CHECK_UCX=no          UCX's own tests, which take a minute to build
#   CHECK_SANITIZERS=no   the sanitizers; the suites run without
. "$(dirname "$0")/common.sh"
all=no
case $* in
    '') ;;
    --all) all=yes ;;
    *)
        sed -n '/^# Usage/,/^[^#]/ s/^# \{0,1\}//p' contrib/check.sh >&2
        exit 2
        ;;
esac
. contrib/tests.sh

# Tests that sweep settings leave out what another test or the nightly run covers.
export TERN_SELECTION=ci UCX_SELECTION=ci RXE_SELECTION=ci
# Tests that need nothing else run on the strictest device.
export TERN_PERSONALITY=strict

short_builds() {
    phase 'build' build_to_check
    phase 'build of the tests' build_tests build/check CXX=clang++
}
short_ucx() {
    phase "build of UCX's own tests" contrib/ucx-gtest.sh --build-only
}
if [ $all = no ]; then
    # clang without optimization compiles the tests in a third to a half of gcc's time. With --all, gcc compiles them.
    # valgrind 3.19 cannot read clang's DWARF 5.
    optimization='-O0 -gdwarf-4 -g1'
    expected=(['builds']=260 ['tests without a device']=75 ['tests on the software HCA']=300 ["UCX's own tests"]=116)
    install_packages build 'make check' 'MPI over UCX' 'memory that comes and goes in their own ways'
    phase 'set-up' prepare
    phase 'builds' together short_builds short_ucx
    # All orders of events of the models, and the simulated network, compute only.
    phase 'tests without a device' run_tests build/check check-pure \
        LEAVE_OUT='tern/tern_models.sh bench/tern_gate.sh bench/tern_sim.sh'
    TERN_SELECTION=short phase 'tests on the software HCA' run_tests build/check check-short
    phase "UCX's own tests" run_tests build/check check-ucx -j2
    exit
fi

# What mlx5 does in its own way: sizes and errors of queues, keys that come back at once, order promised in RTS only.
mlx5_filter='Cq*:Srq*:Qp*:Mr*:QueueLimit*:RcLocal*:Xrc*:Capacity*:*Refus*:DirectTest.*:DirectRogue.*:DirectExtremes*'
mlx5_filter+=':EngineCredit*:ReplyTest.*:TransferRogue*:TernAttributes.*:AtomicTest.*:MemoryTest.*:Published*:HotPathTest*:FlushTest*'

# Guests fill both processors only if two run, and some tests have two. Each needs 3 GiB.
guests_at_a_time() {
    awk '/^MemAvailable:/ { print ($2 > 13 * 1024 * 1024) ? 2 : 1 }' /proc/meminfo
}

# With the thread sanitizer: of these programs, the tests in which threads meet. The interface's own and the one that
# accepts connections, those of the software HCA, of monitors and of sleepers; the nightly run has all tests.
threads_programs='tern-engine rwapi-job rwapi-launch softhca-unit verbs-conformance'
threads_engine='accept accept_storm batch connect_storm cut_off direct_stop direct_traffic idle_channels later_queue'
threads_engine+=' last_receive many_peers pinning progress_budget refused refused_job sleep'
threads=(UNIT_TESTS='faults nic_model owner robust_lock' CONFORMANCE_TESTS='cq_event qp_event thread'
    ENGINE_TESTS="$threads_engine")

# as_on_mlx5 FOLDER [make argument...]
as_on_mlx5() {
    local folder=$1
    shift
    TERN_PERSONALITY=mlx5 GTEST_FILTER=$mlx5_filter \
        run_tests "$folder" check -j2 TESTS='tern/uct.sh tern/tern_engine.sh softhca/conformance_inline.sh' "$@"
}

if [ "${CHECK_SANITIZERS:-yes}" = no ]; then
    here=() here_only='' here_cases=''
else
    here_only=unsanitized
    # Of rwapi's cases over Tern, all of which run with the address sanitizer, those whose threads and processes meet at
    # other moments in a build that is fast. rwapi_order.sh and rwapi_rc.sh run most of the others in this build too.
    here_cases='threads contexts full-queue sleeping-threads woken-sleepers killed-waits killed-finalize'
    here_cases+=' bursts polled-burst repeats'
    # tern_pinning.sh and device.sh run only tests of these files.
    here=(check_PROGRAMS="$other_programs" LEAVE_OUT="${suites/tern\/tern_unit.sh/}" ENGINE_TESTS=pinning
        DEVICE_TESTS='cm_connection pipeline placement process_life')
fi

# What compiles in build/check, and what comes out of it. Tests are linked when packages have been made: `make install`
# moves libraries of the build while it links them anew.
build_and_packages() {
    phase 'build' build_to_check
    phase 'form of the sources' run_lint "${CHECK_LINT:-yes}" --tidy changed
    phase 'files of a release' run_tap build/dist.log test/common/packaging/dist.sh build/check
    phase 'Debian packages' built_packages
    phase 'build of the tests' build_tests build/check "${here[@]}"
}

# What compiles in folders of its own.
other_builds() {
    [ "${CHECK_UCX:-yes}" = no ] || phase "build of UCX's own tests" contrib/ucx-gtest.sh --build-only
    if [ "${CHECK_SANITIZERS:-yes}" != no ]; then
        phase 'build with address sanitizer and assertions' build_sanitized build/check-sanitize address \
            "$sanitized_programs"
        phase 'build with thread sanitizer' build_sanitized build/check-threads thread "$threads_programs" \
            "${threads[@]}"
    fi
    phase 'fuzz targets' run_tap build/fuzz.log contrib/fuzz.sh 2 quick
}

expected=(['side by side']=811 ['tests without a device']=111 ['tests on the software HCA']=540 ["UCX's own tests"]=114
    ['guests with rdma_rxe']=130 ['suites with address sanitizer and assertions']=477 ['suites as on mlx5']=60
    ['thread sanitizer']=105)
[ "${CHECK_UCX:-yes}" != no ] || expected["UCX's own tests"]=0
[ "${CHECK_RXE:-yes}" != no ] || expected['guests with rdma_rxe']=0
[ "${CHECK_SANITIZERS:-yes}" != no ] ||
    expected['suites with address sanitizer and assertions']=0 expected['thread sanitizer']=0
install_packages
phase 'set-up' prepare
phase 'side by side' together build_and_packages other_builds
phase 'tests without a device' run_tests build/check check-pure "${here[@]}"
DEVICE_SELECTION=$here_only RWAPI_CASES=$here_cases \
    phase 'tests on the software HCA' run_tests build/check check-device "${here[@]}"
[ "${CHECK_UCX:-yes}" = no ] || phase "UCX's own tests" run_tests build/check check-ucx -j2 "${here[@]}"
[ "${CHECK_RXE:-yes}" = no ] ||
    phase 'guests with rdma_rxe' run_tests build/check check-rxe "-j$(guests_at_a_time)" "${here[@]}"
if [ "${CHECK_SANITIZERS:-yes}" = no ]; then
    phase 'suites as on mlx5' as_on_mlx5 build/check
else
    phase 'suites with address sanitizer and assertions' run_sanitized build/check-sanitize "$sanitized_programs" \
        "rwapi/rwapi_job.sh $suites softhca/device.sh rwapi/rwapi_core.sh"
    phase 'suites as on mlx5' as_on_mlx5 build/check-sanitize check_PROGRAMS="$sanitized_programs"
    # Without the tests of one thread that the address sanitizer runs too; of rwapi's jobs, those with threads.
    GTEST_FILTER='-*Rogue*:*Fuzz*:Verbs/*:Settings/*' \
        RWAPI_CASES='threads sleeps-beside-a-thread contexts woken-sleepers' \
        phase 'thread sanitizer' run_sanitized build/check-threads "$threads_programs" \
        'tern/tern_engine.sh rwapi/rwapi_job.sh softhca/unit.sh softhca/conformance_thread.sh' "${threads[@]}"
fi
