#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# rwapi starts under the launchers of both MPIs and under rwapi-run, which ends its jobs in every case.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# A program that only starts; the launcher under test is in the build tree.
start_program=$PWD/rwapi-start
rwapi_run=$(dirname "$SOFTHCA")/rwapi-run
if [ ! -x "$start_program" ] || [ ! -x "$rwapi_run" ]; then
    echo '1..0 # SKIP built without UCX, or without GoogleTest'
    exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun=(mpirun.openmpi --oversubscribe)

# every NAME RANKS command...: each of the processes that the command starts must see the job.
every() {
    local name=$1 ranks=$2
    shift 2
    check "$name, $ranks processes" "$@" "$start_program" "$ranks" stay
    result "$([ "$(grep -c "^start: [0-9]* of $ranks is right$" "$tmp/output")" = "$ranks" ]; echo $?)" \
        "$name, $ranks processes: all are right" "$tmp/output"
}

every 'without a launcher' 1 env
for ranks in 1 2 5; do
    every rwapi-run "$ranks" "$rwapi_run" -np "$ranks"
    if command -v mpirun.openmpi >/dev/null; then
        every mpirun.openmpi "$ranks" "${mpirun[@]}" -np "$ranks"
    else
        skip "mpirun.openmpi, $ranks processes" 'it is not installed'
    fi
    if command -v mpiexec.hydra >/dev/null; then
        every mpiexec.hydra "$ranks" mpiexec.hydra -np "$ranks"
        every 'mpiexec.hydra -pmi-port' "$ranks" mpiexec.hydra -pmi-port -np "$ranks"
    else
        skip "mpiexec.hydra, $ranks processes" 'it is not installed'
    fi
done
# The innermost launcher counts.
every 'rwapi-run under rwapi-run' 2 "$rwapi_run" -np 1 "$rwapi_run" -np 2
if command -v mpiexec.hydra >/dev/null; then
    every 'rwapi-run under mpiexec.hydra -pmi-port' 2 mpiexec.hydra -pmi-port -np 1 "$rwapi_run" -np 2
fi
refuses 'a launcher that has gone' 1 'the launcher at PMI_PORT=127.0.0.1:1: Connection refused' \
    env PMI_PORT=127.0.0.1:1 PMI_ID=0 "$start_program" 1 stay
if command -v mpirun.openmpi >/dev/null; then
    every 'rwapi-run under mpirun.openmpi' 2 "${mpirun[@]}" -np 1 "$rwapi_run" -np 2
    every 'mpirun.openmpi under rwapi-run' 2 "$rwapi_run" -np 1 "${mpirun[@]}" -np 2
else
    skip 'one launcher under the other' 'mpirun.openmpi is not installed'
fi

# Tern is there, and has no device: the error names who knows why.
says_why='RWAPI_TLS=tern, RWAPI_DEVICE=any.: Tern is loaded and uses no device of this node; tern-run --check says why'
if [ -x "$(dirname "$start_program")/rwapi-job" ]; then
    refuses 'no device that Tern can use' 1 "$says_why" env RWAPI_TLS=tern SOFTHCA_PERSONALITY=irdma "${hca[@]}" \
        "$(dirname "$SOFTHCA")/tern-run" -- "$rwapi_run" -np 2 "$(dirname "$start_program")/rwapi-job" writes
fi

# A process that does not leave the job is a failure for every launcher, and nobody waits for it for ever.
refuses 'rwapi-run: a process leaves without a word' 1 'process 2 has ended without leaving the job' \
    "$rwapi_run" -np 3 "$start_program" 3 leave

# A program for either MPI.
cat >"$tmp/mpi.c" <<'END_OF_PROGRAM'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
    int rank, ranks, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (argc > 1 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 7);
    if (rank == 0) printf("%d ranks, sum %d\n", ranks, sum);
    MPI_Finalize();
    return 0;
}
END_OF_PROGRAM
if command -v mpicc.mpich >/dev/null; then
    check 'a program for MPICH compiles' mpicc.mpich -o "$tmp/mpi" "$tmp/mpi.c"
    check_match 'rwapi-run: a program of MPICH' '^4 ranks, sum 6$' "$rwapi_run" -np 4 "$tmp/mpi"
    refuses 'rwapi-run: MPI_Abort' 7 'process 1 has aborted the job' "$rwapi_run" -np 4 "$tmp/mpi" abort
else
    skip 'rwapi-run: a program of MPICH' 'mpicc.mpich is not installed'
