#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Stock MPICH over stock UCX rc_verbs on the software HCA.
mpi=mpich
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../common/mpi.sh
. "$(dirname "$0")/../common/mpi.sh"
export UCX_TLS=rc_v,self
# MPICH cannot unpack a fragment that ends within a number; those of rc_verbs are one byte shorter than this.
export UCX_RC_VERBS_SEG_SIZE=8257

compile
for ranks in 2 4; do
    verify inline $ranks
done
verify inline 2 --threads threads
lanes inline rc_verbs 'rc_verbs|ud_verbs|self'
killed inline 100 '[Kk]illed' 2
use_hca --executor thread
verify thread 2
use_hca --link-layer ethernet
UCX_IB_GID_INDEX=0 verify ethernet 2
finish
