#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A Fortran program with coarrays, by OpenCoarrays and one-sided communication of Open MPI, over the transport on the
# software HCA.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require caf cafrun mpirun.openmpi
if ! caf --version 2>/dev/null | grep -q OpenCoarrays || ! ldd "$(command -v mpiexec)" 2>/dev/null | grep -q open-rte; then
    echo '1..0 # SKIP caf is not OpenCoarrays over Open MPI'
    exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 UCX_TLS=tern,self UCX_NET_DEVICES=$device UCX_WARN_UNUSED_ENV_VARS=n

caf -O2 -J "$tmp" -o "$tmp/verify" "$srcdir/tern/coarray/verify.f90" >"$tmp/compiler" 2>&1 ||
    { sed 's/^/# /' "$tmp/compiler"; echo 'Bail out! test/tern/coarray does not compile'; exit 1; }

use_tern
for images in 2 4; do
    counters=$tmp/counters-$images
    UCX_TERN_COUNTERS=$counters check "$images images" cafrun -np "$images" "${hca[@]}" "$tmp/verify"
    result "$([ "$(grep -c "^coarray: image [0-9]* of $images is right$" "$tmp/output")" = "$images" ]; echo $?)" \
        "$images images: all are right" "$tmp/output"
    result "$([ "$(counter "$counters" put)" -gt 1000 ] && [ "$(counter "$counters" get)" -gt 1000 ]; echo $?)" \
        "$images images: puts and gets went over Tern" "$tmp/output"
done
finish
