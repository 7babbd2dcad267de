#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: contrib/program_calls.sh BUILD-FOLDER [ROUNDS]
#
# How long a program's own calls take on memory that has been sent, over UCX's rc_v and over Tern, on the software HCA:
# with processors that have nothing else to do, and beside one busy process for each. Prints a table of medians and 90th
# percentiles in microseconds, and of the ratios of the medians. The processes take turns, a tenth of the rounds each.
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/.." && pwd)
tools=$(cd "${1:?the folder of a build}/src/tools" && pwd)
rounds=${2:-200}
tmp=$(mktemp -d)
busy=()
trap 'kill "${busy[@]}" 2>/dev/null || true; rm -rf "$tmp"' EXIT
cc -std=gnu11 -O2 -o "$tmp/calls" "$source_dir/test/tern/ucp/calls.c" -lucp -lucs
export UCX_WARN_UNUSED_ENV_VARS=n

measure() { # label
    for _ in {1..10}; do
        "$tools/softhca" run -- env UCX_TLS=rc_v,self "$tmp/calls" $((rounds / 10)) | sed "s/^/$1 rc_v /"
        "$tools/softhca" run -- env UCX_TLS=tern "$tools/tern-run" "$tmp/calls" $((rounds / 10)) | sed "s/^/$1 tern /"
    done
}

{
    measure idle
    for ((i = $(nproc); i > 0; i--)); do
        sh -c 'while :; do :; done' &
        busy+=($!)
    done
    measure busy
} >"$tmp/all"

python3 - "$tmp/all" <<'END'
import statistics, sys
taken, calls = {}, []
for line in open(sys.argv[1]):
    load, over, call, median, late = line.split()
    taken.setdefault((load, over, call), []).append((float(median), float(late)))
    if call not in calls: calls.append(call)
print("| Call | load | rc_v: median, 90 % | tern: median, 90 % | ratio | difference |\n|---|---|---|---|---|---|")
for call in calls:
    for load in ("idle", "busy"):
        of = {over: [statistics.median(part) for part in zip(*taken[load, over, call])] for over in ("rc_v", "tern")}
        rc, tern = of["rc_v"], of["tern"]
        print(f"| {call.replace(':', ' ').replace(',', ' ')} | {load} | {rc[0]:.1f}, {rc[1]:.1f} | "
              f"{tern[0]:.1f}, {tern[1]:.1f} | {tern[0] / rc[0]:.2f} | {tern[0] - rc[0]:+.1f} |")
END
