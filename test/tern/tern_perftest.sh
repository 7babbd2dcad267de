#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# ucx_perftest over the transport on the software HCA: every UCT test that applies and every UCP test, with all ways of
# waiting, error handling, moving data and addressing; and a peer that is killed.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
# shellcheck source-path=SCRIPTDIR source=../common/killed.sh
. "$(dirname "$0")/../common/killed.sh"
# shellcheck source-path=SCRIPTDIR source=tern_perf.sh
. "$(dirname "$0")/tern_perf.sh"

# Variations of ucx_perftest's options.
ucp_options() {
    # Puts and gets do not wake their target, which would sleep for ever over any transport.
    each '-E sleep -t @ -s 8' tag_lat stream_lat ucp_am_lat ucp_fadd
    each '-E sleep -t @ -s 70000' tag_bw ucp_am_bw
    each '-e -t @ -s 1000' tag_lat tag_bw stream_bw ucp_am_lat ucp_put_bw ucp_get
    echo '-e -t ucp_cswap -s 8'
    each '-e -E sleep -t @ -s 8' tag_lat ucp_am_lat
    each '-T 2 -M @ -t tag_lat -s 8' serialized multi
    each '-T 2 -M multi -t @ -s 70000' tag_bw ucp_am_bw ucp_put_bw stream_bw
    each '-T 3 -M multi -t @ -s 8' ucp_fadd ucp_get
    each '-C -t @ -s 1000' tag_lat tag_sync_lat
    each '-U -t @ -s 1000' tag_lat tag_bw
    each '-U -t tag_lat -s @' 8 8256 70000
    each '-z -t @ -s 70000' tag_bw ucp_put_bw ucp_am_lat
    each '-r @ -t stream_lat -s 8' recv recv_data
    each '-r @ -t stream_bw -s 70000' recv recv_data
    each '-H @ -t ucp_am_lat -s 1000' 1 100 2000
    each '-D @ -t tag_lat -s 100,3000,7' iov,contig contig,iov iov,iov
    each '-D iov,iov -t @ -s 100,70000,7' tag_bw ucp_am_bw
    each '-O @ -t tag_bw -s 8' 1 64
}

# lanes NAME PATTERN: UCX logs the lanes of every endpoint; there must be lanes, and all must match.
lanes() {
    local name=$1 pattern=$2 seen
    new_port
    UCX_LOG_LEVEL=info pair "$name: lanes" "${hca[@]}" ucx_perftest -p "$port" ::: \
        "${hca[@]}" ucx_perftest -p "$port" -t tag_lat -n 100 -f 127.0.0.1
    seen=$(grep -ho 'ep_cfg\[[0-9]*\]:.*' "$tmp/server" "$tmp/client" | grep -o '[a-z0-9_]*/[a-z0-9_:]*' | sort -u)
    grep -Eq "$pattern" <<<"$seen" && ! grep -Evq "$pattern" <<<"$seen"
    result $? "$name: lanes are ${seen//$'\n'/ }"
}

loopback() {
    local test
    for test in am_lat am_bw put_lat put_bw; do
        check "UCT to itself: $test" "${hca[@]}" ucx_perftest -d softhca0:1 -x tern -t $test -n 1000 -w 10 -f -l
    done
    for test in tag_lat tag_bw ucp_put_bw stream_lat; do
        UCX_TLS=tern check "UCP to itself: $test" "${hca[@]}" ucx_perftest -t $test -n 1000 -w 10 -f -l
    done
}

# long_messages NAME: UCP sends long messages, from one buffer.
long_messages() {
    new_port
    pair "$1" "${hca[@]}" ucx_perftest -p "$port" ::: \
        "${hca[@]}" ucx_perftest -p "$port" -t tag_bw -s 1000000 -n "$iterations" -f 127.0.0.1
}

