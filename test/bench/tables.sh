#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tables of the documents are those of the results in docs/bench/results, and contrib/tables.py finds what differs.
# shellcheck disable=SC2016 # commands for an inner shell, and Markdown
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
require python3
tables=$srcdir/../contrib/tables.py
document=$tmp/document.md

check 'the documents agree with their results' "$tables" --check

# figure TEST X X_TEXT NAME UNIT VALUE [more]
figure() {
    printf '{"test": "%s", "x": %s, "x_text": "%s", "name": "%s", "unit": "%s", "median": %s, "doubts": [%s]%s}' \
        "$1" "$2" "$3" "$4" "$5" "$6" "${8-}" "${7-}"
}

# Writes a result: two tests, two sizes, values and ratios. The argument is the value of 8 B.
write_result() {
    {
        echo '{"schema": 1, "version": "0", "commit": "abc", "date": "2026-01-02T03:04:05Z", "command": "latency",'
        echo '"machine": {"cpu": "A CPU", "cores": 2, "kernel": "Linux", "virtual": true}, "rounds": "5", "figures": ['
        figure one 8 '8 B' 'tern' us "$1" ', "samples": 9' && echo ,
        figure one 1024 '1 KiB' 'tern' us 12.345 ', "samples": 9' '"few rounds"' && echo ,
        figure one 1024 '1 KiB' 'tern, private' us 123456 && echo ,
        figure one 8 '8 B' 'tern / rc_v' x 0.5 ', "samples": 5, "p10": 0.25, "p90": 0.75, "min": 0.125, "max": 1' && echo ,
        figure two 8 '8 B' 'tern' GB/s 0.00123456 ', "samples": 9'
        echo ']}'
    } >"$tmp/result.json"
}

write_document() { # options of the table
    printf 'Text.\n\n<!-- table: result.json %s -->\nold\n<!-- end -->\n\nMore.\n' "$1" >"$document"
}

# makes NAME OPTIONS line...: the table has these lines.
makes() {
    local name=$1 line status
    write_document "$2"
    shift 2
    {
        printf 'Text.\n\n'
        head -n 3 "$document" | tail -n 1
        for line; do printf '%s\n' "$line"; done
        printf '<!-- end -->\n\nMore.\n'
    } >"$tmp/expected"
    "$tables" "$document" >"$tmp/output" 2>&1 && diff "$tmp/expected" "$document" >>"$tmp/output"
    status=$?
    result $status "$name" "$tmp/output"
}

# A table that cannot be made.
wrong() { # NAME PATTERN OPTIONS
    write_document "$3"
    refuses "$1" 1 "$2" "$tables" "$document"
}

write_result 0.1234
makes 'sizes by names' 'test=one unit=us' '| us | tern | tern, private |' '| --- | --- | --- |' '| 8 B | 0.123 | - |' \
    '| 1 KiB | 12.3? | 123456 |'
check 'what is written is right' "$tables" --check "$document"
makes 'names by sizes, chosen and with labels' \
    'test=one rows=name columns=x names="tern, private = private; tern" x="1 KiB" digits=2' \
    '| us | 1 KiB |' '| --- | --- |' '| private | 123456 |' '| tern | 12? |'
makes 'ratios have their spread' 'unit=x' '|  | tern / rc_v |' '| --- | --- |' '| 8 B | 0.500 (0.250 to 0.750) |'
makes 'or their range' 'unit=x show=range digits=2 corner=message' '| message | tern / rc_v |' '| --- | --- |' \
    '| 8 B | 0.50 (0.12 to 1.0) |'
makes 'several tests' 'rows="test; x" names=tern columns=unit' '|  |  | us | GB/s |' '| --- | --- | --- | --- |' \
    '| one | 8 B | 0.123 | - |' '| one | 1 KiB | 12.3? | - |' '| two | 8 B | - | 0.00123 |'
makes 'of two figures' 'names="tern, private over tern = ratio; tern, private minus tern = more"' \
    '|  | ratio | more |' '| --- | --- | --- |' '| 1 KiB | 10000? | 123444? |'
makes 'only rows below a number' 'test=one names=tern below=1' '| us | tern |' '| --- | --- |' '| 8 B | 0.123 |'
wrong 'one of two figures' "there is no name 'rc_v over tern'" 'names="rc_v over tern"'
wrong 'two figures in one cell' 'document.md:3: more than one figure' 'names=tern'
wrong 'a name that the file does not have' "there is no name 'rc_v'" 'names=rc_v'
wrong 'no such option' 'wrong option, or twice: sizes' 'sizes=8'
wrong 'no such file' 'none.json: No such file' 'none.json'
cp "$tmp/result.json" "$tmp/again.json"
makes 'two files' 'again.json test=two rows=file columns=unit files="one; other"' \
    '| GB/s | GB/s |' '| --- | --- |' '| one | 0.00123 |' '| other | 0.00123 |'

write_document 'test=one unit=us'
"$tables" "$document" >/dev/null
write_result 0.5678
refuses 'a table that differs from its file' 1 'run contrib/tables.py' "$tables" --check "$document"
check_match 'the line that differs' '^\+\| 8 B \| 0.568' sh -c '"$0" --check "$1" || true' "$tables" "$document"
check 'nothing was changed' grep -q '^| 8 B | 0.123' "$document"

