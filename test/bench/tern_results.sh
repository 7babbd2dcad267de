#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What tern-bench does with results, and how its script reads them: `tern-bench compare`, `tern-bench report`, and
# `tern-bench program`, with programs that take no time.
# shellcheck disable=SC2016 # commands for an inner shell
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
tern_bench=$(dirname "$SOFTHCA")/tern-bench
results=$srcdir/../docs/bench/results
scripts=$srcdir/../src/bench/results
report=$tmp/report.html

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
    mkfifo "$tmp/pipe"
    refuses 'compare: no regular file' 1 'is not a file' "$tern_bench" compare "$tmp/pipe" "$other"
    sed 's/"schema":1/"schema":2/' "$other" >"$one"
    refuses 'compare: a schema of tomorrow' 1 'has schema 2; this program reads 1' "$tern_bench" compare "$other" "$one"
    for broken in 'nothing' '{"schema": 1}' '{"schema": 1, "figures": [7]}'; do
        echo "$broken" >"$one"
        refuses "compare: $broken" 1 'is not the result of a benchmark' "$tern_bench" compare "$one" "$other"
    done
}

# A file of results with these figures, and further members.
result_file() { # file figures [members]
    printf '{"schema": 1, "command": "latency", "date": "2026-01-02", "device": "softhca0:1", %s
        "machine": {"cpu": "a CPU", "cores": 2, "virtual": true}, "figures": [%s]}\n' "${3:-}" "$2" >"$1"
}

figure() { # name unit members, in single quotes for double ones
    printf '{"test": "trips", "name": "%s", "unit": "%s", %s}' "$1" "$2" "$3"
}

# Puts the charts of a page into $tmp/charts.
charts_of() { # page
    grep -o 'base64,[^"]*' "$1" | sed 's/base64,//' | while read -r chart; do base64 -d <<<"$chart"; done >"$tmp/charts"
}

page_tests() {
    local folder=$tmp/one page=$tmp/one/report.html x unit number key
    local others='<script>\"'\''&' escaped='&lt;script&gt;&#34;&#39;&amp;' # as JSON and as HTML have it
    mkdir "$folder" "$tmp/others" "$tmp/numbers"
    result_file "$folder/it.json" "$(figure tern us '"x": 8, "x_text": "8 B", "median": 2, "p10": 1, "p90": 3,
            "rounds": [1, 2, 3], "doubts": ["rounds differ"]'),
        $(figure rc_v us '"x": 8, "x_text": "8 B", "median": 4'),
        $(figure 'tern / rc_v' x '"x": 8, "x_text": "8 B", "median": 0.5'),
        $(figure rc_v us '"x": 9, "x_text": "9 B", "refused": true, "late_share": 0.07')" '"incomplete": ["after 1 of 7"],'
    check 'page' "$tern_bench" report "$folder"
    check_match 'page: its part' '<h2 id="latency">Latency</h2>' cat "$page"
    check_match 'page: the test' '<h4>trips</h4>' cat "$page"
    check_match 'page: a ratio' '<td>trips</td><td>tern / rc_v</td><td class="gain">0.500</td>' cat "$page"
    check_match 'page: a figure, and why it is doubtful' '<td title="rounds differ">2.00<em>\?</em>' cat "$page"
    check_match 'page: an exact figure' '<td title="">4$' cat "$page"
    check_match 'page: what is late' '<td title="late 7%"><em>late</em>' cat "$page"
    check_match 'page: what is incomplete' 'incomplete: after 1 of 7' cat "$page"
    check_match 'page: the machine' 'machine a CPU, 2 cores, virtual' cat "$page"
    check_match 'page: no measurement of a network' 'No figure of the software HCA' cat "$page"
    charts_of "$page"
    check_match 'page: a chart, with its sizes' '>9 B<' cat "$tmp/charts"

    result_file "$tmp/others/it.json" "$(for x in 1 2; do
            printf '{"test": "%s", "name": "%s", "unit": "%s", "x": %d, "x_text": "%d%s", "median": 1, "doubts": ["%s"]},' \
                "$others" "$others" "$others" $x $x "$others" "$others"
        done) $(figure '$n$' '$u$' '"x": 3, "x_text": "$y$", "median": 1'),
        $(figure '$n$' '$u$' '"x": 4, "x_text": "$z$", "median": 1')" \
        "$(for key in commit ucx profile slow rounds; do printf '"%s": "%s", ' $key "$others"; done) \"incomplete\": [\"$others\"],"
    check 'page: of texts with marks of HTML' "$tern_bench" report "$tmp/others"
    check_match 'page: they are escaped' "<h4>$escaped</h4>" cat "$tmp/others/report.html"
    check_match 'page: they are escaped everywhere' '^0$' sh -c 'grep -ci "<script" "$0" || true' "$tmp/others/report.html"
    charts_of "$tmp/others/report.html"
    check_match 'page: also in charts' '>1&lt;script&gt;"' cat "$tmp/charts"
    check_match 'page: and are no formulas' '>\$y\$<' cat "$tmp/charts"

    for number in 0 -1 1e300 -1e300 1e-300; do
        for unit in us x ''; do
            result_file "$tmp/numbers/$number$unit.json" "
                $(figure tern "$unit" '"x": 1, "x_text": "1", "median": '$number', "p10": 1, "p90": '$number),
                $(figure rc_v "$unit" '"x": -1, "x_text": "-1", "median": '$number)"
        done
    done
    check_match 'page: of any number' 'made from 15 results' "$tern_bench" report "$tmp/numbers"
    check_match 'page: all are drawn' '^15$' grep -c 'base64,' "$tmp/numbers/report.html"
    charts_of "$tmp/numbers/report.html"
    check 'page: within the charts' sh -c '! grep -Eiw "nan|inf|[0-9.]+e[+]?[0-9]{2,}" "$0" | grep -v "<text"' "$tmp/charts"
}

