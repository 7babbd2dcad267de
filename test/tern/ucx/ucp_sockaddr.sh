#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# UCX's tests of connections by socket address. UCX_SELECTION=ci: only a part of them.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
if [ -z "${UCX_GTEST_DEVICE:-}" ]; then
    cc -shared -fPIC -o "$tmp/netdev.so" "$srcdir/tern/ucx/netdev.c" -ldl || exit 1
    export LD_PRELOAD=$tmp/netdev.so
fi
case ${UCX_SELECTION:-all} in
    ci) filter='tern/test_ucp_sockaddr_protocols.*:tern/test_ucp_sockaddr_with_rma_atomic.*' ;;
    *) filter='tern/test_ucp_sockaddr*' ;;
esac
judge "${1:-$filter}"