fi

# The command itself.
check_match 'rwapi-run: its help' '^Usage: rwapi-run ' "$rwapi_run" --help
refuses 'rwapi-run: no program' 2 'no program to run' "$rwapi_run" -np 2
refuses 'rwapi-run: no such program' 127 'no-such-program: No such file' "$rwapi_run" -np 3 no-such-program
refuses 'rwapi-run: not executable' 126 'Permission denied' "$rwapi_run" -np 3 /etc/passwd
refuses 'rwapi-run: a wrong number' 2 '\-n: ' "$rwapi_run" -np 0 true
refuses 'rwapi-run: a variable without name' 2 'no name' "$rwapi_run" -x =3 true
# shellcheck disable=SC2016 # for the inner shell
{
    check_match 'rwapi-run: sets variables' '^a b, c$' "$rwapi_run" -np 2 -x 'A=a b' -x B=c sh -c 'echo "$A, $B"'
    check 'rwapi-run: options of the program are its own' "$rwapi_run" -np 1 sh -c 'test "$1" = -np' _ -np
    refuses 'rwapi-run: the status of the process that failed' 3 'process 1 has ended with status 3' \
        "$rwapi_run" -np 3 sh -c '[ "$PMI_RANK" != 1 ] || exit 3; sleep 100'
    refuses 'rwapi-run: the worst status with --keep-going' 9 'process 2 has ended with status 9' \
        "$rwapi_run" --keep-going -np 4 sh -c 'case $PMI_RANK in 1) exit 3;; 2) exit 9;; 3) exit 5;; esac'
    refuses 'rwapi-run: a process is killed' 137 'process 1 was ended by a signal: Killed' \
        "$rwapi_run" -np 3 sh -c '[ "$PMI_RANK" != 1 ] || kill -KILL $$; sleep 100'
    refuses 'rwapi-run: a process that ignores SIGTERM is killed' 4 'process 0 has ended with status 4' \
        "$rwapi_run" -np 2 sh -c '[ "$PMI_RANK" != 0 ] || exit 4; trap "" TERM; while :; do sleep 0.1; done'
    refuses 'rwapi-run: breaking PMI-1 is noticed' 5 'process 0: not a PMI-1 message: hello' \
        "$rwapi_run" -np 1 bash -c 'echo hello >&$PMI_FD; read -r -u $PMI_FD || exit 5'
}

# gone NAME: no process with this name in its command line is left.
gone() {
    local tick
    for ((tick = 0; tick < limit * 10; tick++)); do
        pgrep -f "$mark" >"$tmp/left" || break
        sleep 0.1
    done
    result "$([ ! -s "$tmp/left" ]; echo $?)" "$1" "$tmp/left"
}

# With a time that no other process has, and that ends by itself if the test fails.
mark="sleep 1$$.5"
check 'rwapi-run: processes of processes, in sessions of their own' \
    "$rwapi_run" -np 2 sh -c "setsid $mark & setsid setsid $mark & exit 0"
gone 'rwapi-run: none of them is left'

says_ready() { # times file
    [ "$(grep -c ready "$2")" = "$1" ]
}

# signal NAME SIGNAL STATUS: rwapi-run gets the signal, and must end with that status.
signal() {
    local status
    start "$tmp/signalled" "$rwapi_run" -np 2 sh -c "trap 'echo got; exit 6' USR1; echo ready; while :; do sleep 0.05; done; $mark"
    becomes says_ready 2 "$tmp/signalled"
    kill -s "$2" "$(pgrep -P "$pid")"
    wait "$pid" 2>/dev/null
    status=$?
    pids=()
    echo "status $status" >>"$tmp/signalled"
    result "$([ "$status" = "$3" ]; echo $?)" "$1" "$tmp/signalled"
    gone "$1: no process is left"
}
# What it has not started is not its own to end.
check_match 'rwapi-run: a child that it had before is left alone' '^end of the output$' \
    bash -c '"$1" -np 2 echo line > >(cat; sleep 1; echo end of the output); sleep 2' _ "$rwapi_run"
check 'rwapi-run: hears of ends though its parent ignored them' \
    timeout "$limit" bash -c 'trap "" CHLD; exec "$1" -np 2 true' _ "$rwapi_run"
signal 'rwapi-run: passes SIGUSR1 on' USR1 6
signal 'rwapi-run: passes SIGTERM on' TERM 143
signal 'rwapi-run: is killed itself' KILL 137
finish
