# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What check.sh and nightly.sh share: running tests, and counting their verdicts. Sourced after common.sh. When the
# script ends, failures are shown once more, and the last line is "N passed, N failed, N skipped".

# The suites of GoogleTest, which check.sh runs with the address sanitizer only, except tern_unit.sh, which runs fewer
# random schedules there.
suites='tern/uct.sh tern/uct_ethernet.sh tern/tern_engine.sh tern/tern_engine_ethernet.sh tern/tern_engine_lmc.sh softhca/unit.sh tern/tern_unit.sh'
suites+=' tern/uct_odp.sh tern/uct_limits.sh tern/tern_order.sh softhca/conformance_inline.sh softhca/conformance_thread.sh'
suites+=' softhca/conformance_ethernet.sh'
# The programs that the tests with the address sanitizer need, and those that the others need.
sanitized_programs='softhca-unit softhca-device tern-unit tern-engine tern-uct verbs-conformance rwapi-core rwapi-job rwapi-launch'
other_programs='softhca-device tern-engine tern-unit tern-instructions'
other_programs+=' rwapi-launch rwapi-start rwapi-start-unit rwapi-core rwapi-job tern-gpu bench-unit'

max_lines=20 # of a failed test case's output, in the summary

passed=0
failed=0
skipped=0
failures=() # printed at the end, so that the last page of a log has them