report_tests() {
    local folder=$tmp/results modules=$tmp/modules
    mkdir "$modules"
    echo 'raise ImportError(name="matplotlib")' >"$modules/matplotlib.py"
    refuses 'report: without matplotlib' 1 "^tern-bench report: no module .*: install Debian's python3-jinja2 and python3-matplotlib\$" \
        env PYTHONPATH="$modules" "$tern_bench" report "$results" --output "$report"
    refuses 'report: without Python' 1 "there is no python3: install Debian's python3-jinja2" \
        env PATH="$modules" "$tern_bench" report "$results" --output "$report"
    check 'report: without them, no page' test ! -e "$report"
    mkdir "$folder"
    refuses 'report: an empty folder' 1 'there is no result in' "$tern_bench" report "$folder"
    refuses 'report: no folder' 1 'No such file' "$tern_bench" report "$tmp/none"
    if ! can_draw; then
        skip 'report: pages' 'python3-jinja2 or python3-matplotlib is not installed'
        return
    fi
    page_tests
    check 'report: of docs/bench/results' "$tern_bench" report "$results" --output "$report"
    local files=("$results"/*.json)
    check 'report: its size is sensible' test "$(wc -c <"$report")" -lt $((120000 * ${#files[@]}))
    # Nothing is loaded, from anywhere.
    check 'report: needs nothing else' sh -c '! sed "s/src=\"data:[^\"]*\"//" "$0" |
        grep -Eiq "<script|<link|<iframe|@import|url\(|src=|https?:"' "$report"
    for file in "$results"/*.json; do
        check "report: has $(basename "$file")" grep -q "file $(basename "$file") · what" "$report"
    done
    cp "$results/memory-512.json" "$folder/memory-512.json"
    echo '<script>' >"$folder/<script>.json"
    refuses 'report: a file that is no result' 3 '^left out: .*<script>.json is not the result' "$tern_bench" report "$folder"
    check_match 'report: is left out, and the page says so' 'Left out:.*&lt;script&gt;.json' cat "$folder/report.html"
    cp "$folder/report.html" "$tmp/first.html"
    "$tern_bench" report "$folder" >/dev/null 2>&1
    check 'report: the same results make the same page' cmp "$tmp/first.html" "$folder/report.html"
    if ! command -v xmllint >/dev/null; then
        skip 'report: the tags are right' 'xmllint is not installed'
        return
    fi
    # This parser does not know the elements of HTML 5.
    check 'report: the tags are right' sh -c 'xmllint --html --huge --noout "$0" 2>&1 |
        grep error | grep -Ev "Tag (nav|details|summary) invalid" >&2; [ $? = 1 ]' "$report"
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
    if can_draw; then
        check_match 'program: in a report' 'made from 1 results' sh -c 'mkdir "$1" && cp "$2" "$1" && "$0" report "$1"' \
            "$tern_bench" "$tmp/mine-results" "$tmp/mine.json"
        check_match 'program: its part of the page' '<h2 id="programs">' cat "$tmp/mine-results/report.html"
    fi
    refuses 'program: fails over one transport' 3 '^incomplete: tern: the program ended with status 7:' \
        "${hca[@]}" "$tern_bench" program --rounds 2 -- bash -c 'case $UCX_TLS in tern*) exit 7;; esac'
    refuses 'program: fails over both' 1 'rc_v: the program ended with status 1' \
        "${hca[@]}" "$tern_bench" program --rounds 2 false
    refuses 'program: does not print the number' 1 "there is no number behind 'took'" \
        "${hca[@]}" "$tern_bench" program --rounds 2 --number took -- echo it took long
    refuses 'program: none' 2 'no program is named' "$tern_bench" program --rounds 2
}

check 'results from files' python3 -B "$srcdir/bench/results_test.py" "$scripts"
compare_tests
report_tests
program_tests
finish
