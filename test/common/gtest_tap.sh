#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs a GoogleTest program and prints TAP: one line for each test case.
#
#   gtest_tap.sh [-t SECONDS] command [argument...]
#
#   -t  limit for one test case (default 300)
#
# A test case is "not ok" if the program dies in it or exceeds the limit; the program is then started again for the
# remaining cases. A process that outlives the program is "not ok", too. An argument --gtest_filter=... selects test
# cases.
set -u

limit=300
max_restarts=${GTEST_TAP_RESTARTS:-20}
max_cases=500 # in one run of the program, because one argument names them all
max_lines=200

while getopts t: option; do
    case $option in
        t) limit=$OPTARG ;;
        *) echo "usage: $0 [-t SECONDS] command [argument...]" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))

number=0
failures=0
remaining=() # test cases without a verdict, in order
current=     # the running test case
output=()    # output of the current case
reports=()   # of the thread sanitizer, which lets a case pass and the program fail
reporting=
skipped=     # the reason for a skip in UCX's own words

mark="gtest_tap $$:" # begins lines that are not the program's
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

bail_out() {
    echo "Bail out! $1"
    exit 1
}

verdict() { # ok|not ok, name, [directive]
    number=$((number + 1))
    [ "$1" = ok ] || failures=$((failures + 1))
    echo "$1 $number - $2${3:+ # $3}"
}

diagnostics() {
    local line
    for line in ${output[@]+"${output[@]:0:max_lines}"}; do
        echo "# $line"
    done
    [ ${#output[@]} -le $max_lines ] || echo "# (and $((${#output[@]} - max_lines)) lines more)"
    output=()
}

list_cases() {
    local line suite='' listing
    listing=$(timeout -k 5 "$limit" "$@" --gtest_list_tests) || bail_out "cannot list the tests of: $*"
    while IFS= read -r line; do
        line=${line%%  \# *}
        case $line in
            '  '*DISABLED_*) ;;
            '  '*) [[ $suite == *DISABLED_* ]] || remaining+=("$suite${line#  }") ;;
            *.) suite=$line ;;
        esac
    done <<<"$listing"
}

finish_case() { # ok|not ok [directive]
    local i
    verdict "$1" "$current" "${2:-}"
    for i in "${!remaining[@]}"; do
        [ "${remaining[i]}" != "$current" ] || unset "remaining[$i]"
    done
    [ "$1" = ok ] || diagnostics
    output=()
    skipped=
    current=
    begin_clock
}

skip_reason() {
    local i
    for ((i = 0; i + 1 < ${#output[@]}; i++)); do
        [[ ${output[i]} == *': Skipped' ]] && echo "${output[i + 1]//\#/}" && return
    done
    echo "no reason given"
}

handle_line() {
    case $1 in
        *'[ RUN      ] '*)
            current=${1##*'[ RUN      ] '}
            current=${current%% <*}
            reached=1
            begin_clock
            skipped=
            output=() ;;
        *'[     SKIP ] '*)
            skipped=${1##*'[     SKIP ] '}
            skipped=${skipped:-no reason given} ;;
        *"[       OK ] $current ("*) [ -z "$current" ] || finish_case ok ${skipped:+"SKIP ${skipped//\#/}"} ;;
        *"[  SKIPPED ] $current ("*) [ -z "$current" ] || finish_case ok "SKIP $(skip_reason)" ;;
        *"[  FAILED  ] $current"[\ ,]*) [ -z "$current" ] || finish_case 'not ok' ;;
        '[-----'* | '[====='* | '') ;;
        *)
            output+=("$1")
            keep_report "$1" ;;
    esac
}

keep_report() { # line
    [[ $1 != 'WARNING: ThreadSanitizer'* ]] || reporting="in or before $current"
    [ -n "$reporting" ] || return
    reports+=("$1")
    [[ $1 != 'SUMMARY: '* ]] || { reports+=("$reporting") && reporting=; }
}

# The live processes of session $1.
session_members() {
    ps -o stat=,pid=,comm= -s "$1" | awk '$1 !~ /^Z/ { print $2, $3 }'
}

