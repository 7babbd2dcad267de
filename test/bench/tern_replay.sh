#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# MPI jobs are recorded (libtern_record.so), and kept ones replayed in virtual time (`tern-bench replay`) over Tern and
# its peers: two replays print the same, computations count by their factor, registrations are lost with the memory that
# the program gave back, and what is no trace is refused.
mpi=openmpi
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../tern/tern.sh
. "$(dirname "$0")/../tern/tern.sh"
# shellcheck source-path=SCRIPTDIR source=../common/mpi.sh
. "$(dirname "$0")/../common/mpi.sh"
require xz # for tar
tern_bench=$(dirname "$SOFTHCA")/tern-bench
recorder=$(dirname "$tern_library")/libtern_record.so

skip_all() { # reason
    echo "1..0 # SKIP $1"
    exit 0
}
[ "$(uname -m)" = x86_64 ] || skip_all 'simulations need a processor of type x86-64'
case $(ldd "$tern_library") in *libasan* | *libtsan* | *libclang_rt*) skip_all 'built with sanitizers' ;; esac

# record NAME RANKS program...: into $tmp/NAME.RANK
record() {
    local name=$1 ranks=$2
    shift 2
    # shellcheck disable=SC2016 # for the inner shell
    UCX_TLS=rc_v,self TERN_RECORD=$tmp/$name check "$name: $ranks ranks are recorded" bash -c 'launch_openmpi "$@"' _ \
        "$ranks" env LD_PRELOAD="$recorder" "${hca[@]}" "$@"
}
must_compile "mpicc.$mpi" -std=gnu11 -O1 -o "$tmp/halo" "$srcdir/tern/mpi/halo.c"
record trace 4 "$tmp/halo" || finish
# 12 exchanges of 2 sends and 2 receives, each of which the program waits for; and the sums'.
status=0
for trace in "$tmp"/trace.[0-3]; do
    [ "$(grep -Ec '^s [0-9]+ [0-9]+ [0-9a-f]+ (8|2048|32768|131072) ' "$trace")" -ge 24 ] &&
        [ "$(grep -c '^w' "$trace")" = "$(grep -c '^[sr]' "$trace")" ] && grep -q '^c' "$trace" &&
        ! grep -Eq '^u [0-9a-f]+ 1?[0-9]{5}$' "$trace" || status=1
done
result $status 'each trace has the messages, waits and computations, and no memory of messages is given back' "$tmp/trace.0"
# Each vector of 256 KiB and more is a mapping of its own, or the end of the heap.
must_compile "mpicxx.$mpi" -std=c++20 -O1 -o "$tmp/growing" "$srcdir/bench/traces/growing.cc"
record growing 2 "$tmp/growing" 6
status=0
for trace in "$tmp"/growing.[01]; do
    awk '$1 == "u" && $3 >= 262144 { ++given_back } END { exit !(given_back >= 4) }' "$trace" || status=1
done
result $status 'memory of messages that the program gave back is in the traces' "$tmp/growing.0"

# unpack JOB: the traces of a job that is kept are those that are replayed.
unpack() {
    tar -xJf "$srcdir/bench/traces/$1.tar.xz" -C "$tmp"
    traces=("$tmp/$1".[0-7])
}
unpack lammps

# What is said on a machine where two replays differ by some 10 ns.
inexact='time-stamp counter do not trap'
replay() { # output option...
    local output=$1
    shift
    timeout -k 5 "$limit" "$tern_bench" replay --profile cx5-edr "$@" "${traces[@]}" >"$output" 2>"$tmp/notes" </dev/null
    local status=$?
    grep -v "$inexact" "$tmp/notes" >>"$output"
    return $status
}
# same NAME FILE...: the result of the last command, which compares replays.
same() {
    local status=$?
    if grep -q "$inexact" "$tmp/notes"; then
        skip "$1" "UCX reads the processor's counter, which does not trap"
    else
        result $status "$@"
    fi
}
replay "$tmp/first"
status=$?
# Containers may forbid it.
! grep -q 'the kernel does not let' "$tmp/first" || skip_all "$(grep -o 'the kernel does not let.*' "$tmp/first")"
result $status 'it is replayed' "$tmp/first" || finish
replay "$tmp/second" && cmp "$tmp/first" "$tmp/second" >"$tmp/output" 2>&1
same 'two replays print the same' "$tmp/output" "$tmp/second"

