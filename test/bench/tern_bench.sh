#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The benchmarks of `tern-bench`, and the simulations of `paper-tables`: every measurement runs and prints what it
# should, wrong options are refused, and no files remain. The speed itself is not tested.
# shellcheck disable=SC2016 # conditions for awk, commands for an inner shell
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../tern/tern.sh
. "$(dirname "$0")/../tern/tern.sh"
tern_bench=$(dirname "$SOFTHCA")/tern-bench
paper_tables=$(dirname "$SOFTHCA")/paper-tables # not installed
unset UCX_TLS SOFTHCA_SHARED "${!UCX_TERN_@}"

# value FILE TITLE NAME: the number in the line NAME of a table, below the title of its group.
value() {
    awk -v title="$2" -v name="  $3  " '/^[^ ]/ { group = $0; gsub(/  +/, " ", group) } group == title && index($0, name) == 1 {
        print $(split(substr(name, 3), words, " ") + 1); exit }' "$1"
}

# compares NAME AWK-CONDITION value...: the condition must hold for the values, which are $1, $2, ...
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
    local commands='latency,rwapi,tune,memory'
    check_match 'help' '^  latency ' "$tern_bench" --help
    check_match 'help: the peers that are measured' '1,4,16,32,63' "$tern_bench" --help
    refuses 'no command' 2 '^tern-bench: COMMAND is required' "$tern_bench"
    refuses 'an empty value' 2 "no value after '--json='" "$tern_bench" latency --json= --quick
    refuses 'options before the command' 2 '33554432 not in range' \
        "$tern_bench" --peers 1,4 --sizes 64K:32768K tune --quick
    refuses 'wrong command' 2 "^tern-bench: COMMAND: speed not in {$commands}" "$tern_bench" speed
    refuses 'two commands' 2 'not expected: tune' "$tern_bench" latency tune
    refuses 'wrong option' 2 'not expected: --fast' "$tern_bench" latency --fast
    refuses 'option without its value' 2 '--json: 1 required' "$tern_bench" latency --json
    refuses 'wrong number' 2 '1 to 10000' "$tern_bench" latency --rounds 0
    refuses 'wrong list' 2 '--peers: Value x not in range' "$tern_bench" memory --peers 1,x
    refuses 'wrong profile' 2 'choose from ideal, graphene, infini, hdr200, muse' "$tern_bench" tune --profile fast
    refuses 'wrong sizes' 2 '33554432 not in range 1 to 16777216' "$tern_bench" tune --sizes 1K:32768K
    refuses 'sizes the wrong way round' 2 'the second size is the smaller one' "$tern_bench" tune --sizes 2M:1M
    refuses 'wrong step' 2 'Value 1 not in range 1.05' "$tern_bench" tune --step 1
    refuses 'a profile for a device that has one' 1 "'softhca run --profile infini' makes one" \
        "${hca[@]}" "$tern_bench" tune --quick --profile infini
    refuses 'no such device' 1 'no such device: nosuch:1' "${hca[@]}" "$tern_bench" latency --device nosuch:1
    refuses 'a transport that UCX does not have' 3 'no transport nosuch on softhca0:1' \
        "${hca[@]}" "$tern_bench" latency --quick --transport nosuch
    refuses 'a transport that does not open' 3 'tern: .*uct_iface_open' \
        env UCX_TERN_SEG_SIZE=1 "${hca[@]}" "$tern_bench" latency --quick
    refuses 'a file that cannot be written' 1 'No such file' \
        "${hca[@]}" "$tern_bench" memory --peers 1 --json "$tmp/none/x"
}

# json_has NAME FILE PYTHON-CONDITION: of the object `r` that the file holds.
json_has() {
    if command -v python3 >/dev/null; then
        check "$1" python3 -c "import json, sys; r = json.load(open(sys.argv[1])); assert $3, r" "$2"
    else
        skip "$1" 'python3 is not installed'
    fi
}

# One arm fails: the others are measured, and everything says that one is missing.
failed_arm_tests() {
    local json=$tmp/failed.json
    refuses 'an arm that fails' 3 '^incomplete: nosuch: UCX has no transport nosuch' \
        "${hca[@]}" "$tern_bench" latency --quick --transport nosuch --json "$json"
    json_has 'the file says it' "$json" 'r["incomplete"][0].startswith("nosuch: ")'
    json_has 'the other arms are there' "$json" '{f["name"] for f in r["figures"]} >= {"rc_verbs", "RDMA write, shared"}'
    json_has 'the failed one is not' "$json" 'not any(f["name"].startswith("nosuch") for f in r["figures"])'
    if command -v python3 >/dev/null; then
        refuses 'no table is made of it' 1 'failed.json is incomplete' \
            "$srcdir/../contrib/tables.py" --list "$json"
    fi
    refuses 'an arm of memory that fails' 3 '^incomplete: nosuch: ' \
        "${hca[@]}" "$tern_bench" memory --peers 1,2 --transport nosuch
}