kill_session() {
    local pid _
    while read -r pid _; do
        kill -KILL "$pid" 2>/dev/null
    done < <(session_members "$1")
}

# The time of a case begins: it is started, or the one before has ended.
begin_clock() {
    printf '%(%s)T\n' -1 >"$tmp/clock"
}

# Ends the session $1 when a case has taken longer than the limit.
watch() {
    local begun now
    while sleep 1; do
        read -r begun <"$tmp/clock" || continue
        printf -v now '%(%s)T' -1
        [ $((now - begun)) -gt "$limit" ] || continue
        touch "$tmp/late"
        kill_session "$1"
        return
    done
}

# Runs a program in a session of its own. Among its output, says which process it is, and last, how it has ended, also
# if processes that it has left hold the pipe open. (`read` with a time-out would lose the ends of lines that come at the
# same time.)
supervised() { # command...
    local program watcher status=0
    # shellcheck disable=SC2016 # for the inner shell
    setsid "$BASH" -c 'echo "$0 process $$" && exec "$@"' "$mark" "$@" 2>&1 &
    program=$!
    watch $program >/dev/null 2>&1 &
    watcher=$!
    wait $program || status=$?
    kill $watcher 2>/dev/null # unless it has ended the program
    printf '\n%s ended %s\n' "$mark" "$status"
}

# Runs the program once for the first max_cases of the remaining cases. Sets `status` to a number or "time-out",
# `reached` to 1 if a case was started, and `behind` to the number of cases left for further runs.
run_once() {
    local filter line pid=
    remaining=(${remaining[@]+"${remaining[@]}"})
    filter=$(IFS=:; echo "${remaining[*]:0:max_cases}")
    behind=$((${#remaining[@]} > max_cases ? ${#remaining[@]} - max_cases : 0))
    rm -f "$tmp/late"
    begin_clock
    exec 3< <(supervised "$@" --gtest_color=no --gtest_filter="$filter")
    status=
    reached=0
    while IFS= read -r -u 3 line; do
        case $line in
            "$mark process "*) pid=${line##* } ;;
            "$mark ended "*) status=${line##* } && break ;;
            *) handle_line "$line" ;;
        esac
    done
    exec 3<&-
    [ ! -e "$tmp/late" ] || status=time-out
    check_leftovers "$pid"
}

check_leftovers() {
    local left=
    for _ in {1..300}; do
        left=$(session_members "$1")
        [ -n "$left" ] || return
        sleep 0.2
    done
    kill_session "$1"
    # A crashed program may leave processes behind; that is not another failure.
    [ "$status" = 0 ] || return
    output+=("$left")
    verdict 'not ok' 'no process is left behind'
    diagnostics
}

describe_status() {
    if [ "$1" = time-out ]; then
        echo "no verdict within $limit s"
    elif [ "$1" -gt 128 ]; then
        echo "killed by signal $(kill -l "$1")"
    else
        echo "exited with status $1"
    fi
}

list_cases "$@"
restarts=0
while [ ${#remaining[@]} -gt 0 ]; do
    [ $restarts -le "$max_restarts" ] || bail_out "gave up after $max_restarts restarts"
    failures_before=$failures
    run_once "$@"
    if [ -n "$current" ] || [ ${#remaining[@]} -gt "$behind" ]; then
        # The program ended early: in the current case, or before the next one.
        restarts=$((restarts + 1))
        if [ $reached = 0 ] && [[ $status =~ ^[0-9]+$ ]] && [ "$status" -le 128 ]; then
            diagnostics
            bail_out "$* started no test case and $(describe_status "$status")"
        fi
        remaining=("${remaining[@]}")
        current=${current:-${remaining[0]}}
        output+=("$(describe_status "$status")")
        finish_case 'not ok'
        remaining=(${remaining[@]+"${remaining[@]}"})
    elif [ "$status" != 0 ] && [ "$failures" = "$failures_before" ]; then
        output=(${reports[@]+"${reports[@]}"} ${output[@]+"${output[@]}"} "$(describe_status "$status")")
        verdict 'not ok' 'the program ends with status 0'
        diagnostics
    fi
done
echo "1..$number"
[ $failures = 0 ]
