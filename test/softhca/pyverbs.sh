#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# rdma-core's own tests, which use verbs from Python, on the software HCA. pyverbs.skips must list the skipped tests and
# the reasons, and no other tests.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"

python=/usr/bin/python3 # the interpreter of Debian's packages
package=/usr/share/doc/rdma-core/tests
"$python" -c 'import pyverbs.device' 2>/dev/null || { echo '1..0 # SKIP python3-pyverbs is not installed'; exit 0; }
[ -f "$package/__init__.py" ] || { echo "1..0 # SKIP $package, of the package rdma-core, is not there"; exit 0; }

limit=300     # seconds, for all tests of a link layer
max_deaths=10 # of the test program
patterns=() # of the list, with the link layer and the reason of each
layers=()
reasons=()
used=() # the number of tests that match each row, skipped or not

read_list() {
    local layer pattern reason
    while read -r layer pattern reason; do
        case $layer in
            '' | '#'*) ;;
            both | maybe | infiniband | ethernet)
                layers+=("$layer")
                patterns+=("$pattern")
                reasons+=("$reason")
                used+=(0) ;;
            *) echo "Bail out! pyverbs.skips: no link layer is called $layer"; exit 1 ;;
        esac
    done <"$srcdir/softhca/pyverbs.skips"
}

# Sets `row` to the first row that matches test $2 on link layer $1, or to nothing.
find_row() {
    local i
    row=
    for i in "${!patterns[@]}"; do
        # shellcheck disable=SC2053 # a pattern
        [[ $2 == ${patterns[i]} && ${layers[i]} =~ ^(both|maybe|$1)$ ]] || continue
        row=$i
        used[i]=$((used[i] + 1))
        return
    done
}

verdict() { # layer passed|failed|skipped|died test reason
    local layer=$1 outcome=$2 test=${3#tests.} reason=${4:-} name=$1': '${3#tests.} row
    find_row "$layer" "$test"
    : >"$tmp/reason"
    case $outcome in
        skipped)
            if [ -n "$row" ]; then
                skip "$name" "${reasons[row]}"
                return
            fi
            echo "skipped, which pyverbs.skips does not expect: $reason" >"$tmp/reason"
            result 1 "$name" "$tmp/reason" ;;
        passed)
            if [ -z "$row" ] || [ "${layers[row]}" = maybe ]; then
                result 0 "$name"
                return
            fi
            echo "passes, and need no longer stand in pyverbs.skips: ${reasons[row]}" >"$tmp/reason"
            result 1 "$name" "$tmp/reason" ;;
        *)
            echo "$outcome: $reason" >"$tmp/reason"
            result 1 "$name" "$tmp/reason" "$tmp/output" ;;
    esac
}

# Runs all tests. If a test kills the program or does not end, the others still run.
run_layer() {
    local layer=$1 behind='' deaths=0 at what test reason running ended
    use_hca --link-layer "$layer"
    while :; do
        running=
        ended=
        # shellcheck disable=SC2086 # nothing, or one word
        timeout -k 5 "$limit" "${hca[@]}" "$python" "$srcdir/softhca/pyverbs_tests.py" "$tmp" $behind \
            >"$tmp/output" 2>&1 </dev/null
        while read -r at what test reason; do
            [ "$at" = @ ] || continue
            case $what in
                started) running=$test ;;
                end) ended=1 ;;
                *)
                    running=
                    behind=$test
                    verdict "$layer" "$what" "$test" "$reason" ;;
            esac
        done <"$tmp/output"
        [ -z "$ended" ] || return
        deaths=$((deaths + 1))
        if [ -z "$running" ] || [ $deaths -gt $max_deaths ]; then
            echo "the program that runs them ended early" >>"$tmp/output"
            result 1 "$layer: all tests are run" "$tmp/output"
            return
        fi
        behind=$running
        verdict "$layer" died "$running" 'the program ended, or did not end, with this test'
    done
}

read_list
mkdir "$tmp/tests"
for file in "$package"/*; do
    case $file in
        *.gz) gzip -dc "$file" >"$tmp/tests/$(basename "$file" .gz)" ;;
        *) cp "$file" "$tmp/tests/" ;;
    esac
done
run_layer infiniband
run_layer ethernet
for i in "${!patterns[@]}"; do
    [ "${used[i]}" = 0 ] || continue
    echo "pyverbs.skips has a row for it" >"$tmp/reason"
    result 1 "${patterns[i]} is a test" "$tmp/reason"
done
finish
