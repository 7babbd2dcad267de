# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: BSD-3-Clause
#
# ucx_perftest over the transport: lists of tests, and functions that run them. Sourced after lib.sh; `hca` is the
# launcher of the commands.
require ucx_perftest
iterations=200
most_pairs=5 # of processes, for each list of tests
export UCX_TLS=tern,self UCX_NET_DEVICES=$device UCX_WARN_UNUSED_ENV_VARS=n

# perf LABEL <LIST: runs the tests of a list, one line of options each, in one pair of processes. A test passes if the
# client prints a result for it. An option without a value must not end its line, because ucx_perftest would read on
# into the next line. If a test hangs or dies, only this test fails: both processes are killed, and a new pair on a new
# fabric runs the rest, up to most_pairs times.
perf() {
    local label=$1 who='server and client' name options fabric=$SOFTHCA_FABRIC pairs=0 behind
    nl -w1 -s' ' | sed 's/^/t/' >"$tmp/batch"
    while [ -s "$tmp/batch" ]; do
        new_port
        pairs=$((pairs + 1))
        pair "$label: $who" "${hca[@]}" ucx_perftest -p "$port" -b "$tmp/batch" ::: \
            "${hca[@]}" ucx_perftest -p "$port" -n "$iterations" -w 10 -f -v -b "$tmp/batch" 127.0.0.1
        # Reports the tests that have a result, and the one that follows them.
        behind=0
        while read -r name options; do
            behind=$((behind + 1))
            grep -Eq "^$name, +[0-9]" "$tmp/client"
            result $? "$label: $options" || break
        done <"$tmp/batch"
        sed -i "1,${behind}d" "$tmp/batch"
        [ -s "$tmp/batch" ] || break
        if [ $pairs = "$most_pairs" ]; then
            while read -r name options; do
                result 1 "$label: $options"
            done <"$tmp/batch"
            break
        fi
        "$SOFTHCA" clean >/dev/null 2>&1
        SOFTHCA_FABRIC=$fabric-$pairs
        who="server and client behind $name"
    done
    [ "$SOFTHCA_FABRIC" = "$fabric" ] || "$SOFTHCA" clean >/dev/null 2>&1
    SOFTHCA_FABRIC=$fabric
}

# each TEMPLATE WORD...: prints the template once for each word, which replaces @.
each() {
    local template=$1 word
    shift
    for word in "$@"; do
        echo "${template//@/$word}"
    done
}

uct_tests() {
    local test
    for test in am_lat am_bw; do
        each "-t $test -D short -s @" 8 50 112
        each "-t $test -D bcopy -s @" 8 100 1000 4096 8192
        each "-t $test -D zcopy -s @" 16 1000 4096 8192
        each "-t $test -D zcopy -H 64 -s @" 64 8192
    done
    for test in put_lat put_bw; do
        each "-t $test -D short -s @" 8 50 128
        each "-t $test -D bcopy -s @" 8 1000 8192
    done
    echo "-t am_lat -D shortiov -s 64"
    each "-t am_bw -W @ -D bcopy -s 1000" 1 16 127
    each "-t am_lat -A @ -s 8" thread_spinlock thread_mutex signal
    each "-t am_bw -O @ -D zcopy -s 4096" 1 16 1000
}

ucp_tests() {
    local test
    for test in tag_lat tag_bw tag_sync_lat tag_sync_bw stream_lat stream_bw ucp_am_lat ucp_am_bw ucp_put_lat \
        ucp_put_bw ucp_get; do
        each "-t $test -s @" 1 8 1000 8192 70000
        echo "-t $test -n 20 -s 1000000"
    done
    each '-t @ -s 8' ucp_add ucp_fadd ucp_swap ucp_cswap
    each '-t @ -s 4' ucp_add ucp_fadd ucp_swap ucp_cswap
}

# A selection that shows whether something is broken.
some() {
    each '-t @ -s 8' tag_lat ucp_am_lat stream_lat ucp_put_lat ucp_fadd
    each '-t @ -s 8192' tag_lat tag_bw ucp_am_bw ucp_get
    each '-n 50 -t @ -s 300000' tag_bw ucp_put_bw
    each '-E sleep -t @ -s 8' tag_lat
}
