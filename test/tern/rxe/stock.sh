#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs without Tern: a failure here is not Tern's.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
in_guest
require ibv_devinfo ibv_rc_pingpong ucx_perftest

check_match 'ibv_devinfo' 'PORT_ACTIVE' ibv_devinfo -d rxe0
check_match 'ibv_devinfo: Ethernet' 'link_layer:.*Ethernet' ibv_devinfo -d rxe0
for kind in rc uc ud srq; do
    new_port
    pair "ibv_${kind}_pingpong by IPv4" ibv_${kind}_pingpong -g 1 -c -n 200 -p "$port" ::: \
        ibv_${kind}_pingpong -g 1 -c -n 200 -p "$port" 127.0.0.1
done
new_port
pair 'ibv_rc_pingpong by link-local address' ibv_rc_pingpong -g 0 -c -n 200 -p "$port" ::: \
    ibv_rc_pingpong -g 0 -c -n 200 -p "$port" 127.0.0.1

# UCX's check of a UD packet's destination refuses rxe's form of an IPv4 address.
export UCX_UD_VERBS_ETH_DGID_CHECK=n

perftest() { # GID index, transports, options...
    local gid=$1 transports=$2
    shift 2
    new_port
    pair "ucx_perftest $*, $transports, GID $gid" \
        env UCX_TLS="$transports" UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX="$gid" ucx_perftest -p "$port" ::: \
        env UCX_TLS="$transports" UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX="$gid" ucx_perftest -p "$port" 127.0.0.1 "$@" -f
}

perftest 0 rc_v,self -t tag_lat -s 8 -n 200 -w 20
selection || {
    perftest 1 rc_v,self -t tag_lat -s 8 -n 200 -w 20
    perftest 0 rc_v,self -t tag_bw -s 65536 -n 100 -w 10
    perftest 0 rc_v,self -t ucp_put_lat -s 4096 -n 200 -w 20
    perftest 0 ud_v,self -t tag_lat -s 8 -n 200 -w 20
}
finish
