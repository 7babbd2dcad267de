#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Installs missing packages, builds with warnings as errors, and runs every test, then a selection of UCX's own tests
# over Tern, and a selection of the tests on rdma_rxe in a guest. Builds once more with the address and
# undefined-behaviour sanitizers and runs the tests that need no other programs, and once with the thread sanitizer for
# the transport's tests and rwapi's jobs with threads. The last line is "N passed, N failed, N skipped".
#
#   CHECK_RXE=no          leaves out the guests, which need 6 GiB of free memory and a kernel from Debian
#   CHECK_UCX=no          leaves out UCX's own tests, which take 3 minutes to build
#   CHECK_SANITIZERS=no   leaves out the sanitizers
. "$(dirname "$0")/common.sh"

max_lines=20 # of a failed test case's output, in the summary

passed=0
failed=0
skipped=0
failures=() # printed at the end, so that the last page of a log has them

# The lines of a log that count as failures, each with the beginning of its output.
excerpts() { # log
    awk -v max="$max_lines" '
        /^(not ok|ok .* # TODO|Bail out!)/ && !/^not ok .* # TODO/ { print; left = max; next }
        /^#/ { if (left-- > 0) print; next }
        /^(PASS|FAIL|XPASS|XFAIL|ERROR): / { next } # what the driver makes of the line before
        { left = 0 }' "$1"
}

# Counts the verdicts of a folder's tests, and shows the output of failed ones.
count() { # folder
    local verdict log
    while read -r verdict; do
        case $verdict in
            PASS | XFAIL) passed=$((passed + 1)) ;;
            SKIP) skipped=$((skipped + 1)) ;;
            *) failed=$((failed + 1)) ;;
        esac
    done < <(find "$1/test" -name '*.trs' -exec sed -n 's/^:test-result: \([A-Z]*\).*/\1/p' {} +)
    while read -r log; do
        log=${log%.trs}.log
        say "$log"
        cat "$log"
        failures+=("$(say "$log failed:")" "$(excerpts "$log")")
    done < <(find "$1/test" -name '*.trs' -exec grep -El '^:test-result: (FAIL|XPASS|ERROR)' {} +)
}

# A broken set-up, or tests that never ran, count as one failure.
summary() {
    local status=$?
    [ $status = 0 ] || [ $failed -gt 0 ] || failed=1
    [ $((passed + failed)) -gt 0 ] || failed=1
    [ ${#failures[@]} = 0 ] || printf '%s\n' "${failures[@]}"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ] || exit 1
}
trap summary EXIT
trap 'exit 1' HUP INT TERM

# run_tests FOLDER TARGET [make argument...]
run_tests() {
    local folder=$1 target=$2 status=0 failed_before=$failed
    shift 2
    say "testing in $folder: $target"
    find "$folder/test" -name '*.trs' -delete
    # Builds the test programs on all processors, then runs the tests one after the other. Most of the programs' time is
    # the library's or the compiler's, so they are optimized little.
    make -C "$folder/test" -s -j"$(nproc)" check CXXFLAGS='-g1 -O1' "$@" TESTS= &&
        make -C "$folder/test" -s "$target" "$@" || status=$?
    count "$folder"
    # make failed for another reason than a failed test.
    [ $status = 0 ] || [ "$failed" -gt "$failed_before" ] || failed=$((failed + 1))
}

# sanitize FOLDER SANITIZERS PROGRAMS TESTS: builds these GoogleTest programs and runs the tests.
sanitize() {
    local folder=$1 sanitizers=$2 programs=$3 tests=$4
    say "building in $folder"
    set_up "$folder" --enable-werror --enable-sanitizers="$sanitizers" CXXFLAGS='-g1 -O1'
    make -C "$folder/src" -s -j"$(nproc)" libuct_tern.la ucp/librelease.la softhca/libsofthca.la librwapi.la \
        tools/softhca tools/tern-run tools/rwapi-run
    run_tests "$folder" check check_PROGRAMS="$programs" TESTS="$tests"
}

install_packages
build_to_check
run_tests build/check check
if [ "${CHECK_UCX:-yes}" != no ]; then
    contrib/ucx-gtest.sh --build-only
    UCX_SELECTION=ci run_tests build/check check-ucx
fi
[ "${CHECK_RXE:-yes}" = no ] || RXE_SELECTION=ci run_tests build/check check-rxe
if [ "${CHECK_SANITIZERS:-yes}" != no ]; then
    sanitize build/check-sanitize address \
        'softhca-unit tern-unit tern-engine tern-uct verbs-conformance rwapi-core rwapi-job' \
        'unit.sh tern_unit.sh tern_engine.sh uct.sh conformance_inline.sh conformance_thread.sh rwapi_core.sh rwapi_job.sh'
    # Tests of many settings, each with one thread, tell the thread sanitizer nothing new, and take three minutes.
    # Of rwapi's jobs, those with threads.
    GTEST_FILTER='-Setups/*:Ways/*' RWAPI_CASES='threads sleeps-beside-a-thread contexts' \
        sanitize build/check-threads thread 'tern-engine tern-uct rwapi-job' 'tern_engine.sh uct.sh rwapi_job.sh'
fi
