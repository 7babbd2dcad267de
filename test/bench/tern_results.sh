#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What tern-bench does with results, and how its script reads them: `tern-bench compare` and `tern-bench
# program`, with programs that take no time.
# shellcheck disable=SC2016 # commands for an inner shell
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
tern_bench=$(dirname "$SOFTHCA")/tern-bench
results=$srcdir/../docs/bench/results
scripts=$srcdir/../src/bench/results

compare_tests() {
    local one=$tmp/one.json other=$tmp/other.json
    check_match 'compare: the same file' '^0 of [1-9][0-9]* figures changed' \
        "$tern_bench" compare "$results/sim-cx3-fdr.json" "$results/sim-cx3-fdr.json"
    local was
    was=$(sed -n 's/.*"half round trip","x":8,.*"name":"tern",.*"median":\([0-9.]*\).*/\1/p' "$results/sim-cx3-fdr.json")
    sed "s/\"median\":$was\b/\"median\":$(awk "BEGIN { print 1.1 * $was }")/" "$results/sim-cx3-fdr.json" >"$other"
    "$tern_bench" compare "$results/sim-cx3-fdr.json" "$other" >"$tmp/compared"
    check 'compare: the exit status of a change' test $? = 4
    check_match 'compare: what changed' 'half round trip +8 B +tern +ns +[0-9]+ -> [0-9]+ +\+10.0 % +worse' cat "$tmp/compared"
    check_match 'compare: nothing else' '^1 of [0-9]+ figures changed' cat "$tmp/compared"
    refuses 'compare: nothing in common' 1 'no measurement in common' \
        "$tern_bench" compare "$results/sim-cx3-fdr.json" "$results/memory-512.json"
    refuses 'compare: one file' 2 'B is required' "$tern_bench" compare "$one"
    refuses 'compare: no file' 1 'none: No such file' "$tern_bench" compare "$tmp/none" "$other"
    mkdir "$tmp/empty"
    refuses 'compare: without Python' 1 'there is no python3' env PATH="$tmp/empty" "$tern_bench" compare "$one" "$other"
    mkfifo "$tmp/pipe"
    refuses 'compare: no regular file' 1 'is not a file' "$tern_bench" compare "$tmp/pipe" "$other"
    sed 's/"schema":1/"schema":2/' "$other" >"$one"
    refuses 'compare: a schema of tomorrow' 1 'has schema 2; this program reads 1' "$tern_bench" compare "$other" "$one"
    for broken in 'nothing' '{"schema": 1}' '{"schema": 1, "figures": [7]}'; do
        echo "$broken" >"$one"
        refuses "compare: $broken" 1 'is not the result of a benchmark' "$tern_bench" compare "$one" "$other"
    done
}

program_tests() {
    local other=$tmp/other.json program=(bash -c 'case $UCX_TLS in tern*) echo "it took 2.0 us";; *) echo "it took 4.0 us";; esac')
    check 'program' "${hca[@]}" "$tern_bench" program --rounds 5 --number took --unit us --name mine --json "$tmp/mine.json" \
        -- "${program[@]}"
    cp "$tmp/output" "$tmp/mine"
    check_match 'program: the number it prints' '^  tern +2.000 +us' cat "$tmp/mine"
    check_match 'program: over stock UCX' '^  rc_v +4.000 +us' cat "$tmp/mine"
    check_match 'program: the ratio' '^  tern / rc_v +0.500 +x' cat "$tmp/mine"
    check_match 'program: the time' '^  tern / rc_v +[0-9.]+ +x' "${hca[@]}" "$tern_bench" program --rounds 2 true
    check_match 'program: on a device of its own' '^  tern +2 +s' \
        "$tern_bench" program --profile infini --rounds 1 --number took -- "${program[@]}"
    check_match 'program: its file' '^0 of 3 figures changed' "$tern_bench" compare "$tmp/mine.json" "$tmp/mine.json"
    refuses 'program: fails over one transport' 3 '^incomplete: tern: the program ended with status 7:' \
        "${hca[@]}" "$tern_bench" program --rounds 2 -- bash -c 'case $UCX_TLS in tern*) exit 7;; esac'
    cp "$tmp/mine.json" "$other"
    refuses 'program: fails over both' 1 'rc_v: the program ended with status 1' \
        "${hca[@]}" "$tern_bench" program --rounds 2 --json "$other" false
    check 'program: and the old file is left' cmp "$other" "$tmp/mine.json"
    refuses 'program: does not print the number' 1 "there is no number behind 'took'" \
        "${hca[@]}" "$tern_bench" program --rounds 2 --number took -- echo it took long
    refuses 'program: none' 2 'no program is named' "$tern_bench" program --rounds 2
}

check 'results from files' python3 -B "$srcdir/bench/results_test.py" "$scripts"
compare_tests
program_tests
finish
