#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What tern-bench does with results: `tern-bench compare`, `tern-bench report`, and `tern-bench program`, with programs
# that take no time.
# shellcheck disable=SC2016 # commands for an inner shell
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
tern_bench=$(dirname "$SOFTHCA")/tern-bench
results=$srcdir/../docs/bench/results
report=$tmp/report.html

compare_tests() {
    local one=$tmp/one.json other=$tmp/other.json
    check_match 'compare: the same file' '^0 of [1-9][0-9]* figures changed' \
        "$tern_bench" compare "$results/latency.json" "$results/latency.json"
    sed 's/"median":1165.51/"median":1265.51/' "$results/sim-cx3-fdr.json" >"$other"
    "$tern_bench" compare "$results/sim-cx3-fdr.json" "$other" >"$tmp/compared"
    check 'compare: the exit status of a change' test $? = 4
    check_match 'compare: what changed' 'half round trip +8 B +tern +ns +1166 -> 1266 +\+8.6 % +worse' cat "$tmp/compared"
    check_match 'compare: nothing else' '^1 of [0-9]+ figures changed' cat "$tmp/compared"
    refuses 'compare: nothing in common' 1 'no measurement in common' \
        "$tern_bench" compare "$results/fastpath.json" "$results/memory-512.json"
    refuses 'compare: one file' 2 'B is required' "$tern_bench" compare "$one"
    refuses 'compare: no file' 1 'none: No such file' "$tern_bench" compare "$tmp/none" "$other"
    mkfifo "$tmp/pipe"
    refuses 'compare: no regular file' 1 'is not a file' "$tern_bench" compare "$tmp/pipe" "$other"
    sed 's/"schema":1/"schema":2/' "$other" >"$one"
    refuses 'compare: a schema of tomorrow' 1 'has schema 2; this program reads 1' "$tern_bench" compare "$other" "$one"
    for broken in 'nothing' '{"schema": 1}' '{"schema": 1, "figures": [7]}'; do
        echo "$broken" >"$one"
        refuses "compare: $broken" 1 'is not the result of a benchmark' "$tern_bench" compare "$one" "$other"
    done
}

report_tests() {
    local folder=$tmp/results
    check 'report: of docs/bench/results' "$tern_bench" report "$results" --output "$report"
    local files=("$results"/*.json)
    check 'report: its size is sensible' test "$(wc -c <"$report")" -lt $((22000 * ${#files[@]}))
    # Nothing is loaded, from anywhere.
    check 'report: needs nothing else' sh -c '! grep -Eiq "<script|<link|<img|<iframe|@import|url\(|src=|https?:" "$0"' "$report"
    for file in "$results"/*.json; do
        check "report: has $(basename "$file")" grep -q "$(basename "$file") · commit" "$report"
    done
    mkdir "$folder"
    refuses 'report: an empty folder' 1 'there is no result in' "$tern_bench" report "$folder"
    refuses 'report: no folder' 1 'No such file' "$tern_bench" report "$tmp/none"
    cp "$results/memory-512.json" "$folder/memory-512.json"
    echo '<script>' >"$folder/<script>.json"
    refuses 'report: a file that is no result' 3 '^left out: .*<script>.json is not the result' "$tern_bench" report "$folder"
    check_match 'report: is left out, and the page says so' 'Left out:.*&lt;script&gt;.json' cat "$folder/report.html"
    if ! command -v xmllint >/dev/null; then
        skip 'report: the tags are right' 'xmllint is not installed'
        return
    fi
    # This parser does not know the elements of HTML 5.
    check 'report: the tags are right' sh -c 'xmllint --html --noout "$0" 2>&1 |
        grep error | grep -Ev "Tag (nav|svg|g|path|text|details|summary) invalid" >&2; [ $? = 1 ]' "$report"
}

program_tests() {
    local program=(bash -c 'case $UCX_TLS in tern*) echo "it took 2.0 us";; *) echo "it took 4.0 us";; esac')
    check 'program' "${hca[@]}" "$tern_bench" program --rounds 5 --number took --unit us --name mine --json "$tmp/mine.json" \
        -- "${program[@]}"
    cp "$tmp/output" "$tmp/mine"
    check_match 'program: the number it prints' '^  tern +2.000 +us' cat "$tmp/mine"
    check_match 'program: over stock UCX' '^  rc_v +4.000 +us' cat "$tmp/mine"
    check_match 'program: the ratio' '^  tern / rc_v +0.500 +x' cat "$tmp/mine"
    check_match 'program: the time' '^  tern / rc_v +[0-9.]+ +x' "${hca[@]}" "$tern_bench" program --rounds 2 true
    check_match 'program: on a device of its own' '^  tern +2 +s' \
        "$tern_bench" program --profile infini --rounds 1 --number took -- "${program[@]}"
    check_match 'program: in a report' 'made from 1 results' sh -c 'mkdir "$1" && cp "$2" "$1" && "$0" report "$1"' \
        "$tern_bench" "$tmp/mine-results" "$tmp/mine.json"
    check_match 'program: its part of the page' '<h2 id=programs>' cat "$tmp/mine-results/report.html"
    refuses 'program: fails over one transport' 3 '^incomplete: tern: the program ended with status 7:' \
        "${hca[@]}" "$tern_bench" program --rounds 2 -- bash -c 'case $UCX_TLS in tern*) exit 7;; esac'
    refuses 'program: fails over both' 1 'rc_v: the program ended with status 1' \
        "${hca[@]}" "$tern_bench" program --rounds 2 false
    refuses 'program: does not print the number' 1 "there is no number behind 'took'" \
        "${hca[@]}" "$tern_bench" program --rounds 2 --number took -- echo it took long
    refuses 'program: none' 2 'no program is named' "$tern_bench" program --rounds 2
}

compare_tests
report_tests
program_tests
finish
