#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Measures all that the documents quote, into docs/bench/results, and makes the documents' tables and charts of it. Nothing
# else should use the machine meanwhile.
#
#   results.sh BUILD-FOLDER [PART...]   the parts, or all of them
#   results.sh --list                   the parts, and the minutes that each takes on two processors
#
# The files of a part are PART.json, PART-*.json or PART.out. The parts `rwapi`, `model_table` and `program_calls`
# are in real time; the others are simulated or counted, and the same on every machine. `memory` takes 12 GB.
set -eu
if [ "${1:-}" = --list ]; then
    tools=
elif [ -x "${1:-}/src/tools/tern-bench" ]; then
    tools=$(cd "$1/src/tools" && pwd)
    build=$(cd "$1" && pwd)
    shift
    wanted=" ${*:-all} "
else
    sed -n '4,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
cd "$(dirname "$0")/.."
results=docs/bench/results
traces=test/bench/traces
mkdir -p $results
minutes=0
measured=' '

# part NAME MINUTES: whether it is wanted; its measurements follow.
part() {
    if [ -z "$tools" ]; then
        printf '%-18s %4s min\n' "$1" "$2"
        minutes=$((minutes + $2))
        return 1
    fi
    case $wanted in *" all "* | *" $1 "*) ;; *) return 1 ;; esac
    measured+="$1 "
    echo "== $1: $2 min"
}

# measure FILE command...: the command gets the name of the JSON file as its last argument; what it prints is an .out file.
measure() {
    local file=$results/$1 start=$SECONDS
    shift
    echo "$*"
    case $file in
        *.json) (PATH=$tools:$PATH && "$@" "$file" >/dev/null) ;;
        *) (PATH=$tools:$PATH && "$@" >"$file") ;;
    esac
    echo "$file: $((SECONDS - start)) s"
}

# unpack JOB...: the traces of each job, in the folder $unpacked/JOB.
unpacked=
unpack() {
    local job
    if [ -z "$unpacked" ]; then
        unpacked=$(mktemp -d)
        trap 'rm -rf "$unpacked"' EXIT
    fi
    for job; do
        [ ! -d "$unpacked/$job" ] || continue
        mkdir "$unpacked/$job"
        tar -xf "$traces/$job.tar.xz" -C "$unpacked/$job"
    done
}

if part sim 2; then
    for profile in cx3-fdr cx5-edr cx6-hdr; do
        measure sim-$profile.json tern-bench sim --profile $profile --transports tern,rc_verbs,rc_mlx5 --json
    done
    measure sim-crowd.json tern-bench sim --profile cx5-edr --ranks 66 --patterns crowd --json
    measure sim-muse.json tern-bench sim --profile muse --ranks 2 --patterns ping-pong,stream --json
fi
if part sim-rwapi 2; then
    for profile in muse cx3-fdr cx5-edr cx6-hdr; do
        measure sim-rwapi-$profile.json tern-bench sim --rwapi --profile $profile --sizes 8,1K,2K,4K,8K,16K,64K,1M --json
    done
fi
if part gate 15; then
    # shellcheck disable=SC2046
    unpack $(basename -a -s .tar.xz $traces/*.tar.xz)
    measure gate-graphene.json tern-bench gate --profile graphene --subset ci --json
    measure gate-halo-cx5-edr.json tern-bench gate --profile cx5-edr --subset halo --json
    for profile in cx5-edr cx6-hdr; do
        measure gate-$profile.json tern-bench gate --profile $profile --jobs "$unpacked"/* --json
    done
fi
if part memory 2; then
    # UCX registers each page twice on some processors otherwise. The receive queue is as long as Tern's.
    export UCX_IB_PCI_RELAXED_ORDERING=no
    UCX_RC_VERBS_RX_QUEUE_LEN=512 measure memory-512.json tern-bench memory --peers 1,16,64,256,1000 --hot 64 --json
    # The peers and the channels of AMG2006 in the Veloblock paper (docs/bench/papers.md).
    export UCX_TERN_HOT_MAX=128 UCX_TERN_HOT_MEMORY=inf
    measure memory-amg.json tern-bench memory --peers 104 --json
    UCX_TERN_BLOCK_MAX=32k measure memory-amg-32k.json tern-bench memory --peers 104 --json
    unset UCX_IB_PCI_RELAXED_ORDERING UCX_TERN_HOT_MAX UCX_TERN_HOT_MEMORY
fi
if part scale 2; then
    measure scale.json tern-bench scale --json
    measure scale-64-hot.json tern-bench scale --patterns skewed --ranks 100000 --limits 4096,2048,1024 --hot-max 64 --json
    for channels in 8 32 128; do
        measure scale-amg-hot-$channels.json tern-bench scale --patterns amg --ranks 128 --limits inf --hot-max $channels --json
    done
    unpack amg lammps
    for job in amg lammps; do
        measure scale-$job.json tern-bench scale --limits inf --hot-max 8 --traces "$unpacked"/$job/$job.? --json
    done
fi
if part availability 2; then
    measure availability.json contrib/availability.py "$tools/tern-bench" --json
    for profile in cx5-edr cx6-hdr; do
        measure availability-$profile.json contrib/availability.py "$tools/tern-bench" --profile $profile --json
    done
fi
if part replays 5; then # whole programs
    for profile in cx5-edr cx6-hdr; do
        measure replays-$profile.json contrib/contenders.py "$tools/tern-bench" peers --profile $profile --jobs 2 \
            $traces/*.tar.xz --json
    done
    contend=(contrib/contenders.py "$tools/tern-bench")
    measure replays-registration.json "${contend[@]}" registration --jobs 2 $traces/{cg,is,lu,sp}.tar.xz --json
    measure replays-overlap.json "${contend[@]}" overlap --jobs 2 $traces/sp.tar.xz --json
    measure replays-channels.json "${contend[@]}" channels --jobs 2 $traces/{amg,lammps}.tar.xz --json
    measure replays-pinning.json contrib/patterns.py "$tools" --job $traces/is.tar.xz --json
fi
if part pinning 2; then
    measure pinning-patterns.json contrib/patterns.py "$tools" --json
    measure pinning-overload.json contrib/patterns.py "$tools" --patterns PingPong --slower 1,10,100 --json
    measure pinning-costs.json paper-tables pinning
fi
if part superpipeline 1; then
    measure superpipeline.json paper-tables superpipeline
fi
if part rwapi 5; then
    measure rwapi.json tern-bench rwapi --sizes 8:1M --step 16 --rounds 9 --json
fi
if part model_table 2; then
    measure model_table.out contrib/model_table.sh "$tools/softhca"
fi
if part program_calls 2; then
    measure program_calls.out contrib/program_calls.sh "$build"
fi
if [ -z "$tools" ]; then
    printf '%-18s %4s min\n' 'all' $minutes
    exit
fi
for name in $wanted; do
    case $name$measured in all* | "$name"*" $name "*) ;; *) echo "results.sh: no part $name" >&2 && exit 2 ;; esac
done
contrib/tables.py --trim $results
contrib/charts.py