# job COLUMN FILE: 2: computed, 3: tern, 4: rc_verbs
job() {
    awk -v column="$1" '$1 == "job" { print $column }' "$2"
}
replay "$tmp/none" --compute 0 --json "$tmp/none.json"
result $? 'without computations' "$tmp/none"
awk -v computed="$(job 2 "$tmp/first")" -v tern="$(job 3 "$tmp/first")" -v rc="$(job 4 "$tmp/first")" \
    -v none="$(job 2 "$tmp/none")" -v tern_none="$(job 3 "$tmp/none")" -v rc_none="$(job 4 "$tmp/none")" '
    BEGIN { exit !(computed > 0 && none == 0 && tern > computed && rc > computed && tern_none > 0 &&
                   tern > tern_none && rc > rc_none) }'
result $? 'the job takes its computations and more' "$tmp/first" "$tmp/none"
check_match 'the JSON file has the job' '"command": "replay"' cat "$tmp/none.json"

replay "$tmp/over" --over tern && ! grep -q rc_verbs <(tail -n +4 "$tmp/over") &&
    [ "$(job 3 "$tmp/over")" = "$(job 3 "$tmp/first")" ]
same 'over one transport: the same' "$tmp/over" "$tmp/first"

traces=("${traces[@]:0:3}")
refuses 'a rank is missing' 1 'sends to one whose trace is not there' "$tern_bench" replay "${traces[@]}"
sed '5s/.*/s 1 what/' "${traces[0]}" >"$tmp/wrong"
refuses 'a line is wrong' 1 'line 5: not an event' "$tern_bench" replay "$tmp/wrong"
refuses '--set: not of UCX' 2 'a setting is UCX_NAME=VALUE, not HOME=/' "$tern_bench" replay --set HOME=/ "${traces[0]}"

