#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Usage: contrib/fuzz.sh [--keep] SECONDS [TARGET...]
#
# Builds the fuzz targets of test/common/fuzz with clang and libFuzzer, with the address and undefined-behaviour sanitizers, and
# runs each for SECONDS, from the kept corpus test/common/fuzz/corpus/TARGET and from what earlier runs have found. Without
# TARGET, all of them; `quick` stands for those that need no device. Prints TAP, and for each target the inputs, the
# edges covered and the size of the corpus. An input that breaks a rule is kept, and its path printed; the target runs it
# again if it is given as its argument.
#
#   --keep        afterwards, the few inputs that cover most become the kept corpus
#   FUZZ_FOLDER   where it builds; default: build/fuzz
#   FUZZ_CXX      the compiler; default: clang++
. "$(dirname "$0")/common.sh"

keep=no
if [ "${1:-}" = --keep ]; then
    keep=yes
    shift
fi
[[ ${1:-} =~ ^[0-9]+$ ]] || { sed -n '/^# Usage/,/^[^#]/ s/^# \{0,1\}//p' contrib/fuzz.sh >&2; exit 2; }
seconds=$1
shift
compiler=${FUZZ_CXX:-clang++}
command -v "${compiler##* }" >/dev/null || die "$compiler is missing: install clang"
folder=${FUZZ_FOLDER:-build/fuzz}
mkdir -p "$folder"
folder=$(realpath "$folder")

make_targets() { # make argument...
    cached make -C "$folder" -s -f "$source_dir/test/common/fuzz/fuzz.mk" SOURCE="$source_dir" FUZZ_CXX="$compiler" "$@"
}

targets=()
for name in "${@:-all}"; do
    case $name in
        all | quick) mapfile -t -O ${#targets[@]} targets < <(make_targets "list-$name") ;;
        *) targets+=("$name") ;;
    esac
done
make_targets -j"$(nproc)" "${targets[@]}"

# The value of a line of libFuzzer's statistics.
statistic() { # name log
    sed -n "s/^stat::$1: *//p" "$2"
}

number=0
failures=0
for target in "${targets[@]}"; do
    number=$((number + 1))
    kept=test/common/fuzz/corpus/$target
    found=$folder/corpus/$target
    log=$folder/$target.log
    mkdir -p "$found" "$folder/findings/$target"
    corpora=("$found")
    [ ! -d "$kept" ] || corpora+=("$kept")
    status=0
    # Each target that has a device needs a fabric of its own.
    SOFTHCA_FABRIC=fuzz-$target-$$ timeout -k 5 $((seconds + 300)) "$folder/$target" -max_total_time="$seconds" \
        -max_len=1024 -len_control=20 -timeout=60 -rss_limit_mb=3000 -print_final_stats=1 -artifact_prefix="$folder/findings/$target/" \
        "${corpora[@]}" >"$log" 2>&1 || status=$?
    rm -f "/dev/shm/softhca-$(id -u)-fuzz-$target-$$" # a target that died
    inputs=$(statistic number_of_executed_units "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    name="fuzz $target: ${inputs:-0} inputs, ${edges:-0} edges"
    if [ $status = 0 ] && [ "${inputs:-0}" -gt 0 ]; then
        echo "ok $number - $name"
    else
        failures=$((failures + 1))
        echo "not ok $number - $name"
        grep -v '^"\|DEDUP_TOKEN' "$log" | tail -n 60 | sed 's/^/# /'
    fi
    [ $keep = no ] || contrib/fuzz_corpus.py "$folder/$target" "$kept" "$found"
done
echo "1..$number"
[ $failures = 0 ]
