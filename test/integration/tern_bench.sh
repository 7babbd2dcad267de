#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The `tern-bench` command: that every measurement runs and says what it should, what it refuses, and that nothing
# stays behind. How fast anything is is no concern of this test.
# shellcheck disable=SC2016 # conditions for awk, commands for an inner shell
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
tern_bench=$(dirname "$SOFTHCA")/tern-bench
limit=120
unset UCX_TLS SOFTHCA_SHARED "${!UCX_TERN_@}"

# value FILE TITLE NAME: the figure of a line of a table, below the title of its group.
value() {
    awk -v title="$2" -v name="  $3  " '/^[^ ]/ { group = $0 } group == title && index($0, name) == 1 {
        print $(split(substr(name, 3), words, " ") + 1); exit }' "$1"
}

# compares NAME AWK-CONDITION value...: true of the values, which are $1, $2, ...
compares() {
    local name=$1 condition=$2
    shift 2
    echo "values: $*" >"$tmp/values"
    echo "$*" | awk "{ exit !(NF == $# && $condition) }"
    result $? "$name: $condition" "$tmp/values"
}

is_json() { # NAME FILE
    if command -v python3 >/dev/null; then
        check "$1" python3 -m json.tool "$2"
    else
        skip "$1" 'python3 is not installed'
    fi
}

refusal_tests() {
    check_match 'help' '^  fastpath ' "$tern_bench" --help
    refuses 'no command' 2 'choose from latency, rate, bandwidth, pinning, overlap, tune, memory, fastpath' "$tern_bench"
    refuses 'wrong command' 2 "no command 'speed'" "$tern_bench" speed
    refuses 'wrong option' 2 "no such option '--fast'" "$tern_bench" latency --fast
    refuses 'option without its value' 2 "'--json' needs a value" "$tern_bench" latency --json
    refuses 'wrong number' 2 '1 to 10000' "$tern_bench" latency --rounds 0
    refuses 'wrong list' 2 "'x' is not a number" "$tern_bench" memory --peers 1,x
    refuses 'wrong picture' 2 'neither in .svg nor in .png' "$tern_bench" fastpath --plot "$tmp/plot.pdf"
    refuses 'no gnuplot' 2 'gnuplot is not installed' env PATH="$tmp" "$tern_bench" fastpath --plot "$tmp/plot.svg"
    refuses 'wrong profile' 2 'choose from ideal, graphene, infini, hdr200' "$tern_bench" tune --profile fast
    refuses 'wrong sizes' 2 'not a number from 1 to 16384' "$tern_bench" bandwidth --sizes 1K:32768K
    refuses 'sizes the wrong way round' 2 'the second size is the smaller one' "$tern_bench" bandwidth --sizes 2M:1M
    refuses 'wrong step' 2 'not a step from 1.05' "$tern_bench" bandwidth --step 1
    refuses 'a profile for a device that has one' 1 "'softhca run --profile infini' makes one" \
        "${hca[@]}" "$tern_bench" tune --quick --profile infini
    refuses 'no such device' 1 'no such device: nosuch:1' "${hca[@]}" "$tern_bench" latency --device nosuch:1
    refuses 'a transport that UCX does not have' 1 'no transport nosuch on softhca0:1' \
        "${hca[@]}" "$tern_bench" latency --quick --transport nosuch
    refuses 'a transport that does not open' 1 'tern: .*uct_iface_open' \
        env UCX_TERN_SEG_SIZE=1 "${hca[@]}" "$tern_bench" latency --quick
    refuses 'a file that cannot be written' 1 'No such file' "$tern_bench" fastpath --quick --json "$tmp/none/x"
}

