#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The plug-in for UCP: what it shows, when it stays away, and messages of all kinds through it.
# TERN_PERSONALITY: the device that is imitated.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require ucx_perftest ucx_info cc
if [ ! -e "$(dirname "$tern_transport")/libucp_tern.so.0" ]; then
    echo "1..0 # SKIP there is no plug-in for this UCX"
    exit 0
fi
export UCX_PROTO_ENABLE=y SOFTHCA_PERSONALITY=${TERN_PERSONALITY:-default}

# table VARIABLES... -- ARGUMENTS: the tables of protocols of one ucx_perftest, into $tmp/table.
table() {
    local variables=()
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    new_port
    "${hca[@]}" env UCX_PROTO_INFO=y ${variables[@]+"${variables[@]}"} timeout -k 5 "$limit" \
        ucx_perftest -p "$port" "$@" >"$tmp/table" 2>&1 &
    local server_pid=$!
    pids+=("$server_pid")
    wait_for_server "$server_pid"
    "${hca[@]}" env ${variables[@]+"${variables[@]}"} timeout -k 5 "$limit" \
        ucx_perftest -p "$port" localhost "$@" >"$tmp/client" 2>&1 && wait "$server_pid"
}

# shows NAME PATTERN VARIABLES... -- ARGUMENTS
shows() {
    local name=$1 pattern=$2 status=0
    shift 2
    table "$@" && grep -Eq "$pattern" "$tmp/table" || status=1
    result $status "$name" "$tmp/table" "$tmp/client"
}

use_tern
long=(-s 1048576 -n 20 -w 5)
staged='rendezvous superpipeline read from remote *\| tern/softhca0:1'
for test in tag_bw tag_lat ucp_am_bw; do
    shows "the tables of $test name the scheme" "$staged" -- -t $test "${long[@]}"
done
check_match 'so do those of ucx_info' "$staged" "${hca[@]}" ucx_info -e -u t -D net
set_costs slow
shows 'slow copies are not named' 'rendezvous zero-copy read from remote *\| tern' -- -t tag_bw "${long[@]}"
result "$(! grep -Eq "$staged" "$tmp/table"; echo $?)" 'nor is the superpipeline' "$tmp/table"
set_costs fast
shows 'a forced scheme is named' 'rendezvous zero-copy read from remote *\| tern' UCX_TERN_RNDV_SCHEME=zcopy -- \
    -t tag_bw "${long[@]}"
# A network and a processor for which the schemes cross.
slow_copies=('UCX_TERN_RNDV_COSTS=net=20GBs,copy=5GBs,pin=100GBs,pin_latency=20us')
shows 'both schemes are named, the second from some length on' \
    '[0-9]+\.\.inf *\| \(\?\) rendezvous zero-copy read from remote' "${slow_copies[@]}" -- -t tag_bw "${long[@]}"
result "$(grep -Eq "[0-9]+\.\.[0-9]+ *\| \(\?\) $staged" "$tmp/table"; echo $?)" 'and the first up to it' "$tmp/table"

# Where the rendezvous begins in the last table, for sends whose title matches.
rendezvous_from() { # pattern
    awk -F '|' -v title="$1" '
        / by ucp_tag_send/ { ours = $0 ~ title }
        ours && /rendezvous/ { split($2, range, /[ .]+/); print range[2]; exit }' "$tmp/table"
}
# From 1.16 on, UCX has a fixed threshold for sends with fast completion.
thresholds() { # NAME THRESHOLD VARIABLES...: of these sends; empty: that of other sends
    local name=$1 expected=$2 fast
    shift 2
    table "$@" -- -t tag_bw "${long[@]}"
    fast=$(rendezvous_from '\\(fast-completion\\)')
    if [ -z "$fast" ]; then
        skip "$name" 'UCX shows no sends with fast completion'
        return
    fi
    result "$([ "$fast" = "${expected:-$(rendezvous_from 'send\\*(\\(\\))? from')}" ]; echo $?)" "$name" "$tmp/table"
}
thresholds 'sends with fast completion have the threshold of others' ''
thresholds "UCX_TERN_PROTO=n leaves them UCX's" 256K UCX_TERN_PROTO=n
thresholds 'so does UCX_RNDV_SEND_NBR_THRESH' 300000 UCX_RNDV_SEND_NBR_THRESH=300000