# matches NAME [PATTERN...]: whether one of the patterns matches, or there is none.
matches() {
    local name=$1 pattern
    shift
    [ $# -gt 0 ] || return 0
    for pattern; do
        # shellcheck disable=SC2053
        [[ $name != $pattern ]] || return 0
    done
    return 1
}

# Sets `ticks` to the processor time, in hundredths of a second, of this shell and of all that it has waited for.
count_ticks() {
    local fields
    read -ra fields <"/proc/$BASHPID/stat"
    ticks=$((fields[13] + fields[14] + fields[15] + fields[16]))
}

# In how many seconds two processors get through the phases that have not ended, of those that check.sh has; and how
# long the others should have taken, and took.
declare -A expected=()
planned=0
took=0

# The minutes that are left, if this machine goes on as it began.
left() {
    local seconds sum=0
    for seconds in "${expected[@]}"; do sum=$((sum + seconds)); done
    [ $planned = 0 ] || sum=$((sum * took / planned))
    echo $(((sum + 59) / 60))
}

# phase NAME COMMAND...: runs the command, and says how long it took, and how long processors worked for it. If
# `phases` has patterns, only what they match.
phases=()
phase() {
    local name=$1 begin=$SECONDS ticks before
    shift
    matches "$name" ${phases[@]+"${phases[@]}"} || return 0
    say "$name${expected[$name]:+ ($(left) minutes left)}"
    # A phase that runs beside others shows that something happens.
    [ -z "$beside" ] || say "$name ..." >&3
    count_ticks
    before=$ticks
    "$@" 3>&-
    count_ticks
    say "$name: $((SECONDS - begin)) s, of processors $(((ticks - before) / 100)) s"
    if [ -n "${expected[$name]:-}" ]; then
        planned=$((planned + ${expected[$name]})) took=$((took + SECONDS - begin))
        expected[$name]=0
    fi
}

beside= # not empty: this shell is one of those that `together` starts
lanes=() # what it has started and has not ended: each leads a group of processes

# together FUNCTION...: runs functions that have phases side by side, so that one computes while another waits or has
# work for one processor only. What each has printed comes when it has ended, and what it has counted is added.
together() {
    local lane folder=build/side-by-side status=0 counts
    rm -rf $folder
    mkdir -p $folder
    set -m
    for lane; do
        (
            set +m
            beside=yes lanes=() passed=0 failed=0 skipped=0 failures=()
            trap 'keep_counts "$folder/$lane"' EXIT
            "$lane"
        ) 3>&1 >"$folder/$lane" 2>&1 </dev/null &
        lanes+=($!)
    done
    set +m
    for lane; do
        wait "${lanes[0]}" || status=1
        lanes=("${lanes[@]:1}")
        cat "$folder/$lane"
        [ $status = 0 ] || exit 1
        read -ra counts <"$folder/$lane.counts"
        passed=$((passed + counts[0]))
        failed=$((failed + counts[1]))
        skipped=$((skipped + counts[2]))
        [ ! -s "$folder/$lane.failures" ] || failures+=("$(cat "$folder/$lane.failures")")
    done
}

keep_counts() { # file
    echo "$passed $failed $skipped" >"$1.counts"
    [ ${#failures[@]} = 0 ] || printf '%s\n' "${failures[@]}" >"$1.failures"
}

# Packages of what build/check has compiled, and that of the software HCA, built without UCX. They work in a layer above
# this machine's root and leave nothing behind.
built_packages() {
    local log=build/deb-built.log folders built
    read -ra folders <<<"$(contrib/packaging/deb.sh --folders)"
    cached build build/softhca --enable-werror --disable-tern --disable-rwapi CXXFLAGS="$check_flags" "${folders[@]}"
    for built in check softhca; do
        if contrib/packaging/deb.sh --built build/$built build/deb-$built >$log 2>&1; then
            PACKAGES_ROOT=/ run_tap build/packages-$built.log test/common/packaging/deb.sh build/deb-$built
        else
            tail -n 40 $log
            failed=$((failed + 1))
        fi
    done
}

# The lines of a log that count as failures, each with the beginning of its output.
excerpts() { # log
    awk -v max="$max_lines" '
        /^(not ok|ok .* # TODO|Bail out!)/ && !/^not ok .* # TODO/ { print; left = max; next }
        /^#/ { if (left-- > 0) print; next }
        /^(PASS|FAIL|XPASS|XFAIL|ERROR): / { next } # what the driver makes of the line before
        { left = 0 }' "$1"
}

# Words of test/common/skips.txt for what this kernel refuses to this user, with a comma before each.
refusals() {
    python3 - <<'END'
import ctypes, platform
call = ctypes.CDLL(None).syscall
userfaultfd = {"x86_64": 323, "aarch64": 282}.get(platform.machine(), -1)
for word, refused in (
    ("no-userfaultfd", call(userfaultfd, 1) < 0),  # memory of this process, not of the kernel
    ("no-io-uring", call(425, 1, ctypes.create_string_buffer(256)) < 0),
):
    print("," + word if refused else "", end="")
END
}

# Skipped tests that test/common/skips.txt does not allow count as failures.
check_skips() { # folder
    local log script problem where
    where=${TERN_PERSONALITY:-default}$(refusals)
    while read -r log; do
        log=${log%.trs}.log
        script=${log#"$1/test/"}
        while read -r problem; do
            say "$problem"
            failures+=("$(say "$problem")")
            failed=$((failed + 1))
        done < <(awk -f test/common/skips.awk -v where="$where" -v script="${script%.log}" test/common/skips.txt "$log")
    done < <(find "$1/test" -name '*.trs')
}

# Counts the verdicts of a folder's tests, and shows the output of failed ones. A failure that was expected is no pass.
count() { # folder
    local verdict log
    check_skips "$1"
    while read -r verdict; do
        case $verdict in
            PASS) passed=$((passed + 1)) ;;
            SKIP | XFAIL) skipped=$((skipped + 1)) ;;
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
    local status=$? lane
    for lane in ${lanes[@]+"${lanes[@]}"}; do kill -TERM -- "-$lane" 2>/dev/null || true; done
    [ $status = 0 ] || [ $failed -gt 0 ] || failed=1
    [ $((passed + failed)) -gt 0 ] || failed=1
    [ ${#failures[@]} = 0 ] || printf '%s\n' "${failures[@]}"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ] || exit 1
}
trap summary EXIT
trap 'exit 1' HUP INT TERM

# run_lint yes|no OPTION...: the form of the sources.
run_lint() {
    local yes=$1
    shift
    [ "$yes" != no ] || return 0
    run_tap build/lint.log contrib/lint.sh "$@"
}

# run_tap LOG COMMAND...: a command that prints TAP, and is no test of make's.
run_tap() {
    local log=$1 status=0 wrong
    shift
    mkdir -p "$(dirname "$log")"
    "$@" >"$log" 2>&1 || status=$?
    cat "$log"
    wrong=$(grep -c '^not ok' "$log" || true)
    # It failed for another reason than a failed test.
    [ $status = 0 ] || [ "$wrong" -gt 0 ] || wrong=1
    [ $status = 0 ] || failures+=("$(say "$log failed:")" "$(excerpts "$log")")
    passed=$((passed + $(grep -c '^ok .*' "$log" || true) - $(grep -c '^ok .* # SKIP' "$log" || true)))
    skipped=$((skipped + $(grep -c '# SKIP' "$log" || true)))
    failed=$((failed + wrong))
}

# Most of the test programs' time is the library's or the compiler's, so they are optimized little; with a sanitizer, not
# at all, which halves the compiler's time.
optimization=-O1

# build_tests FOLDER [make argument...]
build_tests() {
    local folder=$1
    shift
    make -C "$folder/test" -s -j"$(nproc)" check CXXFLAGS="-g1 $optimization" TESTS= "$@"
}

# How long each test took: from the first line of its log to its verdict.
durations() { # folder
    local end name
    find "$1/test" -name '*.trs' -printf '%T@ %p\n' | sort -n | while read -r end name; do
        printf '   %4d s  %s\n' $((${end%.*} - $(stat -c %W "${name%.trs}.log"))) "${name#"$1/test/"}"
    done
}

# run_tests FOLDER TARGET [make argument...]: the test programs have been built.
run_tests() {
    local folder=$1 target=$2 status=0 failed_before=$failed
    shift 2
    find "$folder/test" -name '*.trs' -delete
    make -C "$folder/test" -s "$target" CXXFLAGS="-g1 $optimization" "$@" || status=$?
    # A list that make takes for empty passes.
    [ -n "$(find "$folder/test" -name '*.trs' -print -quit)" ] || status=1
    count "$folder"
    durations "$folder"
    # make failed for another reason than a failed test.
    [ $status = 0 ] || [ "$failed" -gt "$failed_before" ] || failed=$((failed + 1))
}

# build_sanitized FOLDER SANITIZERS PROGRAMS [make argument...]: builds these GoogleTest programs. The transport checks
# its own assertions. clang takes two thirds of the time that gcc takes, but its thread sanitizer cannot be preloaded.
build_sanitized() {
    local folder=$1 sanitizers=$2 programs=$3 optimization=-O0 compilers=()
    shift 3
    [ "$sanitizers" != address ] || compilers=(CC=clang CXX=clang++)
    set_up "$folder" --enable-werror --enable-debug --enable-sanitizers="$sanitizers" "${compilers[@]}" \
        CXXFLAGS='-g1 -O1'
    make -C "$folder/src" -s -j"$(nproc)" transport tern/ucp/librelease.la softhca/libsofthca.la librwapi.la \
        tools/softhca tools/tern-run
    build_tests "$folder" check_PROGRAMS="$programs" "$@"
}

# run_sanitized FOLDER PROGRAMS TESTS [make argument...]
run_sanitized() {
    local folder=$1 programs=$2 tests=$3 optimization=-O0
    shift 3
    run_tests "$folder" check -j2 check_PROGRAMS="$programs" TESTS="$tests" "$@"
}

# sanitize FOLDER SANITIZERS PROGRAMS TESTS: builds, and runs the tests.
sanitize() {
    build_sanitized "$1" "$2" "$3"
    run_sanitized "$1" "$3" "$4"
}
