#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Jobs of several nodes under tern-run's own UCX_TLS: ranks of a node use shared memory, others Tern, and --only leaves
# Tern alone. UCX knows a node by the kernel's boot_id; half of the ranks have another one in a mount namespace.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
tern_run=$(dirname "$SOFTHCA")/tern-run
unset LD_PRELOAD UCX_TLS UCX_PLUGIN_PATH "${!OMPI_MCA_@}"
export UCX_WARN_UNUSED_ENV_VARS=n UCX_NET_DEVICES=$device
# MPICH takes all ranks for those of one machine.
export MPIR_CVAR_NOLOCAL=1
use_hca

# A rank's command: ranks 2 and 3 are on another node.
echo 11111111-2222-3333-4444-555555555555 >"$tmp/boot_id"
cat >"$tmp/node" <<'END'
#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" -ge 2 ] || exec "$@"
exec unshare --mount sh -c 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"' "${0%/*}/boot_id" "$@"
END
chmod +x "$tmp/node"
if ! OMPI_COMM_WORLD_RANK=2 "$tmp/node" grep -q 1111 /proc/sys/kernel/random/boot_id 2>/dev/null; then
    skip 'ranks of several nodes' 'mount namespaces need a privilege'
    finish
fi

# The pairs of ranks between which Tern carried messages, in one line.
pairs() { awk '$1 ~ /^[0-9]$/ && $2 ~ /^[0-9]$/ && $4 > 0 { print $1 "-" $2 }' "$1" | sort | tr '\n' ' '; }
# The lanes of that list, without what is for one-sided operations.
lanes() { sed -n 's/^  lanes  *ranks 0-3: \(tag([^)]*)\).*/\1/p' "$1" | sort; }

# job MPI tern-run-option...: four ranks on two nodes, with the report in $tmp/report.
job() {
    local mpi=$1 run=("mpirun.$1" -np 4)
    shift
    [ "$mpi" = mpich ] || run+=(--oversubscribe)
    [ "$mpi" = mpich ] || [ "$(id -u)" != 0 ] || run+=(--allow-run-as-root)
    rm -rf "$tmp/records"
    check_match "$mpi, ${*:-by default}: ranks exchange messages" '^exchanged$' \
        "${hca[@]}" "${run[@]}" "$tmp/node" "$tern_run" "$@" --explain="$tmp/records" "$tmp/pairs.$mpi"
    "$tern_run" --explain="$tmp/records" 2>"$tmp/report"
}
across='0-2 0-3 1-2 1-3 2-0 2-1 3-0 3-1 '

node_tests() { # MPI
    local mpi=$1
    if ! command -v "mpicc.$mpi" >/dev/null; then
        skip "$mpi" 'it is not installed'
        return
    fi
    "mpicc.$mpi" -std=gnu11 -O2 -o "$tmp/pairs.$mpi" "$srcdir/tern/mpi/pairs.c" ||
        { echo 'Bail out! pairs.c does not compile'; exit 1; }
    job "$mpi"
    result "$([ "$(pairs "$tmp/report")" = "$across" ]; echo $?)" "$mpi: Tern carries what goes to another node" "$tmp/report"
    result "$([ "$(lanes "$tmp/report" | grep -c 'sysv\|posix')" -gt 0 ] && lanes "$tmp/report" | grep -q '^tag(tern/[^ ]*)$'
        echo $?)" "$mpi: the report names shared memory for a node, and Tern alone for others" "$tmp/report"
    job "$mpi" --only
    result "$([ "$(pairs "$tmp/report" | wc -w)" = 12 ]; echo $?)" "$mpi, --only: Tern carries all" "$tmp/report"
    result "$([ "$(lanes "$tmp/report")" = "tag(tern/$device)" ]; echo $?)" "$mpi, --only: and has the only lane" "$tmp/report"
}
node_tests openmpi
node_tests mpich
finish