# interrupt_tests SIGNAL STATUS command...: a run that ends early has its complete rounds.
interrupt_tests() {
    local signal=$1 expected=$2 json=$tmp/$1.json status
    shift 2
    rm -f "$json"
    start "$tmp/$signal" "$@" latency --rounds 10000 --json "$json"
    # It says how far it is, which round it is, and how long it takes.
    for ((i = 0; i < limit * 10; i++)); do
        grep -Eq '^measuring: [0-9]+ %, [0-9]+ (s|min) left: round ([2-9]|[1-9][0-9]+) of 10000, ' "$tmp/$signal" && break
        sleep 0.1
    done
    check "$signal: what is measured and what is left" test "$i" -lt $((limit * 10))
    kill -s "$signal" "$pid"
    wait "$pid"
    status=$?
    check "$signal: the exit status" test $status = "$expected"
    check "$signal: no fabric is left" bash -c '! ls /dev/shm/softhca-*-tern-bench-"$0".*' "$pid"
    check_match "$signal: it says so" '^incomplete: interrupted after [1-9][0-9]* of 10000 rounds' cat "$tmp/$signal"
    json_has "$signal: the file has the complete rounds" "$json" \
        'r["incomplete"][0] == "interrupted after %d of 10000 rounds" % len(r["figures"][0]["rounds"])'
    json_has "$signal: and no others" "$json" 'len({len(f["rounds"]) for f in r["figures"] if "rounds" in f}) == 1'
}

# The figures of two papers, within what the papers say.
paper_figures_tests() {
    local cluster
    if [ ! -x "$paper_tables" ]; then
        skip 'figures of papers' 'paper-tables is not installed'
        return
    fi
    check 'superpipeline' "$paper_tables" superpipeline "$tmp/superpipeline.json"
    cp "$tmp/output" "$tmp/superpipeline"
    for cluster in graphene infini; do
        compares "superpipeline: $cluster: as in figure 6" '$1 < 16 && $2 < 5 && $3 < 5 && $3 < $2' \
            "$(value "$tmp/superpipeline" "time over that of an RDMA write, $cluster, 16 KiB" superpipeline)" \
            "$(value "$tmp/superpipeline" "time over that of an RDMA write, $cluster, 64 KiB" superpipeline)" \
            "$(value "$tmp/superpipeline" "time over that of an RDMA write, $cluster, 1 MiB" superpipeline)"
        compares "superpipeline: $cluster: 12 KiB and 1.5 are nearly the best" '$1 >= 0 && $1 < 3' \
            "$(value "$tmp/superpipeline" "time over the best of the sweep, $cluster, 1 MiB" 'C_0 = 12 KiB, q = 1.5')"
    done
    is_json 'superpipeline: the json is json' "$tmp/superpipeline.json"
    refuses 'paper-tables: no table' 2 '^usage: paper-tables' "$paper_tables"
    check 'pinning costs' "$paper_tables" pinning
    cp "$tmp/output" "$tmp/pinning-costs"
    compares 'pinning costs: about 5 and 20 % of 1 MiB, and nearly nothing behind the wire' \
        '$1 > 4 && $1 < 6 && $2 > 15 && $2 < 21 && $3 < 2' \
        "$(value "$tmp/pinning-costs" 'throughput lost by pinning for each message, 1 MiB' 'Xeon E5460')" \
        "$(value "$tmp/pinning-costs" 'throughput lost by pinning for each message, 1 MiB' 'Opteron 265')" \
        "$(value "$tmp/pinning-costs" 'throughput lost if pieces are pinned behind the wire, 1 MiB' 'Xeon E5460')"
}

latency_tests() {
    local layer
    check 'latency' "${hca[@]}" "$tern_bench" latency --quick --json "$tmp/latency.json"
    cp "$tmp/output" "$tmp/latency"
    is_json 'latency: the json is json' "$tmp/latency.json"
    check_match 'latency: which program it was' '"commit": "([0-9a-f]{12}(-changed)?|unknown)"' cat "$tmp/latency.json"
    check_match 'latency: every round' '^ +"rounds": \[$' cat "$tmp/latency.json"
    check_match 'latency: the sizes' '^ "sizes": \[ 8, 1024 \]' sh -c 'tr -s "\n " " " <"$0" | grep -o " .sizes[^]]*]"' "$tmp/latency.json"
    for layer in UCT:rc_verbs UCP:rc_v; do
        check_match "latency: ${layer%:*}, tern against rc_verbs" "^  tern / ${layer#*:} +[0-9.]+ +x " cat "$tmp/latency"
    done
    check_match 'latency: against RDMA writes' '^  tern / RDMA write, shared +[0-9.]+ +x ' cat "$tmp/latency"
    check_match 'latency: like with like' '^  tern, private / RDMA write, private ' cat "$tmp/latency"
    check_match 'latency: few rounds are doubted' '\? few rounds' cat "$tmp/latency"
}

