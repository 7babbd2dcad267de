#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Real MPI programs give the same results over the transport as over shared memory: LAMMPS in every printed digit, HPCC
# in everything that does not depend on speed.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require mpirun.openmpi lmp hpcc
limit=240
use_tern
export UCX_WARN_UNUSED_ENV_VARS=n OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# A liquid of Lennard-Jones particles that melts.
cat >"$tmp/melt.in" <<'END'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
fix 1 all nve
thermo 20
thermo_style custom step temp epair etotal press
run 200
END

# over TRANSPORT NAME command...: runs the command with four ranks in its own folder.
over() {
    local transport=$1 name=$2 folder=$tmp/$2-$1 command=()
    shift 2
    mkdir -p "$folder"
    cp "$tmp"/melt.in "$tmp"/hpccinf.txt "$folder"
    command=(env -C "$folder" "UCX_TLS=tern,self" UCX_TERN_COUNTERS="$folder/counters"
        mpirun.openmpi --oversubscribe -np 4 --mca mpi_yield_when_idle 1)
    if [ "$transport" = tern ]; then
        command+=(--mca pml ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any "${hca[@]}")
    else
        command+=(--mca pml ob1 --mca btl "self,vader")
    fi
    check "$name over $transport" "${command[@]}" "$@"
}

# same NAME PATTERN FILE: the lines of FILE that match must be the same over both transports, and there must be some.
same() {
    local name=$1 pattern=$2 file=$3 status=0
    grep -E -- "$pattern" "$tmp/$name-sm/$file" >"$tmp/sm" || status=1
    grep -E -- "$pattern" "$tmp/$name-tern/$file" >"$tmp/tern" || status=1
    diff "$tmp/sm" "$tmp/tern" >"$tmp/diff" || status=1
    result $status "$name: the same answers over Tern as over shared memory" "$tmp/diff" "$tmp/tern"
    result "$([ "$(counter "$tmp/$name-tern/counters" sent_hot)" -gt 1000 ]; echo $?)" \
        "$name: its messages went over Tern" "$tmp/$name-tern/counters"
}

# Small enough to run in seconds; one process grid. The time of RandomAccess goes with the square of the size.
size=400
whole || size=200
cat >"$tmp/hpccinf.txt" <<END
HPLinpack benchmark input file

HPL.out
8            device out
1            # of problems sizes (N)
$size          Ns
1            # of NBs
40           NBs
0            PMAP process mapping
1            # of process grids
2            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs
1            # of recursive stopping criterium
4            NBMINs
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs
1            # of broadcast
1            BCASTs
1            # of lookahead depth
1            DEPTHs
2            SWAP
64           swapping threshold
0            L1
0            U
1            Equilibration
8            memory alignment
##### lines for PTRANS
0            number of additional problem sizes for PTRANS
400          values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
END

for transport in sm tern; do
    over $transport lammps lmp -in melt.in -log log
    over $transport hpcc hpcc
done
same lammps '^ +[0-9]+ +[-0-9.]+ +[-0-9.]+ +[-0-9.]+ +[-0-9.]+ *$' log
same hpcc '^[|].*(PASSED|FAILED)|^(Success|HPL_N|CommWorldProcs|PTRANS_residual|MPIRandomAccess_Errors|MPIFFT_N)=' \
    hpccoutf.txt
finish
