# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: BSD-3-Clause
#
# Common functions of tern_openmpi.sh and tern_mpich.sh: an MPI over the transport on the software HCA. Sourced after
# lib.sh. TERN_PERSONALITY: the device that is imitated.
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$srcdir/tern/tern.sh"
# shellcheck source-path=SCRIPTDIR source=../common/mpi.sh
. "$srcdir/common/mpi.sh"
export UCX_TLS=tern,self SOFTHCA_PERSONALITY=${TERN_PERSONALITY:-default}

# The message about a peer that does not answer.
lost='\[.*:[0-9]+:[0-9]+\].*tern|told:'

# The value of a rule of the personality.
rule() { # name
    "$SOFTHCA" help personalities | awk -F ' *[|] *' -v name="\`$1\`" -v personality="\`$SOFTHCA_PERSONALITY\`" '
        NR == 1 { for (i = 2; i < NF; i++) if ($i == personality) column = i }
        $2 == name { print $column }'
}

# Both paths must have carried messages, and blocks must have been granted, if the device promises the order of writes.
counters() { # label ranks
    local file=$tmp/counters status=0 name names=(sent_cold short bcopy)
    [ "$(rule in-order)" = 0 ] || names+=(sent_hot promotions)
    rm -f "$file"
    UCX_TERN_COUNTERS=$file verify "$1" "$2" point floods order barrier
    for name in "${names[@]}"; do
        [ "$(counter "$file" "$name")" -gt 0 ] || { status=1; echo "$name is 0" >>"$file"; }
    done
    # Each message that was sent must have been received. A control frame may come when its receiver has closed.
    messages() { # sent|received
        echo $(($(counter "$file" "$1_hot") + $(counter "$file" "$1_cold") - $(counter "$file" "$1_control")))
    }
    [ "$(messages sent)" = "$(messages received)" ] || { status=1; echo "not all messages have come" >>"$file"; }
    result $status "$1: $2 ranks, counters" "$file"
}

# of_selection PART ALL: the one for any TERN_SELECTION, or the other.
of_selection() {
    if whole; then echo "$2"; else echo "$1"; fi
}

every_verify() {
    local ranks
    use_tern
    UCX_TLS=tern verify 'tern alone' 2
    # The first one is the same but for messages to oneself. Eight ranks share two processors: TERN_SELECTION has them
    # with one MPI, and four with the other.
    for ranks in $(of_selection "$([ "$mpi" = openmpi ] && echo 4 || echo 8)" '2 4 8'); do
        verify 'tern,self' $ranks
    done
    verify threads 2 --threads
    verify threads 4 --threads threads
    lanes inline tern 'tern|self'
    counters inline 4
}

# Sections that exercise most of the transport's decisions.
sections=(point-to-point wildcards order floods outstanding)

# UCP's newer protocols, with the plug-in for UCP.
every_protocol() {
    local UCX_PROTO_ENABLE=y
    export UCX_PROTO_ENABLE
    use_tern
    verify 'newer protocols' 2 "${sections[@]}"
    UCX_RNDV_THRESH=1 verify 'newer protocols, all rendezvous' 4 "${sections[@]}"
    [ -e "$(dirname "$tern_transport")/libucp_tern.so.0" ] || return
    UCX_PROTO_INFO=y check_match "UCX's tables name the scheme" 'rendezvous superpipeline read from remote *\| tern/' \
        bash -c 'launch_"$@"' _ "$mpi" 2 "${hca[@]}" "$tmp/verify" point-to-point
}

# Connections end and come back in the course of the job.
few_connections() {
    local file=$tmp/counters
    rm -f "$file"
    UCX_TERN_COUNTERS=$file UCX_TERN_QP_MAX=1 verify 'one connection' 4
    [ "$(counter "$file" queue_pairs_ended)" -gt 4 ]
    result $? 'one connection: unused ones have ended' "$file"
}