rwapi_tests() {
    local test memory
    check 'rwapi' "${hca[@]}" "$tern_bench" rwapi --quick --sizes 1:64 --step 8 --json "$tmp/rwapi.json"
    cp "$tmp/output" "$tmp/rwapi"
    for test in ping-pong:us burst:MB/s 'put and signal:us' 'puts and signals:MB/s'; do
        for memory in private shared; do
            check_match "rwapi: ${test%:*}, $memory memory" \
                "^${test%:*}, $memory memory, ${test#*:} +1 B +8 B +64 B\$" cat "$tmp/rwapi"
        done
    done
    check 'rwapi: a line for each way and test' sh -c 'for name in tern rc_verbs "RDMA write"; do
        [ "$(grep -Ec "^  $name( +[0-9.]+\??){3}$" "$0")" = 8 ] || exit 1
    done
    [ "$(grep -Ec "^  tern, rwapi_put( +[0-9.]+\??){3}$" "$0")" = 2 ]' "$tmp/rwapi"
    check_match 'rwapi: ratios' '^ratios of ping-pong, private memory +1 B' cat "$tmp/rwapi"
    is_json 'rwapi: the json is json' "$tmp/rwapi.json"
    refuses 'rwapi: too long a message' 1 'at most 8M' "${hca[@]}" "$tern_bench" rwapi --quick --sizes 16M
    more check_match 'rwapi: the longest message' '^  RDMA write +[0-9.]+\?$' "$tern_bench" rwapi --quick --sizes 8M
    more check_match "rwapi: the paper's cluster" '^  RDMA write +([0-9.]+\?|late)$' \
        "$tern_bench" rwapi --quick --profile muse --sizes 4K
}

tune_tests() {
    check 'tune' "$tern_bench" tune --quick --profile graphene --json "$tmp/tune.json"
    cp "$tmp/output" "$tmp/tune"
    # A registration on the software HCA takes at least the time of the model, 68 us.
    compares 'tune: registration' '$1 > 60' \
        "$(value "$tmp/tune" 'parameters of the cost model, pin_latency' 'registration: fixed')"
    check_match 'tune: what fixes it' '^parameters of the cost model, net$' cat "$tmp/tune"
    check_match 'tune: which scheme' '^fresh buffers: (superpipeline|zcopy) from 1 KiB' cat "$tmp/tune"
    is_json 'tune: the json is json' "$tmp/tune.json"
}

memory_tests() {
    local bytes='registered memory of a process, 3 peers' pairs='queue pairs of a process, 3 peers' stage
    local queues='memory of the queues of a process, 3 peers'
    check 'memory' "${hca[@]}" "$tern_bench" memory --peers 3
    cp "$tmp/output" "$tmp/memory"
    mkdir -p "$tmp/kept"
    check 'memory: another result in the place of a file' "${hca[@]}" "$tern_bench" memory --peers 1 --json "$tmp/kept/x"
    check_match 'memory: the new file, and no other' '^ "command": "memory",x$' \
        sh -c 'echo "$(grep command "$0/x")$(ls "$0")"' "$tmp/kept"
    # One queue pair, for handshakes.
    compares 'memory: idle endpoints have no queue pair' '$1 == 1' \
        "$(value "$tmp/memory" "$pairs" 'tern: endpoints made, nothing sent')"
    compares 'memory: those that talk have one' '$1 == 4' \
        "$(value "$tmp/memory" "$pairs" 'tern: a message with each peer')"
    stage='many messages of up to 8 KiB with each'
    compares 'memory: less than rc_verbs' '$1 > 0 && $1 < $2' \
        "$(value "$tmp/memory" "$bytes" "tern: $stage")" "$(value "$tmp/memory" "$bytes" "rc_verbs: $stage")"
    # mlx5: 256 sends of 8 elements and 128 bytes take 128 KiB, and 32 KiB of records, with completions besides.
    compares 'memory: a connection has queues' '$2 - $1 >= 3 * 8 && $2 - $1 <= 3 * 180' \
        "$(value "$tmp/memory" "$queues" 'tern: endpoints made, nothing sent')" \
        "$(value "$tmp/memory" "$queues" 'tern: a message with each peer')"
    compares 'memory: the queues of rc_verbs' '$1 >= 3 * 160' \
        "$(value "$tmp/memory" "$queues" "rc_verbs: $stage")"
    compares 'memory: hot peers have blocks' '$1 > $2' \
        "$(value "$tmp/memory" "$bytes" 'tern: many small messages with each')" \
        "$(value "$tmp/memory" "$bytes" 'tern: a message with each peer')"
}

refusal_tests
failed_arm_tests
interrupt_tests TERM 143 "${hca[@]}" "$tern_bench"
# A shell has background jobs ignore SIGINT.
interrupt_tests INT 130 env --default-signal=INT "$tern_bench"
paper_figures_tests
latency_tests
rwapi_tests
tune_tests
memory_tests
# Without a device, the benchmark starts a software HCA on its own fabric.
leaves_no_fabric 'on a device of its own, which is gone afterwards' tern-bench "$tern_bench" memory --quick --peers 1
finish
