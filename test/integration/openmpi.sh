#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Stock Open MPI over stock UCX rc_verbs on the software HCA.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=mpi.sh
. "$(dirname "$0")/mpi.sh"
require mpirun.openmpi mpicc.openmpi

# Debian switches pml ucx off and lists the transports it is meant for; "any" lifts that. No btl but self, and
# one-sided by UCX, so that nothing goes past the device.
launch() {
    local ranks=$1 root=()
    shift
    [ "$(id -u)" != 0 ] || root=(--allow-run-as-root)
    mpirun.openmpi "${root[@]}" --oversubscribe -np "$ranks" --mca pml ucx --mca osc ucx --mca btl self \
        --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any "$@"
}
export -f launch

compile mpicc.openmpi
every_verify
finish
