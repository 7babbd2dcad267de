#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Stock Open MPI over the transport on the software HCA.
mpi=openmpi
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern_mpi.sh
. "$(dirname "$0")/tern_mpi.sh"

compile
every_verify
unless_short every_setting
every_protocol
if [ "${TERN_SELECTION:-all}" = short ]; then
    few_connections
    two_devices
    large_by_every_scheme
    matched_by_the_transport
else
    every_large one-sided
    every_matching
fi
killed 'mpirun ends the job' 100 'exited on signal 9' 1
unless_short killed 'mpirun ends the job' 3000000 'exited on signal 9' 1
killed 'everybody finds out alone' 100 "$lost" 3 --enable-recovery
unless_short killed 'everybody finds out alone' 3000 "$lost" 3 --enable-recovery
finish
