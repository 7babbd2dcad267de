#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Installs what is missing, builds, and runs Open MPI over stock UCX rc_verbs on the software HCA: latency and
# bandwidth between two ranks by message size. Arguments go to `softhca run`, for example --profile hdr200.
. "$(dirname "$0")/common.sh"

folder=build/quickstart
log=$folder/build.log

install_packages
mkdir -p $folder
say "building in $folder (log in $log)"
build $folder >"$log" 2>&1 || { tail -n 30 "$log"; die "the build failed"; }

say "compiling test/mpi/pingpong.c"
mpicc.openmpi -O2 -o $folder/pingpong test/mpi/pingpong.c

softhca=$source_dir/$folder/src/tools/softhca
mpi=(mpirun.openmpi --oversubscribe -np 2 --mca pml ucx --mca btl self
    --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any)
[ "$(id -u)" != 0 ] || mpi+=(--allow-run-as-root)
export UCX_TLS=rc_v,self UCX_NET_DEVICES=softhca0:1 SOFTHCA_FABRIC=quickstart-$$

say "two ranks of Open MPI, UCX transport rc_verbs, device softhca0"
timeout -k 5 300 "${mpi[@]}" "$softhca" run "$@" -- $folder/pingpong || die "the ping-pong failed"
"$softhca" clean >/dev/null

say "done. Your own verbs program: $folder/src/tools/softhca run -- command..."
