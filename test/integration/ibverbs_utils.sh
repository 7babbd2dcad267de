#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The programs of ibverbs-utils on the software HCA.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
require ibv_devices ibv_devinfo ibv_rc_pingpong

pingpong() { # name kind option...
    local name=$1 program="ibv_$2_pingpong"
    shift 2
    new_port
    pair "$name" "${hca[@]}" "$program" -p "$port" "$@" ::: \
        "${hca[@]}" "$program" -p "$port" "$@" 127.0.0.1
}

every_pingpong() { # label option...
    local label=$1 kind
    shift
    for kind in rc uc ud srq; do
        pingpong "$label: $kind" $kind -c "$@"
        pingpong "$label: $kind with events" $kind -c -e "$@"
    done
    pingpong "$label: xsrq" xsrq "$@"
    pingpong "$label: xsrq with events" xsrq -e "$@"
    pingpong "$label: rc with ibv_wr_*" rc -c -N "$@"
}

check_match 'ibv_devices' '^ +softhca0' "${hca[@]}" ibv_devices
check_match 'ibv_devinfo' 'state:.*PORT_ACTIVE' "${hca[@]}" ibv_devinfo -v -d softhca0
check_match 'ibv_devinfo: infiniband' 'link_layer:.*InfiniBand' "${hca[@]}" ibv_devinfo

every_pingpong inline
pingpong 'inline: rc, 1 MiB' rc -c -s 1048576 -n 100
pingpong 'inline: rc, 1 B' rc -c -s 1
pingpong 'inline: uc, 1 MiB' uc -c -s 1048576 -n 100
pingpong 'inline: rc by GID' rc -c -g 0

use_hca --executor thread
every_pingpong thread
pingpong 'thread: rc, 1 MiB' rc -c -s 1048576 -n 100

use_hca --link-layer ethernet
check_match 'ibv_devinfo: ethernet' 'link_layer:.*Ethernet' "${hca[@]}" ibv_devinfo
every_pingpong ethernet -g 0

use_hca --devices 2 --ports 2
check_match 'ibv_devices: two' '^ +softhca1' "${hca[@]}" ibv_devices
check_match 'ibv_devinfo: two ports' 'port:[[:space:]]+2' "${hca[@]}" ibv_devinfo -d softhca1
pingpong 'second device, second port: rc' rc -c -d softhca1 -i 2
pingpong 'second device, second port: ud' ud -c -d softhca1 -i 2

finish
