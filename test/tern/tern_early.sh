#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Early copies of messages that UCP announces: they are used, and never for another message.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require cc
# Messages wait at receivers whose endpoints are closed; UCP warns of them.
export UCX_TLS=tern,self UCX_NET_DEVICES=$device UCX_WARN_UNUSED_ENV_VARS=n UCX_RNDV_THRESH=8k UCX_LOG_LEVEL=error
use_tern

cc -std=gnu11 -O2 -o "$tmp/early" "$srcdir/tern/ucp/early.c" -lucp -lucs 2>"$tmp/compiler" ||
    { sed 's/^/# /' "$tmp/compiler"; echo 'Bail out! early.c does not compile'; exit 1; }

# early NAME: messages of the program have right bytes, and early copies are used.
early() {
    local name=$1 used
    rm -f "$tmp/counters"
    UCX_TERN_COUNTERS=$tmp/counters check "$name" "${hca[@]}" "$tmp/early"
    used=$(counter "$tmp/counters" rndv_early_copies_used)
    result "$((used == 0))" "$name: $used early copies used" "$tmp/counters"
}

protocols=(n y)
# UCX 1.22 has no puts and gets without the new protocols.
if pkg-config --atleast-version=1.22 ucx 2>/dev/null; then protocols=(y); fi
for protocol in "${protocols[@]}"; do
    export UCX_PROTO_ENABLE=$protocol
    UCX_TERN_RNDV_SCHEME=superpipeline early "all staged, PROTO_ENABLE=$protocol"
    check "as the model decides, PROTO_ENABLE=$protocol" "${hca[@]}" "$tmp/early"
    UCX_TM_ENABLE=y UCX_TERN_RNDV_SCHEME=superpipeline \
        check "tags offloaded, PROTO_ENABLE=$protocol" "${hca[@]}" "$tmp/early"
    UCX_RNDV_SCHEME=put_zcopy check "by puts, PROTO_ENABLE=$protocol" "${hca[@]}" "$tmp/early"
done
finish
