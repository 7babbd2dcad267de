#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# One-sided communication of UCP: with a key that a program has passed on, a process puts and gets without help from the
# target.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require cc
export UCX_TLS=tern,self UCX_NET_DEVICES=$device UCX_WARN_UNUSED_ENV_VARS=n
use_tern

cc -std=gnu11 -O2 -o "$tmp/polled" "$srcdir/tern/ucp/polled.c" -lucp -lucs 2>"$tmp/compiler" ||
    { sed 's/^/# /' "$tmp/compiler"; echo 'Bail out! polled.c does not compile'; exit 1; }
check 'the target looks at its memory and does not call UCX' "${hca[@]}" "$tmp/polled"
# Before UCX 1.15, UCP's newer protocols (then not the default) give Tern no means to distinguish such memory from the
# memory of a rendezvous.
if pkg-config --atleast-version=1.15 ucx 2>/dev/null || ucx_info -v | grep -qE '^# (Library version|Version):? *1\.(1[5-9]|[2-9][0-9])'; then
    UCX_PROTO_ENABLE=y check 'the same, new protocols' "${hca[@]}" "$tmp/polled"
else
    skip 'the same, new protocols' 'UCX before 1.15 declares what programs map like what a rendezvous moves'
fi
UCX_RNDV_THRESH=1k UCX_ZCOPY_THRESH=0 check 'the same, nothing is copied' "${hca[@]}" "$tmp/polled"
finish
