#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Long messages over UCP's endpoints with error handling: transfers move them as without it; peers may be killed, and
# endpoints closed, in the middle of a transfer.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
# shellcheck source-path=SCRIPTDIR source=../common/killed.sh
. "$(dirname "$0")/../common/killed.sh"
require ucx_perftest cc
export UCX_TLS=tern,self UCX_NET_DEVICES=$device UCX_WARN_UNUSED_ENV_VARS=n
use_tern

# by_transfers LABEL option...: with error handling, each message is one transfer, without fragments.
by_transfers() {
    local name=$1 transfers fragments
    shift
    rm -f "$tmp/counters"
    new_port
    UCX_TERN_COUNTERS=$tmp/counters pair "$name" "${hca[@]}" ucx_perftest -e -p "$port" ::: \
        "${hca[@]}" ucx_perftest -e -p "$port" -s 2000000 -n 100 -w 1 -f "$@" 127.0.0.1
    transfers=$(($(counter "$tmp/counters" rndv_gets) + $(counter "$tmp/counters" rndv_puts)))
    fragments=$(($(counter "$tmp/counters" bcopy) + $(counter "$tmp/counters" zcopy)))
    result "$((transfers < 100 || fragments > 20))" "$name: $transfers transfers, $fragments fragments" "$tmp/counters"
}

for test in tag_bw ucp_am_bw; do
    by_transfers "$test" -t $test
    UCX_PROTO_ENABLE=y by_transfers "$test, new protocols" -t $test
done
UCX_RNDV_SCHEME=put_zcopy by_transfers 'tag_bw by puts' -t tag_bw

cc -std=gnu11 -O2 -o "$tmp/close" "$srcdir/tern/ucp/close.c" -lucp -lucs 2>"$tmp/compiler" ||
    { sed 's/^/# /' "$tmp/compiler"; echo 'Bail out! close.c does not compile'; exit 1; }
# UCX notices some closed endpoints only by its keep-alive requests.
export UCX_KEEPALIVE_INTERVAL=200ms UCX_TERN_CONNECT_TIMEOUT=10s
for scheme in get_zcopy put_zcopy; do
    for side in sender receiver; do
        UCX_RNDV_SCHEME=$scheme check "$scheme: the $side closes by force" "${hca[@]}" "$tmp/close" $side
        for way in zcopy superpipeline; do
            UCX_RNDV_SCHEME=$scheme UCX_TERN_RNDV_SCHEME=$way \
                check "$scheme, $way: the $side closes by force" "${hca[@]}" "$tmp/close" $side 20
        done
    done
done

killed 'the receiver of long messages is killed' server tag_bw 4000000
killed 'the sender of long messages is killed' client tag_bw 4000000
UCX_RNDV_SCHEME=put_zcopy killed 'the receiver is killed, by puts' server tag_bw 4000000
UCX_RNDV_SCHEME=put_zcopy killed 'the sender is killed, by puts' client tag_bw 4000000
by_transfers 'after the deaths' -t tag_bw
finish
