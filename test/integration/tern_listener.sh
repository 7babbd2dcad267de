#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# UCP programs over Tern that connect by socket address, which UCX does by rdma_cm.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require cc
export UCX_TLS=tern,self UCX_SOCKADDR_TLS_PRIORITY=rdmacm UCX_WARN_UNUSED_ENV_VARS=n
cc -std=gnu11 -O2 -o "$tmp/listener" "$srcdir/ucp/listener.c" -lucp -lucs 2>"$tmp/compiler" ||
    { sed 's/^/# /' "$tmp/compiler"; echo 'Bail out! listener.c does not compile'; exit 1; }

# listens NAME [option of softhca...]: messages arrive; each process makes one connection, also if it finds the peer by
# another address; and UCP had nothing but Tern for them.
listens() {
    local name=$1 made
    shift
    use_hca "$@"
    use_tern
    rm -f "$tmp/counters"
    UCX_TERN_COUNTERS=$tmp/counters check "$name" "${hca[@]}" "$tmp/listener" 127.0.0.1
    made=$(counter "$tmp/counters" queue_pairs_most)
    result "$((made != 2))" "$name: $made connections of two processes" "$tmp/counters"
}

listens 'by LID'
listens 'by LID and GID' --personality strict
listens 'as on mlx5' --personality mlx5
listens 'Ethernet' --link-layer ethernet
listens 'Ethernet: an address for each process' --link-layer ethernet --addresses per-process
listens 'Ethernet as on mlx5: two versions of RoCE' --personality mlx5 --link-layer ethernet
finish
