#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# How fast Tern is, compared with the peers that clusters run (`tern-bench gate`): no row of gate/expected.txt is lost, and
# what the command says of rows that change. Time plays no part, so the result does not depend on how busy the machine is.
# GATE_SUBSET=all: all rows, not those of CI. GATE_KEEP=FILE: writes all rows there, to replace gate/expected.txt.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../tern/tern.sh
. "$(dirname "$0")/../tern/tern.sh"
tern_bench=$(dirname "$SOFTHCA")/tern-bench
expected=$srcdir/bench/gate/expected.txt

# The comparison, with rows that are made up.
kept() { # row...
    printf '# a comment\n' >"$tmp/kept"
    printf '%s\n' "$@" >>"$tmp/kept"
}
measured() { # row...
    printf '%s\n' "$@" >"$tmp/measured"
}
gate=("$tern_bench" gate --expected "$tmp/kept" --rows "$tmp/measured")
stream='cx5-edr|uct: stream'
kept "$stream|8|rc_verbs|1.2000" "$stream|64|rc_verbs|0.9000  # a reason"
measured "$stream|8|rc_verbs|1.1000" "$stream|64|rc_verbs|0.8950"
check_match 'a winner that still wins passes' '^2 rows, 0 failures$' "${gate[@]}"
check_match 'the rows are sorted, and counted' 'rc_verbs: 2 rows, 1 below 0.98, geometric mean 0.992' "${gate[@]}"
measured "$stream|8|rc_verbs|0.9799" "$stream|64|rc_verbs|0.9000"
refuses 'a winner that loses fails' 1 '^slower: cx5-edr, uct: stream, 8 bytes, over rc_verbs: 0.9799, was 1.2000$' "${gate[@]}"
measured "$stream|8|rc_verbs|1.2000" "$stream|64|rc_verbs|0.8900"
refuses 'a loser that falls by more than 1 % fails' 1 '64 bytes, over rc_verbs: 0.8900, was 0.9000$' "${gate[@]}"
measured "$stream|8|rc_verbs|1.3000" "$stream|64|rc_verbs|1.5000"
check_match 'rows that improve pass' '^2 rows are faster by more than 1 %$' "${gate[@]}"
measured "$stream|8|rc_verbs|1.2000"
refuses 'a row that is missing fails' 1 '^missing: cx5-edr, uct: stream, 64 bytes' "${gate[@]}"
check 'but not of a profile that is not selected' "${gate[@]}" --profile cx6-hdr
measured "$stream|8|rc_verbs|1.2000" "$stream|64|rc_verbs|0.9000" "$stream|512|rc_verbs|0.5000"
refuses 'a row that is new fails' 1 '^new: cx5-edr, uct: stream, 512 bytes, over rc_verbs: 0.5000$' "${gate[@]}"
refuses 'and the file is written anew' 1 '^new: ' "${gate[@]}" --keep "$tmp/new"
printf '%s\n' '# a comment' "$stream|8|rc_verbs|1.2000" "$stream|64|rc_verbs|0.9000  # a reason" \
    "$stream|512|rc_verbs|0.5000" >"$tmp/wanted"
check 'with its comments and reasons' cmp "$tmp/new" "$tmp/wanted"
kept "$stream|8|rc_verbs|1.2000" "$stream|8|rc_mlx5, modelled|0.9000  # a reason"
measured "$stream|8|rc_verbs|1.2000" "$stream|8|rc_mlx5, modelled|0.9000"
check_match 'the best peer is the one over which Tern gains least' \
    '^cx5-edr, tern over the best peer: 1 rows, 1 below 0.98, geometric mean 0.900$' "${gate[@]}"
kept 'cx5-edr|65 ranks: windows to 64 peers|8|rc_verbs|1.2000'
: >"$tmp/measured"
check 'a row that CI does not simulate is not missing there' "${gate[@]}" --subset ci
refuses 'but it is among all' 1 '^missing: cx5-edr, 65 ranks: windows to 64 peers' "${gate[@]}"
kept "$stream|8|rc_verbs"
refuses 'a row without a number' 1 'no row of ratios' "${gate[@]}"
refuses 'a subset that does not exist' 2 'subset' "$tern_bench" gate --subset some
refuses 'a file of two profiles' 2 'profile' "$tern_bench" gate --profile cx5-edr,cx6-hdr --json "$tmp/json"

[ "$(uname -m)" = x86_64 ] || { skip 'no row is lost, and none is new' 'simulations need a processor of type x86-64'; finish; }
case $(ldd "$tern_library") in
    *libasan* | *libtsan* | *libclang_rt*) skip 'no row is lost, and none is new' 'built with sanitizers'; finish ;;
esac
# Containers may forbid it.
if ! "$tern_bench" sim --patterns ping-pong --ranks 2 >"$tmp/sim" 2>&1 && grep -q 'the kernel does not let' "$tmp/sim"; then
    skip 'no row is lost, and none is new' "$(grep -o 'the kernel does not let.*' "$tmp/sim")"
    finish
fi
# What is exact depends on which copies the compiler has made instructions of.
build=$(cd "$(dirname "$SOFTHCA")/../.." && pwd)
if ! readelf -p .comment "$tern_library" | grep -q 'GCC: .* 12[.]' || ! grep -q '^CXXFLAGS = .*-O2' "$build/Makefile" ||
    grep -q 'TERN_ENABLE_ASSERT=1' "$build/Makefile"; then
    skip 'no row is lost, and none is new' 'not built by GCC 12 with -O2 and without --enable-debug'
    finish
fi
# shellcheck disable=SC2034 # of check
limit=7200
subset=${GATE_SUBSET:-ci}
[ -z "${GATE_KEEP:-}" ] || subset=all
jobs=()
[ "$subset" = ci ] || jobs=(--jobs "$srcdir"/bench/traces/*.tar.xz)
check 'no row is lost, and none is new' "$tern_bench" gate --subset "$subset" --expected "$expected" "${jobs[@]}" \
    ${GATE_KEEP:+--keep "$GATE_KEEP"}
grep -c 'no reason: ' "$tmp/output" >"$tmp/count"
check 'all rows that Tern loses have a reason' grep -qx 0 "$tmp/count"
finish
