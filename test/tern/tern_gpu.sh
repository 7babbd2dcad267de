#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Memory as that of a GPU: UCX copies it where it knows it, as by tern-run's UCX_TLS, and Tern refuses it, unless it
# gets its DMA buffer, as by UCX from 1.14 on.
# There is no GPU: tern-gpu brings a component of UCX that detects memory that the processor cannot access.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
export UCX_NET_DEVICES=$device UCX_WARN_UNUSED_ENV_VARS=n UCX_HANDLE_ERRORS=none UCX_LOG_LEVEL=error
unset UCX_TLS
use_tern
minor=$(ucx_info -v | sed -n "s/.*ersion:* 1\.\([0-9]*\)\..*/\1/p" | sed 1q)

# The transports that are left: all but other networks and shared memory from 1.18 on, else named here, as tern-run
# names them where UCX has a module for CUDA.
[ "$minor" -ge 18 ] || export UCX_TLS=tern,self,cuda

# gpu NAME KINDS OPERATIONS VARIABLES...
gpu() {
    local name=$1 kinds=$2 operations=$3
    shift 3
    check "$name" env "$@" "${hca[@]}" ./tern-gpu "$kinds" "$operations"
}

# Up to 1.15, UCP's default protocols put and get by the processor from any memory, over all transports.
if [ "$minor" -lt 22 ]; then
    gpu 'messages' dmh ta UCX_PROTO_ENABLE=n
    gpu 'messages that are all announced' dmh ta UCX_PROTO_ENABLE=n UCX_RNDV_THRESH=0
    gpu 'messages, tags offloaded' dmh ta UCX_PROTO_ENABLE=n UCX_TM_ENABLE=y
    gpu 'puts and gets of managed memory' mh pg UCX_PROTO_ENABLE=n
fi
gpu 'puts and gets, newer protocols' dmh pg UCX_PROTO_ENABLE=y
gpu 'messages, newer protocols, fetched by puts' dmh ta UCX_PROTO_ENABLE=y UCX_RNDV_SCHEME=put_zcopy
if [ "$minor" -gt 13 ]; then
    gpu 'messages, newer protocols' dmh ta UCX_PROTO_ENABLE=y
    gpu 'messages that are all announced, newer protocols' dmh ta UCX_PROTO_ENABLE=y UCX_RNDV_THRESH=0
else
    # With others, UCP fails an assertion of its own, over any transport.
    gpu 'messages, newer protocols, not announced' dmh ta UCX_PROTO_ENABLE=y UCX_RNDV_THRESH=inf
fi

# The processor cannot access the memory, so there are copies only by the component, which counts them. "only": none of
# a long message. UCP still copies managed memory, for which the component has no DMA buffer, and messages of the host
# that are not announced: a sender does not know the memory of the receive, so the costs that it sees must not matter
# here.
if [ "$minor" -ge 14 ]; then
    export UCX_PROTO_ENABLE=y UCX_RNDV_THRESH=16k
    gpu 'DMA buffers: messages' dh ta DMA_BUFFERS=only
    gpu 'DMA buffers: messages that are all announced' dh ta DMA_BUFFERS=only UCX_RNDV_THRESH=0
    gpu 'DMA buffers: messages, fetched by gets' dh ta DMA_BUFFERS=only UCX_RNDV_SCHEME=get_zcopy
    gpu 'DMA buffers: messages, fetched by puts' dh ta DMA_BUFFERS=only UCX_RNDV_SCHEME=put_zcopy
    gpu 'DMA buffers: messages, and stages for those of the host' dh ta DMA_BUFFERS=only \
        UCX_TERN_RNDV_SCHEME=superpipeline
    gpu 'DMA buffers: messages, not announced' dh ta DMA_BUFFERS=y UCX_RNDV_THRESH=inf
    gpu 'DMA buffers: messages, tags offloaded' dh t DMA_BUFFERS=y UCX_TM_ENABLE=y
    gpu 'DMA buffers: puts and gets' dh pg DMA_BUFFERS=only
    gpu "DMA buffers: puts and gets of the peer's" dh PG DMA_BUFFERS=only
    refuses 'UCX_TERN_DMA_BUFFERS=n leaves the memory to UCX' 1 'copied a long message by the transport' \
        env DMA_BUFFERS=only UCX_TERN_DMA_BUFFERS=n "${hca[@]}" ./tern-gpu d t
    unset UCX_PROTO_ENABLE UCX_RNDV_THRESH
fi

# Without a transport that knows the memory, UCP reads it by the processor.
export UCX_TLS=tern,self
"${hca[@]}" timeout -k 5 "$limit" ./tern-gpu d t >"$tmp/output" 2>&1
result "$(($? == 0))" 'without such a transport, the program fails' "$tmp/output"
check_match 'Tern refuses to register the memory, and names the cure' \
    'ERROR +tern: softhca0: 0x[0-9a-f]+ is memory of a GPU \(cuda\), .*UCX_TLS=tern,self,cuda' \
    "${hca[@]}" ./tern-gpu register
result "$(($(grep -c 'is memory of a GPU' "$tmp/output") != 3))" 'once if the caller hides errors, then not' "$tmp/output"
UCX_MEMTYPE_CACHE=n check_match 'without the cache of memory types, too' 'is memory of a GPU \(cuda\)' \
    "${hca[@]}" ./tern-gpu register
check_match 'rwapi_register refuses it, too' 'cannot register 4096 bytes at .*: this is memory of a GPU' \
    "${hca[@]}" ./tern-gpu rwapi
finish
