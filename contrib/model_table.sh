#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Measures what perftest says about the profiles with published figures, for the table in docs/softhca/softhca.md. It takes two
# minutes on two processors, which nothing else should use.
#
#   model_table.sh SOFTHCA [SLOW [PROFILE...]]   times are divided, and rates multiplied, by SLOW (100)
#
# perftest sends no inline data on a device that it does not know.
set -eu

softhca=${1:?path of the softhca command}
slow=${2:-100}
shift $(($# < 2 ? $# : 2))
profiles=("$@")
[ $# -ne 0 ] || profiles=(cx3-fdr cx5-edr cx6-hdr cx7-ndr)
port=$((20000 + $$ % 10000))
export SOFTHCA_FABRIC=model-table-$$

# The line of results of a perftest program, which needs a server and a client.
perftest() {
    local profile=$1 server
    shift
    timeout 60 "$softhca" run --profile "$profile" --slow "$slow" -- "$@" -p "$port" >/dev/null 2>&1 &
    server=$!
    for _ in 1 2 3 4 5 6; do
        sleep 0.5
        timeout 60 "$softhca" run --profile "$profile" --slow "$slow" -- "$@" -p "$port" localhost 2>/dev/null |
            grep -E '^ *[0-9]+ +[0-9]+ +[0-9.]+ ' && break
        kill -0 "$server" 2>/dev/null || break
    done
    wait "$server" || true
    port=$((port + 1))
}

commit=$(git -C "$(dirname "$0")" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
echo "commit $commit, $(date -u +%F), slow $slow"
for profile in "${profiles[@]}"; do
    for kind in write send read atomic; do
        for size in 8 256; do
            [ "$kind $size" != 'atomic 256' ] || continue
            perftest "$profile" "ib_${kind}_lat" -n 1000 -s "$size" |
                awk -v slow="$slow" -v name="$profile $kind latency" '{ print name ", " $1 " B: " $5 / slow " us" }'
        done
        for size in 8 4096 16384 65536; do
            [ "$kind" != atomic ] || [ "$size" -eq 8 ] || continue
            perftest "$profile" "ib_${kind}_bw" -n 1000 -s "$size" |
                awk -v slow="$slow" -v name="$profile $kind stream" \
                    '{ rate = $NF * slow; print name ", " $1 " B: " rate " M/s, " rate * $1 / 1000 " GB/s" }'
        done
    done
done
