#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# UCP programs over Tern that connect by socket address, which UCX does by rdma_cm; and what a client has flushed is
# delivered, though it goes at once.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require cc
export UCX_TLS=tern,self UCX_SOCKADDR_TLS_PRIORITY=rdmacm UCX_WARN_UNUSED_ENV_VARS=n
for program in listener flushed; do
    cc -std=gnu11 -O2 -o "$tmp/$program" "$srcdir/tern/ucp/$program.c" -lucp -lucs 2>"$tmp/compiler" ||
        { sed 's/^/# /' "$tmp/compiler"; echo "Bail out! $program.c does not compile"; exit 1; }
done

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

# delivers NAME KIND CI ALL MESSAGES BYTES PAUSE [option of softhca...]: ALL connections, or CI of a selection.
delivers() {
    local name=$1 kind=$2 connections=$4 messages=$5 bytes=$6 pause=$7
    whole || connections=$3
    shift 7
    use_hca "$@"
    use_tern
    limit=900 check "flushed: $name, $connections connections" "${hca[@]}" \
        "$tmp/flushed" 127.0.0.1 "$kind" "$connections" "$messages" "$bytes" "$pause"
}

listens 'by LID'
listens 'by LID and GID' --personality strict
listens 'as on mlx5' --personality mlx5
listens 'Ethernet' --link-layer ethernet
listens 'Ethernet: an address for each process' --link-layer ethernet --addresses per-process
listens 'Ethernet as on mlx5: two versions of RoCE' --personality mlx5 --link-layer ethernet
delivers 'active messages' am 100 1000 20 50 0
delivers 'a receiver that polls rarely' am 50 1000 24 5000 1000 --personality strict
delivers 'tagged messages' tag 50 1000 20 50 50
delivers 'a new worker for each connection' worker 20 1000 5 50 0
delivers 'a process that exits' exit 5 100 24 50 1000
more delivers 'few messages' am 0 1000 17 50 50
more delivers 'messages in a block' tag 0 1000 200 50 0
more delivers 'with the times of a network' am 0 1000 20 50 0 --profile graphene
more delivers 'by a thread of the device' am 0 1000 20 50 0 --executor thread
more delivers 'as on mlx4' am 0 1000 20 50 0 --personality mlx4
finish