# unchanged NAME VARIABLES...: stock UCX chooses the same, with the plug-in and without the transport.
# UCX asks for 4096 receives, which not every device's queues have.
stock=('UCX_TLS=rc_v,self' UCX_RC_VERBS_RX_QUEUE_LEN=1024 UCX_UD_VERBS_RX_QUEUE_LEN=1024)
columns() { sed -n 's/^\[[^|]*|\(.*\)$/\1/p' "$tmp/table" | sed 's/0x[0-9a-f]*/POINTER/' | sort; }
unchanged() {
    local name=$1 with without
    shift
    table "${stock[@]}" "$@" -- -t tag_bw "${long[@]}"
    with=$(columns)
    use_hca
    table "${stock[@]}" "$@" -- -t tag_bw "${long[@]}"
    without=$(columns)
    use_tern
    echo "$without" >>"$tmp/table"
    result "$([ -n "$with" ] && [ "$with" = "$without" ]; echo $?)" "$name" "$tmp/table"
}
unchanged 'stock transports choose what they choose without the plug-in'
unchanged 'also where UCX forces a scheme' UCX_RNDV_SCHEME=get_zcopy

# away NAME PATTERN VARIABLES...: UCP keeps its own protocols, says why in one line, and works.
away() {
    local name=$1 pattern=$2 status=0
    shift 2
    table UCX_LOG_LEVEL=info "$@" -- -t tag_bw "${long[@]}" || status=1
    [ "$(grep -c 'UCP keeps its own protocols' "$tmp/table")" = 1 ] || status=1
    grep -Eq "INFO  tern: UCP keeps its own protocols: $pattern" "$tmp/table" || status=1
    ! grep -q superpipeline "$tmp/table" || status=1
    result $status "$name" "$tmp/table" "$tmp/client"
}
away 'UCX_PROTOS keeps it away' 'UCX_PROTOS does not admit rndv/tern' UCX_PROTOS=^rndv/tern

# A table with a protocol that nobody knows: a library whose constructor comes before that of the transport.
cat >"$tmp/unknown.c" <<'END'
struct proto { const char* name; };
extern const struct proto* ucp_protocols[];
static const struct proto unknown = {"egr/unknown"};
__attribute__((constructor)) static void change(void) { ucp_protocols[9] = &unknown; }
END
if cc -shared -fPIC -o "$tmp/unknown.so" "$tmp/unknown.c" -l:libucp.so.0; then
    status=0
    env LD_PRELOAD="$tern_library:$tmp/unknown.so" UCX_LOG_LEVEL=info timeout -k 5 "$limit" ucx_info -d \
        >"$tmp/output" 2>&1 || status=1
    grep -Eq 'UCP keeps its own protocols: protocol 9 of UCP is egr/unknown and not [a-z/]+$' "$tmp/output" || status=1
    result $status 'an unknown protocol in the table keeps it away' "$tmp/output"
else
    result 1 'a library with an unknown protocol compiles'
fi

