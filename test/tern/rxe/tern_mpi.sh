#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Stock Open MPI and MPICH over the transport on rxe, 0 B to 4 MiB, every byte checked.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
in_guest --timeout 1200
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"

some=()
! selection || some=(point-to-point wildcards order floods fence)
for mpi in openmpi mpich; do
    if ! command -v "mpirun.$mpi" "mpicc.$mpi" >"$tmp/commands"; then
        skip "$mpi" "it is not installed"
        continue
    fi
    # shellcheck source=../../common/mpi.sh
    . "$srcdir/common/mpi.sh"
    compile
    for poll in memory cq; do
        # The selection has each way with one of them.
        case $mpi:$poll in openmpi:memory | mpich:cq) ;; *) ! selection || continue ;; esac
        UCX_TERN_POLL=$poll verify "$mpi, POLL=$poll" 2 "${some[@]}"
    done
    selection || lanes "$mpi" tern 'tern|self'
done
finish_tern
