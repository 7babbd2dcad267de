#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Stock MPICH over the transport on the software HCA.
mpi=mpich
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern_mpi.sh
. "$(dirname "$0")/tern_mpi.sh"

compile
every_verify
every_protocol
# MPICH's one-sided communication needs a feature that UCX 1.13 lacks with PROTO_ENABLE=y.
every_large
every_matching
killed 'mpirun ends the job' 100 'Killed \(signal 9\)' 1
finish