# A UCP that lacks something: a plug-in with a reference that nothing resolves.
mkdir "$tmp/folder"
cp "$tern_transport" "$tmp/folder/libuct_tern.so.0"
echo 'void ucp_missing(void); void* tern_ucp_install(void* t) { ucp_missing(); return t; }' >"$tmp/missing.c"
cc -shared -fPIC -o "$tmp/folder/libucp_tern.so.0" "$tmp/missing.c"
alone() { # NAME PATTERN
    local status=0
    env LD_PRELOAD="$tmp/folder/libuct_tern.so.0" UCX_LOG_LEVEL=info timeout -k 5 "$limit" ucx_info -d \
        >"$tmp/output" 2>&1 || status=1
    [ "$(grep -c 'UCP keeps its own protocols' "$tmp/output")" = 1 ] || status=1
    grep -Eq "$2" "$tmp/output" || status=1
    result $status "$1" "$tmp/output"
}
alone 'a missing symbol keeps it away' 'undefined symbol: ucp_missing'
rm "$tmp/folder/libucp_tern.so.0"
alone 'so does a missing plug-in' 'libucp_tern.so.0: cannot open shared object file'

shows 'UCX_TERN_PROTO=n leaves the choice to UCX' '(zero-copy|fenced) (read|write)' UCX_TERN_PROTO=n -- -t tag_bw "${long[@]}"
result "$(! grep -q superpipeline "$tmp/table"; echo $?)" 'and names no scheme' "$tmp/table"

# Messages of all kinds. UCX 1.13 warns of memory that it has lost with active messages of no bytes. An endpoint that is
# closed by force is not among them: UCX 1.13's newer protocols fail their own assertions then, over any transport.
export UCX_TLS=tern,self UCX_NET_DEVICES=$device UCX_WARN_UNUSED_ENV_VARS=n UCX_LOG_LEVEL=error
cc -std=gnu11 -O2 -o "$tmp/proto" "$srcdir/tern/ucp/proto.c" -lucp -lucs 2>"$tmp/compiler" ||
    { sed 's/^/# /' "$tmp/compiler"; echo 'Bail out! proto.c does not compile'; exit 1; }

# messages NAME REPLIES VARIABLES... [-- VARIABLES OF THE PEER]: REPLIES is "all" if each process sends some, else "one"
# or "none".
messages() {
    local name=$1 replies=$2 variables=() processes
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    [ $# = 0 ] || shift
    rm -f "$tmp/counters"
    check "$name" env UCX_TERN_COUNTERS="$tmp/counters" ${variables[@]+"${variables[@]}"} "${hca[@]}" "$tmp/proto" "$@" ||
        return
    processes=$(grep -c '"rndv_replies":[1-9]' "$tmp/counters")
    case $replies in
        all) [ "$processes" = 2 ] ;;
        one) [ "$processes" = 1 ] ;;
        none) [ "$processes" = 0 ] ;;
    esac
    result $? "$name: $processes processes acknowledge within fetches" "$tmp/counters"
}

messages 'messages' all
messages 'messages, without the plug-in' none UCX_PROTOS=^rndv/tern
messages 'messages, UCX_TERN_PROTO=n' none UCX_TERN_PROTO=n
messages 'messages that are all announced' all UCX_RNDV_THRESH=0
for scheme in superpipeline zcopy; do
    messages "messages, $scheme" all UCX_RNDV_THRESH=8k UCX_TERN_RNDV_SCHEME=$scheme
    messages "messages with error handling, $scheme" all PROTO_ERRORS=y UCX_RNDV_THRESH=8k UCX_TERN_RNDV_SCHEME=$scheme
done
messages 'messages by puts' none UCX_RNDV_SCHEME=put_zcopy
# With two rails every fetch is cut in two, and UCP acknowledges both parts.
messages 'messages, two devices' none SOFTHCA_DEVICES=2 UCX_NET_DEVICES=all UCX_MAX_RNDV_RAILS=2
messages 'messages, two ports' none SOFTHCA_PORTS=2 UCX_NET_DEVICES=all UCX_MAX_RNDV_RAILS=2

# UCP's old and new protocols cannot talk to each other, over any transport.
messages 'messages, one side without the plug-in' one UCX_RNDV_THRESH=8k -- UCX_PROTOS=^rndv/tern
messages 'messages, one side with UCX_TERN_PROTO=n' one UCX_RNDV_THRESH=8k -- UCX_TERN_PROTO=n

finish
