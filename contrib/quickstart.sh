#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Installs missing packages, builds what it runs, and compares Open MPI and MPICH over Tern with the same over stock UCX
# rc_verbs, in turns on the software HCA. Takes at most 3 minutes on two processors. An argument is a profile of the
# software HCA, for example hdr200. The whole matrix is `tern-bench mpi`.
. "$(dirname "$0")/common.sh"

folder=build/quickstart
log=$folder/build.log
tools=$folder/src/tools

# What the programs below run, and nothing else; on a line, the number of steps so far.
build_what_runs() {
    set_up $folder CXXFLAGS=-O2 >"$log" 2>&1 || return
    make -C $folder/src -j"$(nproc)" transport softhca/libsofthca.la tools/softhca tools/tern-run \
        tools/tern-bench tools/tern_results.py 2>&1 | tee -a "$log" | awk -v terminal="$([ -t 1 ] && echo 1)" '
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

say "two ranks on the software HCA${*:+, profile $*}: half a minute"
$tools/softhca run --fabric quickstart-$$ ${1:+--profile "$1"} -- $tools/tern-bench mpi --brief
$tools/softhca clean >/dev/null
cat <<END

== done after $((SECONDS - begin)) s. What to do next:
   your program         $tools/tern-run --soft-hca mpirun -np 2 ./program
   on a real adapter    $tools/tern-run --only mpirun -np 2 ./program
   all measurements     $tools/tern-bench --help
   more                 README.md, docs/tern/tern.md
END
