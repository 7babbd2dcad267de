#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2034,SC2154
#
# soak.sh MINUTES [BUILD]: random jobs, one after the other, until the time is over: MPI programs, the tests of the
# transport, of the engine and of verbs, and jobs of rwapi, with random settings on random personalities of the software
# HCA, with faults, and with members that are killed or stand still. Every job checks every byte, or what its test
# checks; after each, no process, fabric or file may be left. BUILD (build/check) has the programs.
#
# Prints a line of TAP for each job and, at the end, how much it was. TERN_TEST_SEED=N: the jobs of an earlier run. What
# a failed job has printed is in BUILD/soak/JOB.log, with its settings.
set -u
cd "$(dirname "$0")/.." || exit 1
[[ ${1-} =~ ^[0-9]+$ ]] || { echo "usage: $0 MINUTES [BUILD]"; exit 2; }
end=$((SECONDS + 60 * $1))
build=$(cd "${2:-build/check}" && pwd) || exit 1
export SOFTHCA=$build/src/tools/softhca
mpi=openmpi
limit=600
# shellcheck source=test/common/lib.sh
. test/common/lib.sh
# shellcheck source=test/tern/tern.sh
. test/tern/tern.sh
kept=$build/soak
mkdir -p "$kept"
rm -f "$kept"/*.log
tools=$build/src/tools
tests=$build/test
for program in tern-uct tern-engine verbs-conformance rwapi-job rwapi-launch; do
    [ -x "$tests/$program" ] || { echo "$0: $tests/$program is missing: make -C $tests $program"; exit 2; }
done

seed=${TERN_TEST_SEED:-$RANDOM}
echo "TERN_TEST_SEED=$seed"
RANDOM=$seed
for mpi in openmpi mpich; do
    # shellcheck source=test/common/mpi.sh
    . test/common/mpi.sh
    mkdir -p "$tmp/$mpi"
    make_programs "$tmp/$mpi"
done
cp "$tmp/mpich/yield.so" "$tmp"
unset UCX_NET_DEVICES

one_of() { # word...
    shift $((RANDOM % $#))
    echo "$1"
}
sometimes() { # one of so many times
    ((RANDOM % $1 == 0))
}

# Settings, of which each is as by default more often than not.
choices=(
    'UCX_TERN_QP_MAX 1 2 4' 'UCX_TERN_TX_QUEUE_LEN 32 64' 'UCX_TERN_RX_QUEUE_LEN 32 64 128'
    'UCX_TERN_SEG_SIZE 1k 2k 16k' 'UCX_TERN_POLL memory cq' 'UCX_TERN_HOT_MAX 0 1 2' 'UCX_TERN_HOT_MEMORY 8k 64k'
    'UCX_TERN_HOT_AFTER 1 100' 'UCX_TERN_BLOCK_MAX 4k 16k' 'UCX_TERN_RNDV_SCHEME superpipeline zcopy'
    'TERN_TUNABLES rndv_windows=1 rndv_windows=2 batch_after=0 batch_after=2' 'UCX_TERN_RNDV_WINDOW 64k 256k' 'UCX_TERN_RNDV_PIN_AFTER 1 3' 'UCX_TERN_PIN_MONITOR ucm none'
    'UCX_TERN_PIN_PUBLISH n' 'UCX_TERN_TM_ENABLE y' 'UCX_RNDV_THRESH 1 1k 16k' 'UCX_PROTO_ENABLE y' 'SOFTHCA_SHARED off'
    'SOFTHCA_EXECUTOR thread' 'SOFTHCA_PERSONALITY strict strict mlx5 mlx4 bnxt_re hns rxe'
)
draw_settings() {
    local choice words
    settings=()
    for choice in "${choices[@]}"; do
        read -ra words <<<"$choice"
        sometimes 4 && settings+=("${words[0]}=$(one_of "${words[@]:1}")")
    done
}
# Those that the job's own test sets or depends on are left out.
without() { # pattern
    local setting kept_settings=()
    for setting in ${settings[@]+"${settings[@]}"}; do
        [[ $setting =~ $1 ]] || kept_settings+=("$setting")
    done
    settings=(${kept_settings[@]+"${kept_settings[@]}"})
}

words=(blocking both non-blocking wildcards modes persistent synchronous order floods outstanding probe canceled truncated
    'at random' tags strided derived communicators broadcast allreduce alltoall allgather uneven collectives barrier large
    fence lock atomics groups requests)
# Sets `job`, a command, its name, and the pattern that its output must have.
draw_mpi() {
    mpi=$(one_of openmpi mpich)
    ranks=$(one_of 2 2 4 4 6)
    local faults=()
    sometimes 4 && faults=(--faults "$(one_of rnr=5 delay-completions=100us segment=512:10us)")
    pattern='^verify: ok$'
    job=(bash -c 'launch_"$@"' _ "$mpi" "$ranks" "$SOFTHCA" run ${faults[@]+"${faults[@]}"} -- "$tools/tern-run" --
        "$tmp/$mpi/verify" --seed $RANDOM)
    # Three words, which name some eight sections.
    for _ in 1 2 3; do job+=("$(one_of "${words[@]}")"); done
    name="$mpi, $ranks ranks: verify ${job[*]: -3}${faults[1]+, ${faults[1]}}"
    settings+=("UCX_TLS=$(one_of tern,self tern)")
    # UCX 1.13's newer protocols put into wrong memory under MPICH 4.0, over rc_verbs too.
    [ "$mpi" = openmpi ] || without '^UCX_PROTO_ENABLE'
    # Only one of both is for tagged messages.
    [[ " ${settings[*]} " != *TM_ENABLE* ]] || without '^UCX_PROTO_ENABLE'
}
draw_suite() {
    local program filter
    case $((RANDOM % 3)) in
        0) program=tern-uct filter=$(one_of 'FewConn*:AllToAll*' 'PeerFailure*' '*Doings*' 'Direct*Test.Random*' 'Order*' \
            'Teardown*' 'Thread*' '*Sleep*' 'Transfer*' 'FirstSend*:Pending*' 'Flush*:Fence*' 'Tag*' 'Rma*:Put*' 'Limit*') ;;
        1) program=tern-engine filter=$(one_of 'ConnectStorm*:AcceptStorm*' '*PinningStorm*' '*Fuzz*' '*Rogue*' '*Direct*' \
            '*Xrc*' 'ManyPeers*:Idle*:LaterQueue*' '*Reply*' '*Sleep*' '*Capacity*') ;;
        2) program=verbs-conformance filter=$(one_of '*Stress*' '*Thread*' '*Death*:*Process*' '*Srq*:*Xrc*' '*Rdma*:*Atomic*') ;;
    esac
    without '^UCX_|SHARED|EXECUTOR'
    [ $program != verbs-conformance ] || sometimes 2 || settings+=("SOFTHCA_EXECUTOR=thread")
    pattern='\[  PASSED  \]'
    job=(env -C "$tests" "$SOFTHCA" run -- "$tools/tern-run" -- "./$program" --gtest_filter="$filter")
    name="$program $filter"
}
draw_rwapi() {
    local each
    # shellcheck disable=SC2046 # a list
    each=$(one_of $("$tests/rwapi-job"))
    ranks=4
    [[ " writes small-messages traffic threads killed-waits " != *" $each "* ]] || ranks=$(one_of 2 4)
    without '^UCX_(RNDV|PROTO|TERN_TM)|EXECUTOR|PIN_|SEG_SIZE|PERSONALITY|TUNABLES'
    # These limits are for tests; a dead peer is to be noticed soon: well before a wait of the jobs ends, after 20 s.
    settings+=(UCX_TERN_TIMEOUT=20ms UCX_TERN_RETRY_COUNT=3 UCX_TERN_CONNECT_TIMEOUT=10s)
    pattern=
    job=(env -C "$tests" "$SOFTHCA" run -- "$tools/tern-run" -- ./rwapi-launch --keep-going -np "$ranks" ./rwapi-job "$each")
    name="rwapi, $ranks processes: $each"
}

# Kills (or stops for a while) a random rank of the job, once it runs.
disturb() { # KILL|STOP
    local pids _
    for _ in {1..100}; do
        mapfile -t pids < <(pgrep -f "^$tmp/[a-z]*/verify")
        [ ${#pids[@]} -lt "$ranks" ] || break
        sleep 0.1
    done
    [ ${#pids[@]} -gt 0 ] || return
    sleep "$((RANDOM % 2)).$((RANDOM % 10))"
    local victim=${pids[RANDOM % ${#pids[@]}]}
    kill "-$1" "$victim" 2>/dev/null || return
    [ "$1" = KILL ] && { kills=$((kills + 1)); return; }
    stops=$((stops + 1))
    sleep 0.$((RANDOM % 8 + 1))
    kill -CONT "$victim" 2>/dev/null
}

# Runs `job`; 0 if it was right.
run_job() { # disturbance or nothing
    local log=$1 what=$2 job_pid status=0
    : >"$tmp/counters"
    {
        printf '%s\n' "$name" "${settings[*]-}" "${job[*]}" "${what:+and a rank gets SIG$what}"
    } >"$log"
    (
        [ ${#settings[@]} = 0 ] || export "${settings[@]}"
        export UCX_TERN_COUNTERS=$tmp/counters UCX_LOG_LEVEL=error UCX_WARN_UNUSED_ENV_VARS=n TERN_TEST_SEED=$RANDOM
        exec setsid timeout -k 5 "$limit" "${job[@]}" >>"$log" 2>&1 </dev/null
    ) &
    job_pid=$!
    pids=("$job_pid")
    [ -z "$what" ] || disturb "$what"
    wait "$job_pid" 2>/dev/null
    status=$?
    echo "status $status" >>"$log"
    case $what:$name in
        KILL:*) [ $status != 124 ] || status=1; [ $status = 1 ] || status=0 ;;
        *killed-*) [ $status = 137 ] && ! grep -q '_cases.cc:\|job.cc:' "$log"; status=$? ;;
        *) [ -z "$pattern" ] || [ $status != 0 ] || grep -Eq "$pattern" "$log" || status=1 ;;
    esac
    reap_group "$job_pid" || { status=1; echo 'processes are left behind' >>"$log"; }
    pids=()
    "$SOFTHCA" clean >/dev/null 2>&1
    if ls /dev/shm/softhca-*-"$SOFTHCA_FABRIC" >>"$log" 2>/dev/null; then
        status=1
        "$SOFTHCA" status >>"$log" 2>&1
    fi
    return $status
}

jobs_run=0 messages=0 kills=0 stops=0
while [ $SECONDS -lt $end ]; do
    draw_settings
    what=
    case $((RANDOM % 5)) in
        0 | 1)
            draw_mpi
            sometimes 4 && what=$(one_of KILL STOP) ;;
        2 | 3) draw_suite ;;
        4) draw_rwapi ;;
    esac
    jobs_run=$((jobs_run + 1))
    log=$kept/$jobs_run.log
    if run_job "$log" "$what"; then
        result 0 "$name${what:+, SIG$what}"
        rm "$log"
    else
        result 1 "$name${what:+, SIG$what} (${settings[*]-})" "$log"
    fi
    for sent in hot cold; do messages=$((messages + $(counter "$tmp/counters" sent_$sent))); done
done
echo "# $jobs_run jobs, $messages frames sent, $kills ranks killed, $stops stopped for a while, $failures failed jobs"
finish
