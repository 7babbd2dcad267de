# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: BSD-3-Clause
#
# What the tests of the transport with rdma_rxe share. Sourced after in_guest.
# shellcheck source-path=SCRIPTDIR source=../integration/tern.sh
. "$srcdir/integration/tern.sh"
device=rxe0:1
use_hca() {
    hca=()
}
use_tern
export UCX_TLS=tern,self UCX_NET_DEVICES=$device UCX_WARN_UNUSED_ENV_VARS=n

# What there is of the kernel's objects on the device: nobody is to leave any.
resources() {
    rdma resource show rxe0
}
resources_before=$(resources)

# As finish, after a look at what is left. (What a process had goes a moment after it.)
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
