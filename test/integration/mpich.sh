#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Stock MPICH over stock UCX rc_verbs on the software HCA.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=mpi.sh
. "$(dirname "$0")/mpi.sh"
require mpirun.mpich mpicc.mpich

# MPICH would use shared memory of its own between the ranks of a node.
export MPIR_CVAR_NOLOCAL=1

launch() {
    local ranks=$1
    shift
    mpirun.mpich -np "$ranks" "$@"
}
export -f launch

compile mpicc.mpich
every_verify
finish
