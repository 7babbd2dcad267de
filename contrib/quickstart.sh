#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Installs missing packages, builds, and runs Open MPI and MPICH over Tern on the software HCA, alternating with stock
# UCX rc_verbs on the same device: latency and bandwidth between two ranks by message size. An argument is a profile of
# the software HCA, for example hdr200. For the comparison of Tern with rc_verbs all memory is private; Tern also runs
# with its blocks in memory that the two processes share.
. "$(dirname "$0")/common.sh"

rounds=3
folder=build/quickstart
log=$folder/build.log
tern_run=("$source_dir/$folder/src/tools/tern-run" "--soft-hca${1:+=$1}")

install_packages build 'MPI over UCX'
mkdir -p $folder
say "building in $folder (log in $log)"
build $folder >"$log" 2>&1 || { tail -n 30 "$log"; die "the build failed"; }

options_openmpi=(--oversubscribe)
[ "$(id -u)" != 0 ] || options_openmpi+=(--allow-run-as-root)
export SOFTHCA_FABRIC=quickstart-$$ UCX_NET_DEVICES=softhca0:1 UCX_WARN_UNUSED_ENV_VARS=n

# run NAME TRANSPORT MEMORY: runs one ping-pong and appends its lines to the file NAME-TRANSPORT-MEMORY.
run() {
    local name=$1 transport=$2 memory=$3 options=() shared=auto
    [ "$name" != openmpi ] || options=("${options_openmpi[@]}")
    [ "$memory" = shared ] || shared=off
    SOFTHCA_SHARED=$shared UCX_TLS=$transport,self timeout -k 5 120 "${tern_run[@]}" "mpirun.$name" "${options[@]}" -np 2 \
        "$folder/pingpong-$name" >"$folder/out" 2>&1 ||
        { cat "$folder/out"; die "the ping-pong of $name over $transport failed"; }
    grep '^ *[0-9]' "$folder/out" >>"$folder/$name-$transport-$memory"
}

# table NAME: medians over the rounds: Tern and rc_verbs, and then Tern with shared memory.
table() {
    awk '
        function median(key,  n, value, i, j, swap) {
            n = split(seen[key], value, " ")
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && value[j] + 0 < value[j - 1] + 0; j--) {
                    swap = value[j]; value[j] = value[j - 1]; value[j - 1] = swap
                }
            return value[int((n + 1) / 2)]
        }
        { which = FILENAME ~ /-shared$/ ? "shared" : FILENAME ~ /-tern-/ ? "tern" : "rc_v" }
        which == "tern" && !($1 in known) { known[$1] = 1; sizes[++count] = $1 }
        {
            seen[which "latency" $1] = seen[which "latency" $1] " " $2
            seen[which "bandwidth" $1] = seen[which "bandwidth" $1] " " $3
        }
        END {
            line = "%9s %8s %8s %7s %10s %10s %7s   %8s %10s\n"
            printf line, "", "latency", "(us)", "", "bandwidth", "(MB/s)", "", "shared", "shared"
            printf line, "bytes", "tern", "rc_v", "ratio", "tern", "rc_v", "ratio", "tern", "tern"
            for (i = 1; i <= count; i++) {
                size = sizes[i]
                a = median("ternlatency" size); b = median("rc_vlatency" size)
                c = median("ternbandwidth" size); d = median("rc_vbandwidth" size)
                e = median("sharedlatency" size); f = median("sharedbandwidth" size)
                printf "%9d %8.2f %8.2f %7.2f", size, a, b, a / b
                if (size > 0) printf " %10.1f %10.1f %7.2f   %8.2f %10.1f", c, d, c / d, e, f
                else printf " %10s %10s %7s   %8.2f", "", "", "", e
                printf "\n"
            }
        }' "$folder/$1-tern-private" "$folder/$1-rc_v-private" "$folder/$1-tern-shared"
}

for name in openmpi mpich; do
    "mpicc.$name" -O2 -o $folder/pingpong-$name test/mpi/pingpong.c
    rm -f $folder/$name-*
    for ((round = 1; round <= rounds; round++)); do
        say "$name: round $round of $rounds, tern and rc_v"
        run $name tern private
        run $name rc_v private
        run $name tern shared
    done
done
for name in openmpi mpich; do
    say "$name, two ranks on the software HCA${*:+, profile $*}: medians of $rounds rounds"
    table $name
done
say "ratios: all memory is private, and the device of one process reaches that of another by a system call; \"shared\":" \
    "Tern's own memory is shared, which saves that call and needs no change of the program"
"$folder/src/tools/softhca" clean >/dev/null

say "done. Your own program: $folder/src/tools/tern-run --soft-hca mpirun -np 2 ./program"