every_setting() {
    use_tern
    UCX_TERN_POLL=memory verify 'POLL=memory' 2
    # Collectives and large messages of four ranks that only poll their completion queue take a minute.
    # shellcheck disable=SC2046 # a list
    UCX_TERN_POLL=cq verify 'POLL=cq' 4 $(of_selection "${sections[*]}" '')
    UCX_TERN_HOT_AFTER=1 UCX_TERN_BLOCK_MAX=4k verify 'smallest blocks, at once' 4 "${sections[@]}"
    UCX_TERN_HOT_MAX=1 UCX_TERN_HOT_AFTER=2 verify 'one hot peer' 4 "${sections[@]}"
    UCX_TERN_HOT_MAX=0 verify 'no hot peer' 4 "${sections[@]}"
    UCX_TERN_TX_QUEUE_LEN=32 UCX_TERN_RX_QUEUE_LEN=32 UCX_TERN_TX_BUFFERS=8 verify 'short queues' 4 "${sections[@]}"
    few_connections
    UCX_TERN_SEG_SIZE=1k verify 'small segments' 2 "${sections[@]}" uneven
    UCX_TERN_SEG_SIZE=16k more verify 'large segments' 2 "${sections[@]}"
    UCX_ZCOPY_THRESH=64 verify 'all zero-copy' 2 "${sections[@]}"
    UCX_RNDV_THRESH=inf more verify 'all eager' 2 "${sections[@]}"
    UCX_RNDV_THRESH=1 verify 'all rendezvous' 2 "${sections[@]}"
    # Without the section one-sided: UCX 1.13 flushes too early over shared memory.
    UCX_TLS=tern,self,sm verify 'beside shared memory' 4 "${sections[@]}"
    two_devices

    use_tern --executor thread
    verify 'executor thread' 2
    use_tern --link-layer ethernet
    verify 'ethernet' 2 "${sections[@]}"
    UCX_TERN_GID_INDEX=0 more verify 'ethernet, GID 0' 2 "${sections[@]}"
    use_tern --faults out-of-order
    verify 'placed out of order' 2 "${sections[@]}"
    use_tern --faults segment=100:1us
    more verify 'placed in pieces' 2 "${sections[@]}"
    use_tern --profile graphene
    more verify 'modelled network' 2 "${sections[@]}"
    use_tern
}

# Each scheme, and that it is what is done.
large_by_every_scheme() {
    local file=$tmp/counters value
    for value in superpipeline zcopy; do
        rm -f "$file"
        UCX_TERN_COUNTERS=$file UCX_TERN_RNDV_SCHEME=$value UCX_RNDV_THRESH=1k verify "TERN_RNDV_SCHEME=$value" 2 large point
        [ "$(counter "$file" "rndv_${value/zcopy/zero_copy}")" -gt 20 ]
        result $? "TERN_RNDV_SCHEME=$value: it is what is done" "$file"
    done
}

# Large messages with each protocol of UCP, each scheme, and each way of noticing changes of memory.
every_large() { # [section of one-sided communication]
    local value
    use_tern
    UCX_RNDV_THRESH=0 verify 'RNDV_THRESH=0' 4 large point one-sided
    UCX_RNDV_THRESH=1k more verify 'RNDV_THRESH=1k' 2 large order one-sided
    UCX_RNDV_THRESH=inf verify 'RNDV_THRESH=inf' 2 large point one-sided
    UCX_PROTO_ENABLE=y verify 'PROTO_ENABLE=y' 4 large point order ${1+"$1"}
    UCX_PROTO_ENABLE=y UCX_RNDV_THRESH=0 verify 'PROTO_ENABLE=y, RNDV_THRESH=0' 2 large point ${1+"$1"}
    for value in put_zcopy get_zcopy; do
        UCX_RNDV_SCHEME=$value more verify "RNDV_SCHEME=$value" 2 large
    done
    large_by_every_scheme
    TERN_TUNABLES=rndv_windows=1 UCX_TERN_POLL=cq verify 'one ring' 4 large
    UCX_MEM_EVENTS=n verify 'MEM_EVENTS=n' 2 large
    for value in $(of_selection userfaultfd 'userfaultfd ucm none'); do
        UCX_TERN_PIN_MONITOR=$value verify "TERN_PIN_MONITOR=$value" 2 large
    done
    UCX_TERN_PIN_MAX=64k more verify 'TERN_PIN_MAX=64k' 2 large
    other_allocators
    on_demand_paging
}

# A device whose page faults take time and are answered like a missing receive: Tern uses it for the memory of large
# messages, or pins that memory.
on_demand_paging() {
    local value
    use_tern --rules odp=1,odp-faults=570
    for value in odp userfaultfd; do
        export UCX_TERN_PIN_MONITOR=$value
        UCX_RNDV_THRESH=1k verify "on-demand paging, TERN_PIN_MONITOR=$value" 4 large point one-sided
        UCX_TERN_TM_ENABLE=y UCX_TM_THRESH=0 TERN_TUNABLES=tm_tuple_after=1 UCX_TERN_TM_TUPLE_MIN=0 \
            verify "on-demand paging, TERN_PIN_MONITOR=$value, direct messages" 2 matching large
    done
    unset UCX_TERN_PIN_MONITOR
    use_tern
}

