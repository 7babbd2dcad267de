# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: BSD-3-Clause
#
# Common functions of the tests of the transport with rdma_rxe. Sourced after in_guest.
# shellcheck source-path=SCRIPTDIR source=../tern.sh
. "$srcdir/tern/tern.sh"
device=rxe0:1
use_hca() {
    hca=()
}
use_tern
export UCX_TLS=tern,self UCX_NET_DEVICES=$device UCX_WARN_UNUSED_ENV_VARS=n

# The kernel's objects on the device, of which a test must leave none.
resources() {
    rdma resource show rxe0
}
resources_before=$(resources)

# Like finish, but first checks that no objects are left. (Those of a process go a moment after the process.)
finish_tern() {
    local _
    for _ in {1..50}; do
        resources >"$tmp/left"
        [ "$(cat "$tmp/left")" != "$resources_before" ] || break
        sleep 0.1
    done
    [ "$(cat "$tmp/left")" = "$resources_before" ]
    result $? 'nothing is left on the device' "$tmp/left"
    finish
}
