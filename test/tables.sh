#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tables of the documents are those of the results in docs/results, and contrib/tables.py finds what differs.
# shellcheck disable=SC2016 # commands for an inner shell, and Markdown
# shellcheck source-path=SCRIPTDIR source=integration/lib.sh
. "$(dirname "$0")/integration/lib.sh"
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
    'test=one rows=name columns=x names="tern, private = private; tern" x="1 KiB" doubts=no digits=2' \
    '| us | 1 KiB |' '| --- | --- |' '| private | 123456 |' '| tern | 12 |'
makes 'ratios have their spread' 'unit=x' '|  | tern / rc_v |' '| --- | --- |' '| 8 B | 0.500 (0.250 to 0.750) |'
makes 'or their range' 'unit=x show=range digits=2 corner=message' '| message | tern / rc_v |' '| --- | --- |' \
    '| 8 B | 0.50 (0.12 to 1.0) |'
makes 'several tests' 'rows="test; x" names=tern columns=unit' '|  |  | us | GB/s |' '| --- | --- | --- | --- |' \
    '| one | 8 B | 0.123 | - |' '| one | 1 KiB | 12.3? | - |' '| two | 8 B | - | 0.00123 |'
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
printf '<!-- source: result.json -->\n<!-- end -->\n' >"$document"
check 'where figures are from' "$tables" "$document"
check_match 'names commit, date and machine' 'commit `abc`, 2026-01-02, A CPU, 2 cores, virtual, rounds: 5$' cat "$document"
check_match 'a list of what there is' 'names="tern; tern, private"' "$tables" --list "$tmp/result.json"
finish