# The same buffers, but all memory stays: a cache of registrations finds them again.
unpack numpy
registrations() {
    awk '$1 == "registrations" { print $2 }' "$1"
}
replay "$tmp/given_back" --compute 0 --over rc_verbs
result $? 'a job that gives memory back' "$tmp/given_back"
sed -i '/^u/d' "${traces[@]}"
replay "$tmp/kept" --compute 0 --over rc_verbs
[ "$(registrations "$tmp/given_back")" -gt "$(registrations "$tmp/kept")" ]
result $? 'registrations are lost with their memory' "$tmp/given_back" "$tmp/kept"
# What contrib/ makes of replays.
figure() { # FILE TEST NAME: its value
    tr -d '\n' <"$1" | tr '}' '\n' | grep "\"test\": \"$2\"" | grep "\"name\": \"$3\"" | sed 's/.*"median": //'
}
if command -v python3 >/dev/null; then
    # The TupleQ paper's figure 5: the matcher leaves the processor free, at both sides, a rendezvous does not.
    check 'availability' "$srcdir/../contrib/availability.py" "$tern_bench" --sizes 64K --messages 120 --json "$tmp/availability.json"
    # availability WHO NAME CONDITION
    availability() {
        figure "$tmp/availability.json" "availability of the $1" "$2" |
            awk "BEGIN { found = 0 } { found = \$1 $3 } END { exit !found }"
        result $? "availability of the $1, $2: $3" "$tmp/availability.json"
    }
    availability receiver matcher '> 0.95'
    availability sender matcher '> 0.95'
    availability receiver 'rc_v get' '< 0.3'
    availability sender 'rc_v get' '> 0.95'
    availability receiver 'rc_v put' '< 0.3'
    availability sender 'rc_v put' '< 0.3'
    # Table 2 of the pinning paper: for messages one at a time, overlap brings nearly what a cache brings. The program's
    # own computations take no time.
    patterns=("$srcdir/../contrib/patterns.py" "$(dirname "$tern_bench")" --json "$tmp/patterns.json")
    check 'the patterns of the pinning paper' "${patterns[@]}" --patterns Broadcast --bytes 1048576 --rounds 4 --slower 1,10
    gain() { # NAME [MORE]: on the Xeon E5460, in per cent
        figure "$tmp/patterns.json" "Broadcast, Xeon E5460${2:-}, gain" "$1"
    }
    awk -v overlapped="$(gain overlapped)" -v cached="$(gain cached)" \
        -v slower="$(gain cached ', pinning 10 times as slow')" 'BEGIN {
            exit !(cached > 5 && cached < 12 && overlapped > 0.85 * cached && overlapped < cached && slower > 3 * cached) }'
    result $? 'pinning behind the wire brings what a cache brings' "$tmp/patterns.json"
    # Most buffers are used again and again.
    lammps=$srcdir/bench/traces/lammps.tar.xz
    check 'a job with the costs of the pinning paper' "${patterns[@]}" --compute 0 --job "$lammps"
    pins() { # NAME: registrations
        figure "$tmp/patterns.json" 'registrations of the job' "$1"
    }
    awk -v first="$(pins 'pinned first')" -v overlapped="$(pins overlapped)" -v cached="$(pins cached)" \
        'BEGIN { exit !(cached > 0 && first > 2 * cached && overlapped >= first) }'
    result $? 'memory that stays pinned is pinned less often' "$tmp/patterns.json"
    contenders=("$srcdir/../contrib/contenders.py" "$tern_bench" --compute 0)
    check 'contenders' "${contenders[@]}" --json "$tmp/contenders.json" registration "$lammps"
    awk -v cache="$(figure "$tmp/contenders.json" 'registrations of the job' 'rc_v with its cache')" \
        -v none="$(figure "$tmp/contenders.json" 'registrations of the job' 'rc_v without a cache')" \
        'BEGIN { exit !(cache > 0 && none > 2 * cache) }'
    result $? 'a registration cache spares registrations' "$tmp/contenders.json"
    check 'a job that is kept, over the peers' "${contenders[@]}" --profile cx5-edr --json "$tmp/peers.json" peers \
        "$srcdir/bench/traces/numpy.tar.xz"
    # 8 ranks send 15 times to two neighbours, each of 256 KiB to 4 MiB three times; and the sum's.
    awk -v messages="$(figure "$tmp/peers.json" 'messages of the job' 'all')" \
        -v long="$(figure "$tmp/peers.json" 'messages of the job' 'of 16 KiB and more')" \
        -v bytes="$(figure "$tmp/peers.json" 'bytes of the job' 'all')" \
        'BEGIN { exit !(messages == 320 && long == 8 * 15 * 2 && int(bytes / 262144) == 8 * 3 * 2 * 31) }'
    result $? 'what the traces say of it' "$tmp/peers.json"
    status=0
    for peer in rc_verbs 'rc_verbs, RNDV_THRESH=inf' 'rc_mlx5, modelled'; do
        awk -v tern="$(figure "$tmp/peers.json" 'time of the job' tern)" \
            -v other="$(figure "$tmp/peers.json" 'time of the job' "$peer")" \
            -v ratio="$(figure "$tmp/peers.json" 'time of the job' "tern / $peer")" \
            'BEGIN { exit !(ratio > 0 && ratio * other / tern > 0.9999 && ratio * other / tern < 1.0001) }' || status=1
    done
    result $status 'its time over each peer, and the ratios' "$tmp/peers.json"
else
    skip 'availability' 'there is no python3'
fi
# Each rank has seen its send end before it posted the receive that the other one waits for.
for rank in 0 1; do
    printf 'tern-trace 1\na %d\ne 0 %d\ns 0 0 1 1000000 10000 0\nt 0\nr 1 1 ff 1000000 200000\nw 1\n' $rank $((1 - rank)) \
        >"$tmp/still.$rank"
done
refuses 'a job that chose by what had ended first' 1 'rank 1 is at event 2, t 0[.].*cannot be replayed' \
    "$tern_bench" replay "$tmp/still.0" "$tmp/still.1"
refuses 'no trace' 1 'is not a trace' "$tern_bench" replay "$0"
finish
