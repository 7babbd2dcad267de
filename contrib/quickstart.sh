#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Installs missing packages, builds, and compares Open MPI and MPICH over Tern with the same over stock UCX rc_verbs, in
# turns on the software HCA: tern-bench mpi, shortened. An argument is a profile of the software HCA, for example
# hdr200.
. "$(dirname "$0")/common.sh"

folder=build/quickstart
log=$folder/build.log
tools=$folder/src/tools

install_packages build 'MPI over UCX'
mkdir -p $folder
say "building in $folder (log in $log)"
build $folder >"$log" 2>&1 || { tail -n 30 "$log"; die "the build failed"; }

say "two ranks on the software HCA${*:+, profile $*}: half a minute"
$tools/softhca run --fabric quickstart-$$ ${1:+--profile "$1"} -- $tools/tern-bench mpi --rounds 5 --step 16
$tools/softhca clean >/dev/null

say "done. All that tern-bench measures: $tools/tern-bench --help"
say "your own program: $tools/tern-run --soft-hca mpirun -np 2 ./program"
