#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# rwapi starts under the launchers of both MPIs and under that of the tests.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
start_program=$PWD/rwapi-start # it only starts
launch=$PWD/rwapi-launch
if [ ! -x "$start_program" ] || [ ! -x "$launch" ]; then
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
    every rwapi-launch "$ranks" "$launch" -np "$ranks"
    if command -v mpirun.openmpi >/dev/null; then
        every mpirun.openmpi "$ranks" "${mpirun[@]}" -np "$ranks"
    else
        skip "mpirun.openmpi, $ranks processes" 'it is not installed'
    fi
    if command -v mpiexec.hydra >/dev/null; then
        every mpiexec.hydra "$ranks" mpiexec.hydra -np "$ranks"
    else
        skip "mpiexec.hydra, $ranks processes" 'it is not installed'
    fi
done
# The innermost launcher counts.
every 'rwapi-launch under rwapi-launch' 2 "$launch" -np 1 "$launch" -np 2
if command -v mpiexec.hydra >/dev/null; then
    every 'rwapi-launch under mpiexec.hydra -pmi-port' 2 mpiexec.hydra -pmi-port -np 1 "$launch" -np 2
fi
refuses 'a launcher with a port' 1 'mpiexec.hydra without -pmi-port' env PMI_PORT=127.0.0.1:1 PMI_ID=0 "$start_program" 1 stay
if command -v mpirun.openmpi >/dev/null; then
    every 'rwapi-launch under mpirun.openmpi' 2 "${mpirun[@]}" -np 1 "$launch" -np 2
    every 'mpirun.openmpi under rwapi-launch' 2 "$launch" -np 1 "${mpirun[@]}" -np 2
else
    skip 'one launcher under the other' 'mpirun.openmpi is not installed'
fi

# Tern is there, and has no device: the error names who knows why.
says_why='RWAPI_TLS=tern, RWAPI_DEVICE=any.: Tern is loaded and uses no device of this node; tern-run --check says why'
if [ -x "$(dirname "$start_program")/rwapi-job" ]; then
    refuses 'no device that Tern can use' 1 "$says_why" env RWAPI_TLS=tern SOFTHCA_PERSONALITY=irdma "${hca[@]}" \
        "$(dirname "$SOFTHCA")/tern-run" -- "$launch" -np 2 "$(dirname "$start_program")/rwapi-job" writes
fi

# Nobody waits for ever for a process that does not leave the job.
refuses 'rwapi-launch: a process leaves without a word' 1 'process 2 has ended without leaving the job' \
    "$launch" -np 3 "$start_program" 3 leave

finish