# paths LABEL: UCP divides long messages among two connections to the peer. Only transfers count bytes; a receiver reads
# what is sent from one buffer without asking the sender.
paths() {
    local label=$1 path bytes served
    rm -rf "$tmp/explained" "$tmp/counters"
    mkdir "$tmp/explained"
    UCX_TERN_RNDV_SCHEME=superpipeline TERN_EXPLAIN=$tmp/explained long_messages "$label: long messages"
    for path in 0 1; do
        bytes=$(grep -h '"event":"peer"' -r "$tmp/explained" | grep "\"path\":$path\b" | grep -o '"bytes":[0-9]*' |
            awk -F: '{ sum += $2 } END { print sum + 0 }')
        [ "$bytes" -ge $((iterations * 300000)) ]
        result $? "$label: path $path carries $bytes bytes"
    done
    UCX_TERN_COUNTERS=$tmp/counters long_messages "$label: long messages that are read"
    served=$(counter "$tmp/counters" rndv_served)
    [ "$served" -lt "$iterations" ]
    result $? "$label: $served parts of $iterations messages are asked for"
    perf "$label" < <(some)
}

# Settings of the fast path, and ways of the device.
settings() {
    use_tern
    UCX_TERN_POLL=memory perf POLL=memory < <(some)
    UCX_TERN_POLL=cq perf POLL=cq < <(some)
    UCX_TERN_HOT_MAX=0 perf 'no fast path' < <(some)
    UCX_TERN_HOT_AFTER=1 UCX_TERN_BLOCK_MAX=1k perf 'small blocks' < <(some)
    use_tern --executor thread
    perf thread < <(some)
    use_tern --link-layer ethernet
    perf ethernet < <(some)
    use_tern --faults out-of-order
    perf 'placed out of order' < <(some)
    use_tern --faults segment=64:1us
    perf 'placed in pieces' < <(some)
}

use_tern
perf UCT < <(uct_tests | sed 's/^/-d softhca0:1 -x tern /')
perf UCP < <(ucp_tests)
unless_short perf 'UCP, options' < <(ucp_options)
loopback

UCX_TLS=tern lanes 'tern alone' '^tern/softhca0:1$'
lanes 'tern,self' '^tern/softhca0:1$'
UCX_TLS=tern perf 'tern alone' < <(some)
UCX_TLS=tern,self,sm perf 'beside shared memory' < <(some)

use_tern --devices 2
export UCX_MAX_EAGER_LANES=2 UCX_MAX_RNDV_LANES=2
UCX_NET_DEVICES=softhca1:1 lanes 'second device' '^tern/softhca1:1$'
UCX_NET_DEVICES=softhca0:1,softhca1:1 lanes 'two devices' '^tern/softhca[01]:1$'
UCX_NET_DEVICES=softhca0:1,softhca1:1 perf 'two devices' < <(some)
use_tern --ports 2
UCX_NET_DEVICES=softhca0:1,softhca0:2 unless_short perf 'two ports' < <(some)
unset UCX_MAX_EAGER_LANES UCX_MAX_RNDV_LANES

# tern_openmpi.sh sweeps the same.
more settings
export UCX_TERN_NUM_PATHS=2 UCX_MAX_RNDV_RAILS=2
use_tern --rules lmc=1
paths 'two paths'
UCX_PROTO_ENABLE=y perf 'two paths, protocols' < <(some)
use_tern --link-layer ethernet
unless_short paths 'two paths, ethernet'
unset UCX_TERN_NUM_PATHS UCX_MAX_RNDV_RAILS
use_tern --faults delay-completions=20us
unless_short perf 'late completions' < <(some)
use_tern --profile infini
unless_short perf 'modelled network' < <(some)

use_tern
export UCX_KEEPALIVE_INTERVAL=1s UCX_TERN_CONNECT_TIMEOUT=10s
killed 'the receiver is killed under load' server tag_bw
killed 'the sender is killed under load' client tag_bw
unless_short killed 'one side of a ping-pong is killed' server tag_lat
killed 'the target of puts is killed' server ucp_put_bw
perf 'after the deaths' < <(some)
finish
