#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Stock Open MPI over stock UCX rc_verbs on the software HCA, and without UCX: over its own btl openib.
mpi=openmpi
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../common/mpi.sh
. "$(dirname "$0")/../common/mpi.sh"
export UCX_TLS=rc_v,self

# openib LABEL OPTION VALUE: Open MPI looks for /sys/class/infiniband, and there is no other way between the ranks. Left
# out is what Open MPI's ob1 itself does wrongly, over any btl: persistent receives of which data is cancelled, data
# behind the end of a receive that is too short, and atomics in a window of ranks of one node, where osc rdma passes
# btl openib a null handle.
openib_sections=(blocking 'both ways' wildcards 'send modes' 'synchronous sends' order floods outstanding probe canceled
    matching strided datatypes itself communicators broadcast all uneven barrier large fence lock 'one-sided, groups' 'one-sided, requests')
openib() {
    local label=$1 root=()
    shift
    [ "$(id -u)" != 0 ] || root=(--allow-run-as-root)
    check_match "openib, $label: 2 ranks, every byte right" '^verify: ok$' \
        env -u SYSFS_PATH mpirun.openmpi "${root[@]}" --oversubscribe -np 2 --mca pml ob1 --mca btl openib,self \
        --mca btl_openib_allow_ib 1 --mca btl_openib_warn_no_device_params_found 0 --mca "$@" \
        "${hca[@]}" "$tmp/verify" "${openib_sections[@]}"
}

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
if ompi_info --parsable --param btl openib 2>/dev/null | grep -q '^mca:btl:openib:version'; then
    use_hca
    openib 'eager RDMA' btl_openib_use_eager_rdma 1
    openib 'no eager RDMA' btl_openib_use_eager_rdma 0
    openib 'registrations not kept' mpi_leave_pinned 0
else
    skip 'openib' 'this Open MPI has no btl openib'
fi
finish
