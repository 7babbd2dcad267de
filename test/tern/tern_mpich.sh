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
unless_short every_protocol
# Below MPI the sweeps are the same as Open MPI's, so a selection leaves the settings out.
if whole; then
    # MPICH's one-sided communication needs a feature that UCX 1.13 lacks with PROTO_ENABLE=y.
    every_large
    every_matching
else
    large_by_every_scheme
    unless_short matched_by_the_transport
fi
killed 'mpirun ends the job' 100 'Killed \(signal 9\)' 1
finish
