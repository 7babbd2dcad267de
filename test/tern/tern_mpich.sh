#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Stock MPICH over the transport on the software HCA.
mpi=mpich
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern_mpi.sh
. "$(dirname "$0")/tern_mpi.sh"

compile
every_verify
every_protocol
# Below MPI the sweeps are the same as Open MPI's, so TERN_SELECTION=ci leaves the settings out.
if [ "${TERN_SELECTION:-all}" = ci ]; then
    large_by_every_scheme
    matched_by_the_transport
else
    # MPICH's one-sided communication needs a feature that UCX 1.13 lacks with PROTO_ENABLE=y.
    every_large
    every_matching
fi
killed 'mpirun ends the job' 100 'Killed \(signal 9\)' 1
finish
