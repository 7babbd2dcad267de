#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Installs missing packages, builds what it runs, and compares messages of Open MPI and MPICH over Tern with the same over
# stock UCX rc_verbs, in turns on the software HCA. Takes at most 3 minutes on two processors. An argument is the profile
# of the software HCA, by default graphene.
. "$(dirname "$0")/common.sh"

folder=build/quickstart
log=$folder/build.log
tools=$folder/src/tools

# What the programs below run, and nothing else; on a line, the number of steps so far.
build_what_runs() {
    set_up $folder CXXFLAGS=-O2 >"$log" 2>&1 || return
    make -C $folder/src -j"$(nproc)" transport softhca/libsofthca.la tools/softhca tools/tern-run \
        tools/tern-bench 2>&1 | tee -a "$log" | awk -v terminal="$([ -t 1 ] && echo 1)" '
            /^  (CC|CXX|CCLD|CXXLD) / { ++steps; if (terminal) printf "\r   %d steps, %-60s", steps, $NF; fflush() }
            END { printf "%s   %d steps%s\n", terminal ? "\r" : "", steps, terminal ? sprintf("%60s", "") : "" }'
}

begin=$SECONDS
install_packages build 'MPI over UCX'
say "packages are installed: $((SECONDS - begin)) s"
mkdir -p $folder
say "building (log in $log)"
build_what_runs || { tail -n 30 "$log"; die "the build failed"; }
say "built: $((SECONDS - begin)) s"

profile=${1:-graphene}
say "two ranks on the software HCA, profile $profile: half a minute"
say "stock UCX registers each new buffer; Tern copies it while it travels, and takes about half of the time"
for mpi in openmpi mpich; do
    mpicc.$mpi -O2 -o $folder/buffers.$mpi examples/tour/buffers.c
    $tools/softhca run --fabric "quickstart-$$" --profile "$profile" -- \
        $tools/tern-bench program --rounds 5 --number takes --unit us \
        --name "$mpi, messages of 1 MiB from buffers never used before" \
        -- mpirun.$mpi -np 2 $folder/buffers.$mpi fresh
done
cat <<END

== done after $((SECONDS - begin)) s. What to do next:
   your program         $tools/tern-run --soft-hca mpirun -np 2 ./program
   on a real adapter    $tools/tern-run --only mpirun -np 2 ./program
   all measurements     $tools/tern-bench --help
   more                 README.md, docs/tern/tern.md
END