echo 'It takes <!-- value: result.json test=one names=tern x="8 B" -->?<!-- end --> us.' >"$document"
check 'a value within a text' "$tables" "$document"
check_match 'is that of the file' '^It takes <!-- .* -->0.568<!-- end --> us.$' cat "$document"
echo 'It takes <!-- range: result.json test=one unit=us digits=2 -->?<!-- end --> us.' >"$document"
check 'the ends of several values' "$tables" "$document"
check_match 'are the least and the most, with their doubts' '^It takes <!-- .* -->0.57 to 123456<!-- end --> us.$' cat "$document"
cp "$document" "$tmp/README.md"
check 'figures for a README' "$tables" "$tmp/README.md"
echo 'It takes <!-- value: result.json test=one x="1 KiB" names=tern -->?<!-- end --> us.' >"$tmp/README.md"
refuses 'a doubted figure in a README' 1 'README.md: the benchmark doubts a figure: It takes .*12.3\?' "$tables" "$tmp/README.md"
printf '<!-- source: result.json -->\n<!-- end -->\n' >"$document"
check 'where figures are from' "$tables" "$document"
check_match 'names commit, date and machine' 'commit `abc`, 2026-01-02, A CPU, 2 cores, virtual, rounds: 5$' cat "$document"
# row VERDICT TERN [more]: a file of one row.
row() {
    printf '[{"key": "mine", "title": "Mine", "rows": [{"where": "figure 1", "paper": "5 us", "verdict": "%s", "tern": "%s"%s}]}]' \
        "$1" "$2" "${3-}" >"$tmp/papers.json"
}
mkdir -p "$tmp/results"
write_result 0.5678
cp "$tmp/result.json" "$tmp/results"
printf '# Mine\n\n<!-- papers: papers.json -->\n<!-- end -->\n\n<!-- papers: papers.json mine -->\n<!-- end -->\n' >"$document"
judged() { # FIGURES HOLDS [RULE]
    printf ', "figures": [%s], "holds": "%s", "rule": "%s"' "$1" "$2" "${3-at most 1}"
}
one='"result.json | one | tern | 8 B"'
figures=$(judged "$one" '{0} <= 1')
row beaten 'it takes {0}' "$figures"
check 'a row of a paper' "$tables" "$document"
check_match 'its cells' '^\| figure 1 \| 5 us \| it takes 0.568 us \| \*\*beaten\*\* \(1\) \|$' cat "$document"
check_match 'its rule and its file are a note' '^1[.] Rule: at most 1[.] \[result.json\]\(results/result.json\)$' cat "$document"
check_match 'verdicts are counted' '^\| \[Mine\]\(#mine\) \| 0 \| 1 \| 0 \| 0 \| 0 \| 0 \|$' cat "$document"
check 'what is written of papers is right' "$tables" --check "$document"
row reproduced 'half of it is {0}, and less: {1}' \
    "$(judged '"result.json | one | tern over tern | 8 B", "result.json | one | tern minus tern | 8 B"' '{0} <= 1')"
check 'a row with a ratio and a difference' "$tables" "$document"
check_match 'of two figures' 'half of it is 1, and less: 0 us ' cat "$document"
wrong_row() { # NAME PATTERN row...
    row "${@:3}"
    refuses "$1" 1 "$2" "$tables" "$document"
}
wrong_row 'a verdict by no figure' "'beaten' by no figure" beaten 'fast'
wrong_row 'a verdict by no rule' "'beaten' by no rule" beaten '{0}' ", \"figures\": [$one]"
wrong_row 'a rule that does not hold' 'but the rule does not hold' reproduced '{0}' "$(judged "$one" '{0} > 1')"
wrong_row 'a rule that holds' 'but the rule holds' 'not seen' '{0}' "$figures"
wrong_row 'a number that only the rule knows' 'the rule does not say 0.9' beaten '{0}' "$(judged "$one" '{0} <= 0.9')"
wrong_row 'a long cell' 'a cell of more than 30 words' beaten "{0}$(printf ' word%.0s' {1..30})" "$figures"
wrong_row 'no such verdict' 'a verdict is one of' great '{0}' "$figures"
wrong_row 'a number without a file' 'comes from no file: 3 us' 'needs a cluster' 'it takes 3 us'
wrong_row 'not measured, but how' 'no command' 'not measured' ''
wrong_row 'a figure that has no place' 'not each figure has its place' beaten 'fast' "$figures"
wrong_row 'a figure that no file has' '0 figures, not one' beaten '{0}' "$(judged "${one/8/9}" '{0} <= 1')"
wrong_row 'no such member' 'no such member: wy' 'needs a cluster' '' ', "wy": "because"'
check_match 'a list of what there is' 'names="tern; tern, private"' "$tables" --list "$tmp/result.json"

# A tree with no document but its charts.
contrib=$(dirname "$tables")
mkdir -p "$tmp/tree/contrib" "$tmp/tree/docs/bench"
cp "$contrib/charts.py" "$tables" "$tmp/tree/contrib"
cp -R "$contrib/../docs/bench/charts" "$contrib/../docs/bench/results" "$tmp/tree/docs/bench"
chmod -R u+w "$tmp/tree"
: >"$tmp/tree/README.md"
check 'charts agree with their results' "$tmp/tree/contrib/tables.py" --check
sed -i 's/\("stream".*"tern",.*"median":\)/\19/' "$tmp/tree/docs/bench/results/sim-cx5-edr.json"
refuses 'a chart of other figures' 1 '^tables.py: rate.svg: run contrib/charts.py$' "$tmp/tree/contrib/tables.py" --check
if python3 -c 'import matplotlib' 2>/dev/null; then
    check 'charts are drawn' "$tmp/tree/contrib/charts.py"
    check 'and show the figures' "$tmp/tree/contrib/tables.py" --check
    check 'elsewhere too' "$tmp/tree/contrib/charts.py" "$tmp/again"
    check 'by the same bytes' diff -r "$tmp/again" "$tmp/tree/docs/bench/charts"
else
    skip 'charts are drawn' 'there is no matplotlib'
fi
finish
