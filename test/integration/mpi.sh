# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What openmpi.sh and mpich.sh share. They define and export a function: launch RANKS command...
export UCX_TLS=rc_v,self UCX_NET_DEVICES=softhca0:1 UCX_WARN_UNUSED_ENV_VARS=n
limit=300

compile() { # compiler
    if ! "$1" -std=gnu11 -O2 -o "$tmp/verify" "$srcdir"/mpi/verify*.c >"$tmp/compiler" 2>&1; then
        sed 's/^/# /' "$tmp/compiler"
        echo "Bail out! $1 cannot compile test/mpi/verify*.c"
        exit 1
    fi
}

verify() { # label ranks
    check_match "$1: $2 ranks, every byte right" '^verify: ok$' \
        bash -c 'launch "$@"' _ "$2" "${hca[@]}" "$tmp/verify"
}

# The data went through the device: UCX names the lanes of every endpoint.
lanes() { # label
    local seen
    UCX_LOG_LEVEL=info timeout -k 5 "$limit" bash -c 'launch "$@"' _ 2 "${hca[@]}" "$tmp/verify" \
        >"$tmp/output" 2>&1 </dev/null
    seen=$(grep -o 'ep_cfg\[[0-9]*\]:.*' "$tmp/output" | grep -o '[a-z0-9_]*/[a-z0-9_:]*' | sort -u)
    echo "lanes: $seen" >>"$tmp/output"
    grep -q '^rc_verbs/softhca0:1$' <<<"$seen" && ! grep -Evq '^(rc_verbs|ud_verbs|self)/' <<<"$seen"
    result $? "$1: UCX carries the data by rc_verbs alone" "$tmp/output"
}

every_verify() {
    local ranks
    for ranks in 2 4; do
        verify inline $ranks
    done
    lanes inline
    use_hca --executor thread
    verify thread 2
    use_hca --link-layer ethernet
    UCX_IB_GID_INDEX=0 verify ethernet 2
}
