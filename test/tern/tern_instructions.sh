#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Counts the instructions of the transport's and of rwapi's hot paths by callgrind, and compares them with the limits in
# instructions/limits.txt. Time plays no part, so the result does not depend on how busy the machine is.
# INSTRUCTIONS_KEEP=FOLDER: keeps callgrind's files there, one for each sample, to see which function a count comes from.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require valgrind readelf
program=./tern-instructions
[ -x $program ] || { echo 'Bail out! run this in the folder test of a build'; exit 1; }

skip_all() { # reason
    echo "1..0 # SKIP $1"
    exit 0
}

# The limits hold for one compiler and its options.
build=$(cd "$(dirname "$SOFTHCA")/../.." && pwd)
[ "$(uname -m)" = x86_64 ] || skip_all 'the limits are those of x86-64'
case $(readelf -p .comment "$tern_library") in
    *clang*) skip_all 'built by clang' ;;
    *'GCC: '*' 12.'*) ;;
    *) skip_all 'not built by GCC 12' ;;
esac
case $(ldd "$tern_library") in *libasan* | *libtsan* | *libclang_rt*) skip_all 'built with sanitizers' ;; esac
grep -q 'TERN_ENABLE_ASSERT=1' "$build/Makefile" && skip_all 'built with --enable-debug'
grep -q '^CXXFLAGS = .*-O2' "$build/Makefile" || skip_all 'not built with -O2'

samples=(send receive receive_1 copy append append_64 append_copy receive_batch atomic poll_1 polls poll_16 put get notify take signal take_signal notify_1k notify_4k)
samples+=(set set_apart set_1k set_4k write write_1k)
samples+=(take_1 take_signal_1 progress look)
samples+=(repeat take_repeats take_repeat_1 repeat_1k repeat_4k)
options=(--tool=callgrind --toggle-collect='sample_*' --compress-strings=no --compress-pos=no)
for sample in "${samples[@]}"; do
    options+=("--dump-after=sample_$sample")
done
folder=${INSTRUCTIONS_KEEP:-$tmp}
mkdir -p "$folder" || exit 1
export UCX_WARN_UNUSED_ENV_VARS=n
use_tern
for part in messages batches polls one-sided notified repeated; do
    # Notified writes are counted both ways. And messages by themselves, and with all others.
    repeat=1 batch=y after=6
    [ "$part" != notified ] || repeat=0
    [ "$part" != messages ] || batch=n
    [ "$part" != batches ] || after=0
    rm -f "$folder/$part".*
    check "valgrind runs: $part" env UCX_TERN_BATCH=$batch \
        TERN_TUNABLES=batch_after=$after,put_repeat=$repeat "${hca[@]}" valgrind "${options[@]}" \
        --callgrind-out-file="$folder/$part" $program $part || finish
done

# "SAMPLE LIBRARY COUNT" for each sample: the instructions within the library. The line after "calls=" is what the
# called functions have taken, which have lines of their own.
awk '
    function print_file(library) {
        for (library in count) if (sample != "") print sample, library, count[library]
        split("", count)
        sample = library_now = ""
    }
    FNR == 1 { print_file() }
    /^desc: Trigger: --dump-after=sample_/ { sample = substr($0, index($0, "=sample_") + 8) }
    /^ob=/ {
        library_now = substr($0, 4)
        sub(".*/", "", library_now)
        sub("[.]so.*", "", library_now)
    }
    /^calls=/ { getline; next }
    /^[0-9]/ { count[library_now] += $2 }
    END { print_file() }' "$folder"/{messages,batches,polls,one-sided,notified,repeated}.* |
    sort -k1,2 -k3n >"$tmp/counts"

# "SAMPLE LIBRARY COUNT": the lower quartile. Of the polls in sample "polls", those that look at more than the blocks
# are like those of "poll_1", and only they call the software HCA; "blocks" is one of the others.
awk '
    { key = $1 " " $2; value[key, n[key]++] = $3 }
    $1 == "polls" && $2 == "libsofthca" { at = n[key] - 1; whole[at] = $3 }
    function quartile(key) { return value[key, int((n[key] - 1) / 4)] }
    END {
        for (key in n) print key, quartile(key)
        # The samples are sorted, and more of the long polls means more of both counts.
        all = quartile("poll_1 libsofthca")
        own = quartile("poll_1 libuct_tern")
        if (all > 0 && whole[0] / all < 5) {
            long = whole[0] / all
            print "blocks libuct_tern", (value["polls libuct_tern", 0] - long * own) / (5 - long)
        }
    }' "$tmp/counts" >"$tmp/usual"

while read -r name operations library baseline most; do
    case $name in '' | '#'*) continue ;; esac
    count_of=$(awk -v name="$name" -v library="$library" -v operations="$operations" \
        '$1 == name && $2 == library { printf "%.1f", $3 / operations }' "$tmp/usual")
    if [ "$name" = blocks ] && [ -z "$count_of" ]; then
        skip "$name, $library" 'valgrind is too slow here for polls in quick succession'
        continue
    fi
    echo "$name, $library: ${count_of:-no} instructions, baseline $baseline, limit $most" >"$tmp/output"
    awk -v count="${count_of:-none}" -v most="$most" 'BEGIN { exit !(count != "none" && count + 0 <= most + 0) }'
    result $? "$name, $library: ${count_of:-?} instructions, at most $most" "$tmp/output"
done <"$srcdir/tern/instructions/limits.txt"
finish
