#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# `tern-bench program`, with programs that take no time.
# shellcheck disable=SC2016 # commands for an inner shell
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
tern_bench=$(dirname "$SOFTHCA")/tern-bench

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
    check_match 'program: its file' '^\[2, 4, 0.5\] 5$' python3 -c 'if True:
        import json, sys
        figures = json.load(open(sys.argv[1]))["figures"]
        print([figure["median"] for figure in figures], len(figures[0]["rounds"]))' "$tmp/mine.json"
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

program_tests
finish
