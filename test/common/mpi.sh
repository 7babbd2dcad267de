# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: BSD-3-Clause
#
# Common functions of the tests with MPI. Sourced after lib.sh by a test that has set `mpi` to openmpi or mpich.
require "mpirun.$mpi" "mpicc.$mpi"
export UCX_NET_DEVICES=$device UCX_WARN_UNUSED_ENV_VARS=n
limit=$((limit > 150 ? limit : 150))

# launch RANKS command...
launch_openmpi() {
    local ranks=$1 root=()
    shift
    [ "$(id -u)" != 0 ] || root=(--allow-run-as-root)
    # While mpirun ends, it may write to a rank that has gone: its status would be that of SIGPIPE. It gives the ranks
    # the default back.
    trap '' PIPE
    # Debian disables pml ucx and limits it to certain transports; "any" removes the limit. Only btl self, and one-sided
    # communication over UCX where it can, so that all data goes through the device.
    # shellcheck disable=SC2086 # no or several options
    mpirun.openmpi "${root[@]}" --oversubscribe -np "$ranks" --mca pml ucx --mca osc ucx,sm \
        --mca osc_ucx_priority 200 --mca btl self --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any ${mpirun_options-} "$@"
}

launch_mpich() {
    local ranks=$1 preload=${LD_PRELOAD-}
    shift
    # Open MPI yields its core while it waits; MPICH must be made to. With two ranks, each has a core.
    [ "$ranks" -le 2 ] || preload=$tmp/yield.so${preload:+:$preload}
    # MPICH would otherwise use shared memory between ranks on one node.
    MPIR_CVAR_NOLOCAL=1 mpirun.mpich -np "$ranks" env LD_PRELOAD="$preload" "$@"
}
export -f launch_openmpi launch_mpich
export tmp

must_compile() { # command...
    if ! "$@" >"$tmp/compiler" 2>&1; then
        sed 's/^/# /' "$tmp/compiler"
        echo "Bail out! this fails: $*"
        exit 1
    fi
}

# make_programs FOLDER: makes verify, killed and yield.so there, unless they are newer than their sources.
make_programs() {
    local part=$1/part.$$
    [ -n "$(find "$srcdir/tern/mpi" -name '*.[ch]' -newer "$1/verify" 2>&1)" ] || return 0
    mkdir -p "$part"
    must_compile "mpicc.$mpi" -std=gnu11 -O2 -pthread -o "$part/verify" "$srcdir"/tern/mpi/verify*.c
    must_compile "mpicc.$mpi" -std=gnu11 -O2 -o "$part/killed" "$srcdir/tern/mpi/killed.c"
    must_compile cc -O2 -shared -fPIC -o "$part/yield.so" "$srcdir/tern/mpi/yield.c" -ldl
    # The last one makes the others valid.
    mv "$part/killed" "$part/yield.so" "$1" && mv "$part/verify" "$1" && rmdir "$part"
}

# Makes $tmp/verify, $tmp/killed and $tmp/yield.so. Tests of one build share them: a guest's compiler takes a minute.
compile() {
    local folder
    folder=$(dirname "$SOFTHCA")/../../test
    if [ -w "$folder/Makefile" ]; then
        make_programs "$folder/mpi-programs/$mpi"
        cp "$folder/mpi-programs/$mpi"/* "$tmp"
    else
        make_programs "$tmp"
    fi
}

verify() { # label ranks [option or section...]
    local label=$1 ranks=$2
    shift 2
    check_match "$label: $ranks ranks, every byte right${*:+: $*}" '^verify: ok$' \
        bash -c 'launch_"$@"' _ "$mpi" "$ranks" "${hca[@]}" "$tmp/verify" "$@"
}

# lanes LABEL LANE ALLOWED: all data goes through one transport. UCX logs the lanes of every endpoint: LANE must be
# among them, and all their transports must match the pattern ALLOWED.
lanes() {
    local seen
    UCX_LOG_LEVEL=info timeout -k 5 "$limit" bash -c 'launch_"$@"' _ "$mpi" 2 "${hca[@]}" "$tmp/verify" non-blocking \
        >"$tmp/output" 2>&1 </dev/null
    seen=$(grep -o 'ep_cfg\[[0-9]*\]:.*' "$tmp/output" | grep -o '[a-z0-9_]*/[a-z0-9_:]*' | sort -u)
    echo "lanes: $seen" >>"$tmp/output"
    grep -q "^$2/$device\$" <<<"$seen" && ! grep -Evq "^($3)/" <<<"$seen"
    result $? "$1: UCX carries the data by $2 alone" "$tmp/output"
}

# killed LABEL BYTES PATTERN COUNT [mpirun's option]: kills the last of four ranks while the others send to it. The job
# must end, print at least COUNT lines that match, and leave no process and no fabric behind.
killed() {
    local label=$1 bytes=$2 pattern=$3 wanted=$4 status=0 tick
    mpirun_options=${5-} UCX_TERN_CONNECT_TIMEOUT=10s UCX_TERN_TIMEOUT=200ms UCX_HANDLE_ERRORS=none timeout -k 5 "$limit" bash -c 'launch_"$@"' _ "$mpi" 4 \
        "${hca[@]}" "$tmp/killed" "$bytes" >"$tmp/output" 2>&1 </dev/null
    [ $? != 124 ] || { status=1; echo 'the job did not end' >>"$tmp/output"; }
    grep -q '^rank 3: killed' "$tmp/output" || status=1
    ! grep -q ': hung' "$tmp/output" || status=1
    [ "$(grep -Ec -- "$pattern" "$tmp/output")" -ge "$wanted" ] || status=1
    for ((tick = 0; tick < limit * 10; tick++)); do
        pgrep -f "^$tmp/killed" >"$tmp/left" || break
        sleep 0.1
    done
    [ ! -s "$tmp/left" ] || { status=1; echo 'processes are left behind' >>"$tmp/output"; }
    "$SOFTHCA" clean >/dev/null 2>&1
    ! ls /dev/shm/softhca-*-"$SOFTHCA_FABRIC" >>"$tmp/output" 2>/dev/null || status=1
    result $status "$label: a rank is killed under messages of $bytes bytes" "$tmp/output"
}
