# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# For the tests that run jobs of rwapi-job, each on a fabric of its own. They call `cases` and at
# last `finish`.
set -u
if [ ! -x ./rwapi-job ] || [ ! -x ./rwapi-launch ]; then
    echo "1..0 # SKIP built without UCX, or without GoogleTest"
    exit 0
fi
SOFTHCA_FABRIC=test-rwapi-$(basename "$0" .sh)-$$
# A dead peer is to be noticed soon.
export SOFTHCA_FABRIC UCX_LOG_LEVEL=error UCX_TERN_TIMEOUT=20ms UCX_TERN_RETRY_COUNT=3 \
    UCX_RC_VERBS_TIMEOUT=20ms UCX_RC_VERBS_RETRY_COUNT=3 \
    UCX_UD_VERBS_TIMEOUT=2s UCX_TERN_CONNECT_TIMEOUT=2s
tmp=$(mktemp -d)
trap '"$SOFTHCA" clean --fabric "$SOFTHCA_FABRIC" >/dev/null 2>&1; rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
all_cases=$(./rwapi-job) && [ -n "$all_cases" ] || { echo 'Bail out! rwapi-job does not name its cases'; exit 1; }
number=0
limit=300 # seconds, for each job; only one that hangs takes so long
# Programs before rwapi-launch.
loader=("$(dirname "$SOFTHCA")/tern-run" --)

# result STATUS NAME: one line of TAP, with the output if it is bad.
result() {
    number=$((number + 1))
    if [ "$1" = 0 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        sed 's/^/# /' "$tmp/output" | head -n 40
    fi
}

# A job with options of `softhca run`, that ends: job PROCESSES "OPTIONS" program...
job() {
    local processes=$1 options=$2
    shift 2
    # shellcheck disable=SC2086
    timeout -k 5 "$limit" "$SOFTHCA" run $options -- ${loader[@]+"${loader[@]}"} ./rwapi-launch \
        $keep_going -np "$processes" "$@" >"$tmp/output" 2>&1
}

# cases PROCESSES "OPTIONS" CASE...
cases() {
    local processes=$1 options=$2 each wanted status
    shift 2
    for each; do
        keep_going=
        wanted=0
        # One process is killed by SIGKILL; the others must end well.
        [[ $each != killed-* ]] || { keep_going=--keep-going; wanted=137; }
        job "$processes" "$options" ./rwapi-job "$each"
        status=$?
        grep -h '^# TERN_TEST_SEED' "$tmp/output"
        # One process is killed; all others must be well.
        if [[ $each == killed-* ]] && { grep -q '_cases.cc:\|job.cc:\|^rwapi_finalize:\|has ended ' "$tmp/output" ||
            [ "$(grep -c '^rwapi-launch: process [0-9]* was ended by a signal: Killed' "$tmp/output")" != 1 ]; }; then
            status=1
        fi
        [ $status = $wanted ] || echo "# status $status, not $wanted"
        result $((status != wanted)) "$each, $processes processes${options:+, $options}${RWAPI_NOTIFY:+, RWAPI_NOTIFY=$RWAPI_NOTIFY}"
    done
}

finish() {
    "$SOFTHCA" clean --fabric "$SOFTHCA_FABRIC" >"$tmp/output" 2>&1
    result $? 'nobody is left in the fabric'
    echo "1..$number"
}