fastpath_tests() {
    local title='messages on the fast path, bursts of 1 to 12'
    check 'fastpath' "$tern_bench" fastpath --quick --json "$tmp/fastpath.json"
    cp "$tmp/output" "$tmp/fastpath"
    compares 'fastpath: as in the paper' '$1 > 85 && $2 < 60 && $3 > 85' \
        "$(value "$tmp/fastpath" "$title" '32 slots of 8 KiB, 512 KiB in all')" \
        "$(value "$tmp/fastpath" "$title" '4 slots of 8 KiB, 64 KiB in all')" \
        "$(value "$tmp/fastpath" "$title" 'Veloblock, 32 KiB in all')"
    check 'fastpath: the same every time' sh -c '"$0" fastpath --quick | cmp - "$1"' "$tern_bench" "$tmp/fastpath"
    check 'fastpath: another load, another result' sh -c '! "$0" fastpath --quick --seed 2 | cmp -s - "$1"' \
        "$tern_bench" "$tmp/fastpath"
    is_json 'fastpath: the json is json' "$tmp/fastpath.json"
    if command -v gnuplot >/dev/null; then
        check 'fastpath: plot' "$tern_bench" fastpath --quick --plot "$tmp/plot.svg"
        check_match 'fastpath: the plot is a picture' '<svg' cat "$tmp/plot.svg"
    else
        skip 'fastpath: plot' 'gnuplot is not installed'
    fi
}

latency_tests() {
    local layer
    check 'latency' "${hca[@]}" "$tern_bench" latency --quick --json "$tmp/latency.json"
    cp "$tmp/output" "$tmp/latency"
    is_json 'latency: the json is json' "$tmp/latency.json"
    for layer in UCT:rc_verbs UCP:rc_v; do
        check_match "latency: ${layer%:*}, tern against rc_verbs, and its target" \
            "^  tern / ${layer#*:} .* x .* <= 0\\.[0-9]+: (met|missed)" cat "$tmp/latency"
    done
    check_match 'latency: against RDMA writes' '^  tern / RDMA write, shared .* <= 1\.25: ' cat "$tmp/latency"
    check_match 'latency: like with like' '^  tern, private / RDMA write, private ' cat "$tmp/latency"
    check_match 'latency: few rounds are doubted' '\? few rounds' cat "$tmp/latency"
}

rate_tests() {
    check 'rate' "${hca[@]}" "$tern_bench" rate --quick --json "$tmp/rate.json"
    cp "$tmp/output" "$tmp/rate"
    check_match 'rate: the target' '^  tern / rc_verbs .* >= 1\.30: (met|missed)' cat "$tmp/rate"
    is_json 'rate: the json is json' "$tmp/rate.json"
}

bandwidth_tests() {
    local size=64 name
    check 'bandwidth' "$tern_bench" bandwidth --quick --profile graphene --sizes 64K --json "$tmp/bandwidth.json"
    cp "$tmp/output" "$tmp/bandwidth"
    for name in 'fresh buffers, GB/s' 'reused buffers, GB/s' 'first message of reused buffers, GB/s'; do
        check_match "bandwidth: $name" "^$name  *tern  *rc_v  *rc_v direct" cat "$tmp/bandwidth"
    done
    check_match 'bandwidth: a line for the size' "^  $size KiB( +[0-9.]+[ ?]){12}" cat "$tmp/bandwidth"
    check_match 'bandwidth: targets' '^tern / write: target met at [01] of 1 sizes' cat "$tmp/bandwidth"
    check_match 'bandwidth: few rounds are doubted' 'few rounds' cat "$tmp/bandwidth"
    is_json 'bandwidth: the json is json' "$tmp/bandwidth.json"
    check_match 'bandwidth: the model beside it' '"name": "model superpipeline"' cat "$tmp/bandwidth.json"
}

pinning_tests() {
    check 'pinning' "$tern_bench" pinning --quick --profile graphene --sizes 1M --json "$tmp/pinning.json"
    cp "$tmp/output" "$tmp/pinning"
    check_match 'pinning: a line for the size' '^  1 MiB( +[0-9.]+[ ?]){7}' cat "$tmp/pinning"
    check_match 'pinning: the gain' '^ratios of pinned buffers +overlapped / before +cached / before' cat "$tmp/pinning"
    is_json 'pinning: the json is json' "$tmp/pinning.json"
}

