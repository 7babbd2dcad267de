#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# How fast Tern is, compared with the peers that clusters run (`tern-bench gate`): no row of gate/expected.txt is lost, and
# what contrib/gate.py says of rows that change. Time plays no part, so the result does not depend on how busy the machine is.
# GATE_SUBSET=all: all rows, not those of CI. GATE_KEEP=FILE: writes all rows there, to replace gate/expected.txt.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../tern/tern.sh
. "$(dirname "$0")/../tern/tern.sh"
tern_bench=$(dirname "$SOFTHCA")/tern-bench
expected=$srcdir/bench/gate/expected.txt

# The comparison, with rows that are made up.
kept() { # row...
    printf '%s\n' '# a comment' "$@" >"$tmp/kept"
}
simulated='cx5-edr|uct' # and this part
measured() { # row...
    printf '%s\n' '# simulated: cx5-edr|ranks' "# simulated: $simulated" "$@" >"$tmp/measured"
}
gate=("$srcdir/../contrib/gate.py" --expected "$tmp/kept" "$tmp/measured")
stream='cx5-edr|uct: stream'
kept "$stream|8|rc_verbs|1.2000" "$stream|64|rc_verbs|0.9000  # a reason"
measured "$stream|8|rc_verbs|0.9800" "$stream|64|rc_verbs|0.8911"
check_match 'a winner that still wins passes, and a loser that falls by 1 %' '^2 rows, 0 failures$' "${gate[@]}"
measured "$stream|8|rc_verbs|1.1000" "$stream|64|rc_verbs|0.8950"
check_match 'the rows are counted' 'rc_verbs: 2 rows, 1 below 0.98, geometric mean 0.992' "${gate[@]}"
check_match 'and sorted' '^0.8950 1.1000 0.8950 1.1000 2$' sh -c '"$@" | awk "/^ |failures/ { print \$1 }" | xargs' sh "${gate[@]}"
measured "$stream|8|rc_verbs|0.9799" "$stream|64|rc_verbs|0.9000"
refuses 'a winner that loses fails' 1 '^slower: cx5-edr, uct: stream, 8 bytes, over rc_verbs: 0.9799, was 1.2000$' "${gate[@]}"
measured "$stream|8|rc_verbs|1.2000" "$stream|64|rc_verbs|0.8909"
refuses 'a loser that falls by more than 1 % fails' 1 '64 bytes, over rc_verbs: 0.8909, was 0.9000$' "${gate[@]}"
measured "$stream|8|rc_verbs|1.3000" "$stream|64|rc_verbs|1.5000"
check_match 'rows that improve pass' '^2 rows are faster by more than 1 %$' "${gate[@]}"
check 'and lose their reasons' sh -c '"$@" && ! grep reason "$0"' "$tmp/new" "${gate[@]}" --keep "$tmp/new"
measured "$stream|8|rc_verbs|1.2000"
refuses 'a row that is missing fails' 1 '^missing: cx5-edr, uct: stream, 64 bytes' "${gate[@]}"
simulated='cx6-hdr|uct'
measured
check 'but not of a profile that is not simulated' "${gate[@]}" --keep "$tmp/new"
check 'whose rows are kept' cmp "$tmp/kept" "$tmp/new"
simulated='cx5-edr|uct'
measured "$stream|8|rc_verbs|1.2000" "$stream|64|rc_verbs|0.9000" "$stream|512|rc_verbs|0.5000"
refuses 'a row that is new fails' 1 '^new: cx5-edr, uct: stream, 512 bytes, over rc_verbs: 0.5000$' "${gate[@]}"
refuses 'and the file is written anew' 1 '^new: ' "${gate[@]}" --keep "$tmp/new"
printf '%s\n' '# a comment' "$stream|8|rc_verbs|1.2000" "$stream|64|rc_verbs|0.9000  # a reason" \
    "$stream|512|rc_verbs|0.5000" >"$tmp/wanted"
check 'with its comments and reasons' cmp "$tmp/new" "$tmp/wanted"
kept "$stream|8|rc_verbs|1.2000" "$stream|8|rc_mlx5, modelled|0.9000"
measured "$stream|8|rc_verbs|1.2000" "$stream|8|rc_mlx5, modelled|0.9000"
check_match 'the best peer is the one over which Tern gains least' \
    '^cx5-edr, tern over the best peer: 1 rows, 1 below 0.98, geometric mean 0.900$' "${gate[@]}"
check_match 'a loser without a reason is named' '^no reason: .*mlx5, modelled: 0.9000$' "${gate[@]}"
kept 'cx5-edr|65 ranks: windows to 64 peers|8|rc_verbs|1.2000'
measured
check 'a row that CI does not simulate is not missing there' "${gate[@]}"
simulated='cx5-edr|65 ranks'
measured
refuses 'but it is among all' 1 '^missing: cx5-edr, 65 ranks: windows to 64 peers' "${gate[@]}"
for broken in "$stream|8|rc_verbs" "$stream|x|rc_verbs|1" "$stream|8|rc_verbs|fast" "$stream|8|rc_verbs|-1" \
    "$stream|8|rc_verbs|nan" 'cx5-edr||8|rc_verbs|1'; do
    kept "$broken"
    refuses "a row that is none: $broken" 1 'no row of ratios' "${gate[@]}"
done
kept "$stream|8|rc_verbs|1" "$stream|8|rc_verbs|2"
refuses 'a row that is there twice' 1 'no row of ratios' "${gate[@]}"
: >"$tmp/measured"
refuses 'no rows' 1 'no rows of tern-bench gate' "$srcdir/../contrib/gate.py" "$tmp/measured"
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
if [ "$subset" = all ]; then
    for archive in "$srcdir"/bench/traces/*.tar.xz; do
        jobs+=("$tmp/$(basename "$archive" .tar.xz)")
        mkdir "${jobs[-1]}" && tar -xf "$archive" -C "${jobs[-1]}"
    done
    jobs=(--jobs "${jobs[@]}")
fi
check 'the simulations' sh -c '"$@" >"$0"' "$tmp/measured" "$tern_bench" gate --subset "$subset" "${jobs[@]}" || finish
check 'no row is lost, and none is new' "$srcdir/../contrib/gate.py" --expected "$expected" \
    ${GATE_KEEP:+--keep "$GATE_KEEP"} "$tmp/measured"
grep -c 'no reason: ' "$tmp/output" >"$tmp/count"
check 'all rows that Tern loses have a reason' grep -qx 0 "$tmp/count"
finish
