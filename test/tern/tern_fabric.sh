#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Fabrics as real ones are: each process has addresses of its own, so that a wrong address reaches nobody; ports are in
# different subnets; and the device pages memory on demand, but not for each transport.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require ucx_perftest
export UCX_TLS=tern UCX_NET_DEVICES=$device UCX_WARN_UNUSED_ENV_VARS=n

# perftest NAME server-port client-port option...
perftest() {
    local name=$1 from=$2 to=$3
    shift 3
    new_port
    UCX_NET_DEVICES=softhca0:$from pair "$name" "${hca[@]}" ucx_perftest -p "$port" ::: \
        env UCX_NET_DEVICES="softhca0:$to" "${hca[@]}" ucx_perftest -p "$port" -f "$@" 127.0.0.1
}

for layer in infiniband ethernet; do
    use_tern --addresses per-process --link-layer $layer
    name="$layer, own addresses"
    perftest "$name: short messages" 1 1 -t tag_lat -s 8 -n 5000
    perftest "$name: long messages" 1 1 -t tag_bw -s 1000000 -n 100
    perftest "$name: puts" 1 1 -t ucp_put_lat -s 1000 -n 1000
    rm -f "$tmp/counters"
    UCX_TERN_TM_ENABLE=y UCX_TM_THRESH=0 TERN_TUNABLES=tm_tuple_after=1 UCX_TERN_TM_TUPLE_MIN=0 \
        UCX_TERN_COUNTERS=$tmp/counters perftest "$name: tag matching" 1 1 -t tag_lat -s 3000 -n 5000
    # How many depends on when receives are posted.
    [ "$(counter "$tmp/counters" direct_received)" -gt 0 ]
    result $? "$name: direct messages" "$tmp/counters"
done

for layer in infiniband ethernet; do
    use_tern --ports 2 --subnets per-port --link-layer $layer
    perftest "$layer, subnets: port 1" 1 1 -t tag_lat -n 1000
    perftest "$layer, subnets: port 2" 2 2 -t tag_lat -n 1000
done

# UCP's answer for a peer that no transport reaches: unreachable NAME server-device client-device [client-fabric]
unreachable() {
    local name=$1 from=$2 to=$3 fabric=${4:-$SOFTHCA_FABRIC} waiting
    new_port
    start "$tmp/server" env UCX_NET_DEVICES="$from" "${hca[@]}" ucx_perftest -p "$port"
    waiting=$pid
    wait_for_server "$waiting"
    # shellcheck disable=SC2016 # for the inner shell
    SOFTHCA_FABRIC=$fabric UCX_NET_DEVICES=$to check_match "infiniband, $name do not reach each other" \
        "tern/$to - Destination is unreachable" \
        bash -c '! "$@"' _ "${hca[@]}" ucx_perftest -p "$port" -t tag_lat -n 1000 127.0.0.1
    kill -KILL -- "-$waiting" 2>/dev/null
    wait "$waiting" 2>/dev/null
}

use_tern --ports 2 --subnets per-port
unreachable 'subnets: ports of two' softhca0:1 softhca0:2

# Two containers that share nothing have fabrics of one name, with the same LIDs.
use_tern
unreachable 'processes of two fabrics' softhca0:1 softhca0:1 "$SOFTHCA_FABRIC-other"
SOFTHCA_FABRIC=$SOFTHCA_FABRIC-other "$SOFTHCA" clean >/dev/null

use_tern --rules odp=2
UCX_TERN_TM_ENABLE=y UCX_TERN_PIN_MONITOR=odp UCX_LOG_LEVEL=info check_match 'paging on demand, but not for XRC' \
    'matched in software only: softhca0 pages memory on demand, but not for XRC; set UCX_TERN_PIN_MONITOR' \
    "${hca[@]}" ucx_perftest -t tag_lat -s 100000 -n 100 -f -l
finish
