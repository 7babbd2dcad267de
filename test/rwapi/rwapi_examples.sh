#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The examples of rwapi: each verifies its result. The times that they print are not compared.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../tern/tern.sh
. "$(dirname "$0")/../tern/tern.sh"
require cc
examples=$srcdir/../examples/rwapi
libraries=$(dirname "$tern_library")
flags=(-std=gnu11 -O2 -Wall -Wextra -Werror "-I$srcdir/../src/rwapi/include")
link=("-L$libraries" "-Wl,-rpath,$libraries" -lrwapi)
export UCX_WARN_UNUSED_ENV_VARS=n

compile() { # compiler name [argument...]
    local compiler=$1 name=$2
    shift 2
    "$compiler" "${flags[@]}" -o "$tmp/$name" "$examples/$name.c" "$@" >"$tmp/compiler" 2>&1 && return
    sed 's/^/# /' "$tmp/compiler"
    echo "Bail out! $name.c does not compile"
    exit 1
}

# example NAME NODES PROGRAM: it must be right, and its line becomes a comment.
example() {
    local name=$1 nodes=$2 program=$3
    check_match "$program: $name, $nodes nodes" "^$program: " "${hca[@]}" ./rwapi-launch -np "$nodes" "$tmp/$program"
    grep "^$program: " "$tmp/output" | sed 's/^/# /'
}

for program in jacobi work_queue hash_table; do
    compile cc "$program" "${link[@]}"
done
use_tern
for program in jacobi work_queue hash_table; do
    example tern 2 $program
    example tern 4 $program
done
example tern 1 jacobi
example tern 1 hash_table
use_tern --faults out-of-order
for program in jacobi work_queue hash_table; do
    example 'placed out of order' 2 $program
done
use_hca
export RWAPI_TLS=rc_verbs
for program in jacobi work_queue hash_table; do
    example rc_verbs 2 $program
done
unset RWAPI_TLS
use_tern --profile graphene
example 'modelled network' 2 jacobi

if command -v mpicc.openmpi >/dev/null && command -v mpirun.openmpi >/dev/null; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 UCX_TLS=tern,self UCX_NET_DEVICES=$device
    compile mpicc.openmpi jacobi_mpi
    compile mpicc.openmpi mpi_start "${link[@]}"
    for how in messages puts; do
        check_match "jacobi by MPI $how: modelled network, 2 processes" '^jacobi: ' \
            mpirun.openmpi --oversubscribe -np 2 "${hca[@]}" "$tmp/jacobi_mpi" $how
        grep '^jacobi: ' "$tmp/output" | sed 's/^/# /'
    done
    use_tern
    check_match 'rwapi in an MPI program' '^mpi_start: right$' \
        mpirun.openmpi --oversubscribe -np 3 "${hca[@]}" "$tmp/mpi_start"
else
    skip 'jacobi by MPI, rwapi in an MPI program' 'Open MPI is not installed'
fi
finish
