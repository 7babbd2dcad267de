#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The simulation of one process with many peers (`tern-bench scale`): its figures are those of sim/scale.txt, but for the
# records of connections, whose size the compiler decides. Time plays no part.
# SCALE_KEEP=FILE: writes the figures there, to replace sim/scale.txt.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
tern_bench=$(dirname "$SOFTHCA")/tern-bench

small=(scale --ranks '100,1000' --limits 'inf,256,64' --messages 20000)
check 'all patterns' "$tern_bench" "${small[@]}" --json "$tmp/first.json" || finish
cp "$tmp/output" "$tmp/first"
check 'again' "$tern_bench" "${small[@]}" --json "$tmp/again.json"
cp "$tmp/output" "$tmp/again"
check 'two runs print the same' cmp "$tmp/first" "$tmp/again"
sed -i '/^ "date": /d' "$tmp/first.json" "$tmp/again.json"
check 'two runs write the same, but for the date' cmp "$tmp/first.json" "$tmp/again.json"

awk '/^pattern/ { table = 1 } table && NF == 0 { exit } table { $8 = ""; print }' "$tmp/first" | tr -s ' ' >"$tmp/figures"
if [ -n "${SCALE_KEEP:-}" ]; then cp "$tmp/figures" "$SCALE_KEEP"; fi
grep -v '^#' "$srcdir/bench/sim/scale.txt" | diff - "$tmp/figures" >"$tmp/changes"
result $? 'the figures are the expected ones' "$tmp/changes"

printf 'tern-trace 1\na 1\ne 0 2\nc 1000\ns 0 0 ff 64 1000 0\n' >"$tmp/trace0"
printf 'tern-trace 1\na 2\ne 0 1\nc 2000\ns 0 0 ff 8 1000 0\n' >"$tmp/trace1"
check_match 'traces' '^traces  *2  *inf  *2.00' "$tern_bench" scale --traces "$tmp/trace0" "$tmp/trace1"
refuses 'traces and a pattern' 2 'excludes' "$tern_bench" scale --traces "$tmp/trace0" --patterns ring
refuses 'an unknown pattern' 2 'patterns' "$tern_bench" scale --patterns star
refuses 'a limit of 0' 2 'limits' "$tern_bench" scale --limits 0
refuses 'one rank' 2 'ranks' "$tern_bench" scale --ranks 1
finish