overlap_tests() {
    local who
    check 'overlap' "$tern_bench" overlap --quick --json "$tmp/overlap.json"
    cp "$tmp/output" "$tmp/overlap"
    is_json 'overlap: the json is json' "$tmp/overlap.json"
    # Whose device reads the message needs no processor to send it, but one to ask for it.
    overlap_is 'receiver' 'rc_v get' 0
    overlap_is 'sender' 'rc_v get' 100
    overlap_is 'receiver' 'rc_v put' 0
    # Each receive is granted before its message is asked for; if messages can be direct at all.
    for who in receiver sender; do
        check_match "overlap: messages are direct while the $who computes" \
            "^direct, while the $who works: ((8|9|10)[0-9]\\.[0-9] % of|0\\.0 % of 0) " cat "$tmp/overlap"
    done
}

overlap_is() { # who arm percent
    check_match "overlap: 64 KiB, $2, while the $1 computes: $3 %" \
        "\"arrived of the $1\", \"x\": 65536,.*\"name\": \"$2\",.*\"median\": $3," cat "$tmp/overlap.json"
}

tune_tests() {
    check 'tune' "$tern_bench" tune --quick --profile graphene --sizes 1K:1M --json "$tmp/tune.json"
    cp "$tmp/output" "$tmp/tune"
    # The software HCA takes at least its time for a registration: 68 us.
    compares 'tune: registration' '$1 > 60' \
        "$(value "$tmp/tune" 'parameters of the cost model                   fixed by' 'registration: fixed')"
    check_match 'tune: what fixes it' '^  network: bandwidth .* GB/s +UCX_TERN_' cat "$tmp/tune"
    check_match 'tune: which scheme' '^  32 KiB .* (superpipeline|zcopy) +(superpipeline|zcopy)$' cat "$tmp/tune"
    is_json 'tune: the json is json' "$tmp/tune.json"
}

memory_tests() {
    local bytes='registered memory of a process, 3 peers' pairs='queue pairs of a process, 3 peers' stage
    check 'memory' "${hca[@]}" "$tern_bench" memory --peers 3
    cp "$tmp/output" "$tmp/memory"
    # Handshakes take a queue pair of their own.
    compares 'memory: idle endpoints have no queue pair' '$1 == 1' \
        "$(value "$tmp/memory" "$pairs" 'tern: endpoints made, nothing sent')"
    compares 'memory: those that talk have one' '$1 == 4' \
        "$(value "$tmp/memory" "$pairs" 'tern: a message with each peer')"
    stage='many messages of up to 8 KiB with each'
    compares 'memory: less than rc_verbs' '$1 > 0 && $1 < $2' \
        "$(value "$tmp/memory" "$bytes" "tern: $stage")" "$(value "$tmp/memory" "$bytes" "rc_verbs: $stage")"
    compares 'memory: hot peers have blocks' '$1 > $2' \
        "$(value "$tmp/memory" "$bytes" 'tern: many small messages with each')" \
        "$(value "$tmp/memory" "$bytes" 'tern: a message with each peer')"
}

refusal_tests
fastpath_tests
latency_tests
rate_tests
bandwidth_tests
pinning_tests
overlap_tests
tune_tests
memory_tests
# Without a device it makes its own, on a fabric of its own.
check 'on a device of its own' "$tern_bench" memory --quick --peers 1
# Its fabric is named after the process; those of processes that live are others'.
# shellcheck disable=SC2016
check 'which is gone afterwards' sh -c 'for fabric in /dev/shm/softhca-*-tern-bench-*; do
    [ ! -e "$fabric" ] || [ -d "/proc/${fabric##*-}" ] || exit 1
done'
finish