# The transport matches messages with receives: in software, and by the device.
matched_by_the_transport() {
    local file=$tmp/counters status=0 pair sent matched unexpected
    use_tern
    rm -f "$file"
    export UCX_TERN_TM_ENABLE=y UCX_TM_THRESH=0
    UCX_TERN_TM_TUPLES=0 UCX_TERN_COUNTERS=$file verify 'tag matching' 2
    for pair in eager:tag_matched:tag_unexpected rndv:tag_rndv_matched:tag_rndv_unexpected; do
        IFS=: read -r sent matched unexpected <<<"$pair"
        matched=$(counter "$file" "$matched") unexpected=$(counter "$file" "$unexpected")
        [ "$matched" -gt 100 ] && [ "$unexpected" -gt 100 ] &&
            [ "$((matched + unexpected))" = "$(counter "$file" "tag_${sent}_sent")" ] || status=1
    done
    # Receives of one source and tag must be found by their key. This includes MPICH's receives, which leave bits open.
    [ "$((2 * $(counter "$file" tag_wildcards)))" -lt "$(counter "$file" tag_posted)" ] || status=1
    result $status 'tag matching: messages are matched by the transport, and not' "$file"
    # Every tag gets a queue as soon as one is free: with few and many queues, deep and shallow ones.
    rm -f "$file"
    export TERN_TUNABLES=tm_tuple_after=1 UCX_TERN_TM_TUPLE_MIN=0
    UCX_TERN_COUNTERS=$file verify 'direct messages' 2
    if [ "$(rule xrc)" = 0 ]; then
        skip 'direct messages: all find a receive' 'the device has no XRC'
    else
        [ "$(counter "$file" direct_not_ready)" = 0 ] || status=1
        [ "$(counter "$file" direct_received)" -gt 100 ] || status=1
        result $status 'direct messages: all find a receive' "$file"
    fi
    unset UCX_TERN_TM_ENABLE UCX_TM_THRESH TERN_TUNABLES UCX_TERN_TM_TUPLE_MIN
}

# Direct messages with UCP's thresholds and Tern's queues at their extremes.
every_matching() {
    matched_by_the_transport
    export UCX_TERN_TM_ENABLE=y UCX_TM_THRESH=0 TERN_TUNABLES=tm_tuple_after=1 UCX_TERN_TM_TUPLE_MIN=0
    UCX_TERN_TM_TUPLES=2 TERN_TUNABLES=tm_tuple_after=1,tm_depth=1 verify 'direct messages, two queues for one receive each' 4 matching point cancel
    TERN_TUNABLES=tm_tuple_after=1,tm_depth=64 more verify 'direct messages, queues for 64 receives' 8 matching
    verify 'direct messages, threads' 2 --threads threads
    unset TERN_TUNABLES UCX_TERN_TM_TUPLE_MIN
    more verify 'tag matching' 8 matching
    verify 'tag matching, threads' 2 --threads threads
    TERN_TUNABLES=tm_list_size=1 more verify 'tag matching, one receive at a time' 4 matching point
    UCX_RNDV_THRESH=0 verify 'tag matching, RNDV_THRESH=0' 4 matching point cancel truncated
    UCX_RNDV_THRESH=inf UCX_TM_MAX_BB_SIZE=1 more verify 'tag matching, RNDV_THRESH=inf' 2 matching large
    UCX_TM_SW_RNDV=y UCX_RNDV_THRESH=0 verify 'tag matching, TM_SW_RNDV=y' 2 matching cancel
    UCX_TM_THRESH=1k UCX_TM_FORCE_THRESH=0 more verify 'tag matching, TM_THRESH=1k' 4 matching
    UCX_TERN_TX_QUEUE_LEN=32 UCX_TERN_RX_QUEUE_LEN=32 UCX_TERN_TX_BUFFERS=8 more verify 'tag matching, short queues' 2 matching
    # With other memory, UCX 1.13 may take foreign memory for bounce buffers.
    UCX_PROTO_ENABLE=y UCX_ALLOC_PRIO=mmap verify 'tag matching, PROTO_ENABLE=y' 2 matching point
    use_tern --devices 2
    UCX_MAX_EAGER_LANES=2 UCX_MAX_RNDV_LANES=2 UCX_NET_DEVICES=softhca0:1,softhca1:1 verify 'tag matching, two devices' 2 \
        matching large
    use_tern
    unset UCX_TERN_TM_ENABLE UCX_TM_THRESH
}

# Allocators that return memory to the system in their own ways.
other_allocators() {
    local name library
    for name in jemalloc tcmalloc; do
        library=$(ldconfig -p | awk -v name="lib$name" 'index($1, name) == 1 { print $NF; exit }')
        if [ -z "$library" ]; then
            skip "large messages with $name" "lib$name is not installed"
            continue
        fi
        LD_PRELOAD=$library verify "$name" 2 large
    done
}

# Messages are spread over two devices.
two_devices() {
    local file=$tmp/counters device status=0
    use_tern --devices 2
    rm -f "$file"
    UCX_MAX_EAGER_LANES=2 UCX_MAX_RNDV_LANES=2 UCX_NET_DEVICES=softhca0:1,softhca1:1 UCX_TERN_COUNTERS=$file \
        verify 'two devices' 2 "${sections[@]}"
    for device in softhca0:1 softhca1:1; do
        grep "\"$device\"" "$file" >"$tmp/one"
        [ "$(($(counter "$tmp/one" sent_hot) + $(counter "$tmp/one" sent_cold)))" -gt 1000 ] || status=1
    done
    result $status 'two devices: both carry messages' "$file"
    use_tern
}
