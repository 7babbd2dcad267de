#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The command tern-first-run, in short: on the personalities FIRST_RUN_PERSONALITIES of the software HCA, and with each
# step made to fail by commands that only look like the true ones. And `tern-bench order`, on which it relies.
# shellcheck disable=SC2016 # commands for an inner shell
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
require python3 ucx_perftest ib_write_lat ibv_devinfo
tools=$(dirname "$SOFTHCA")
report=$tmp/report
fakes=$tmp/fakes
export TMPDIR=$tmp
unset UCX_TLS UCX_NET_DEVICES SLURM_JOB_NODELIST "${!UCX_TERN_@}"

# first_run OPTION...: leaves its exit status in `status`.
first_run() {
    rm -rf "$report" && mkdir "$report"
    timeout -k 5 "$limit" "${hca[@]}" "${command:-$tools/tern-first-run}" --short --requests 20000 --output "$report" "$@" \
        >"$tmp/output" 2>&1 </dev/null
    status=$?
}

# reports NAME STATUS ROW...: how it ended, and rows of the report, each a pattern of "step|title|status|remark".
reports() {
    local name=$1 expected=$2 row wrong=0
    shift 2
    python3 - "$report" >"$tmp/rows" <<'END' || wrong=1
import json, sys
result = json.load(open(sys.argv[1] + "/first-run.json"))
for row in result["rows"]:
    print(row["step"], row["title"], row["status"], row.get("remark", ""), sep="|")
    # A row that is well has figures, if it is a measurement.
    if row["status"] == "ok" and row["step"] in ("perftest", "order", "ucx", "bench") and not row["figures"]:
        sys.exit("no figures: " + row["title"])
page = open(sys.argv[1] + "/first-run.html").read()
sys.exit(page.count("<tr class=") != len(result["rows"]))
END
    [ "$status" = "$expected" ] || { wrong=1; echo "status $status, not $expected" >>"$tmp/rows"; }
    for row; do
        grep -Eq -- "$row" "$tmp/rows" || { wrong=1; echo "no row $row" >>"$tmp/rows"; }
    done
    result $wrong "$name" "$tmp/rows" "$tmp/output"
}

# fake NAME [text of a script]: a command that comes before the true one; it fails if there is no text.
fake() {
    mkdir -p "$fakes"
    printf '#!/bin/sh\n%s\n' "${2:-exit 7}" >"$fakes/$1"
    chmod +x "$fakes/$1"
}
with_fakes() {
    PATH="$fakes:$PATH" first_run "$@"
}
nothing_left() {
    check 'no folder is left' sh -c '! ls -d "$TMPDIR"/tern-first-run-* | grep .'
}

# ordered NAME STATUS PATTERN: both sides of `tern-bench order` on this device.
ordered() {
    local name=$1 expected=$2 pattern=$3
    new_port
    start "$tmp/server" "${hca[@]}" "$tools/tern-bench" order --port "$port"
    wait_for_server "$pid"
    timeout -k 5 "$limit" "${hca[@]}" "$tools/tern-bench" order --port "$port" --count 5000 --seed 7 127.0.0.1 \
        >"$tmp/client" 2>&1
    status=$?
    wait "$pid"
    [ $? = $status ] && [ $status = "$expected" ] && grep -Eq -- "$pattern" "$tmp/client"
    result $? "$name" "$tmp/client" "$tmp/server"
}

order_tests() {
    local right='^order here: 5000 requests .* all bytes right'
    ordered 'order: as promised' 0 "$right; late within a request: 0, between requests: 0; .* promises the order"
    use_hca --faults segment=512:20us,out-of-order
    ordered 'order: late bytes, of which nothing is promised' 0 \
        "$right; late within a request: [1-9][0-9]*, .* promises no order"
    use_hca --faults swap-writes
    ordered 'order: requests that overtake others' 0 "$right; late within a request: 0, between requests: [1-9]"
    use_hca
    refuses 'order: nobody waits' 1 'connect to 127.0.0.1: Connection refused' \
        "${hca[@]}" "$tools/tern-bench" order --port 1 127.0.0.1
}

option_tests() {
    refuses 'a wrong option' 2 'unrecognized arguments: --fast' "$tools/tern-first-run" --fast
    refuses 'one host' 2 'name two hosts, or none' "$tools/tern-first-run" one
    refuses 'a wrong step' 2 'no step lunch' "$tools/tern-first-run" --steps lunch
    refuses 'no folder' 2 'is no folder' "$tools/tern-first-run" --output "$tmp/none"
    check_match 'its version' "^tern-first-run .* $("$tools/tern-run" --version | sed 's/.* //')$" "$tools/tern-first-run" --version
}

personality_tests() {
    local steps=check,perftest,order,ucx,mpi
    local programs=('^ucx\|tag_lat.*\|ok' '^ucx\|ucp_cswap.*\|ok' '^mpi\|.*: each byte of messages\|(ok|missing)')
    for personality in ${FIRST_RUN_PERSONALITIES:-strict mlx5}; do
        use_hca --personality "$personality"
        # perftest sends a global routing header, which strict demands, only if it is told a GID.
        local gid=()
        [ "$personality" != strict ] || gid=(--gid-index 0)
        first_run --steps $steps ${gid[@]+"${gid[@]}"}
        reports "$steps, $personality" 0 '^check\|machine 2\|ok' '^check\|.* on machine 1\|ok\|Tern can be used here' \
            '^perftest\|ib_write_lat, inline 64\|ok' '^perftest\|ib_read_bw\|ok' '^order\|20000 writes.*\|ok' \
            ${programs[@]+"${programs[@]}"}
        # What programs do is the same on the next device.
        whole || { steps=check,perftest,order programs=(); }
    done
    use_hca
    more first_run --steps bench
    more reports 'benchmarks' 0 '^bench\|tern-bench latency, tern\|ok'
}

# The other machine by an ssh that runs the command here.
machine_tests() {
    fake ssh 'for word; do last=$word; done; exec sh -c "$last"'
    with_fakes --steps check,order --device softhca0:1 localhost another-machine
    reports 'a machine by ssh' 0 '^check\|machine 2\|ok' '^order\|.*\|ok'
    check 'the report names nobody' sh -c '! grep -E "another-machine|$(id -un)[^a-z]|([0-9]+\.){3}[0-9]" "$0"' \
        "$report/first-run.json"
    fake ssh 'echo "ssh: another-machine (user me@192.0.2.7, fe80::1:2:3:4): no route" >&2; exit 255'
    with_fakes --steps order,ucx localhost another-machine
    reports 'a machine that is not reached' 1 '^check\|machine 2\|failed\|.*cannot be reached' '^order\|.*\|missing'
    check 'what failed names nobody' sh -c '! grep -E "another-machine|192.0|fe80" "$0" && grep "user me@" "$0"' \
        "$report/first-run.json"
}

failure_tests() {
    fake ib_send_bw
    fake ib_read_lat 'sleep 1000'
    fake ucx_perftest 'echo "Final: no figures"'
    fake mpirun 'echo "Open MPI"; test "$1" = --version'
    fake mpirun.openmpi "$(cat "$fakes/mpirun")"
    fake mpirun.mpich 'exit 1'
    with_fakes --limit 15 --steps perftest,ucx,mpi
    reports 'rows that fail' 1 '^perftest\|ib_send_bw, inline 0\|failed\|ib_send_bw: status 7' \
        '^perftest\|ib_send_lat, inline 0\|ok' '^perftest\|ib_read_lat\|failed\|ib_read_lat: no end within 15 s' \
        '^ucx\|tag_lat.*\|failed\|tern: its output has no figures; rc_v: its output' '^mpi\|Open MPI: each byte.*\|(failed|missing)'
    rm -rf "$fakes"
    # Beside the script are the commands of this package.
    mkdir "$fakes"
    cp "$tools/tern-first-run" "$fakes/"
    fake tern-run 'echo "WRONG  devices  none"; exit 1'
    fake tern-bench 'echo "wrong byte: request 7 of seed 1" >&2; exit 1'
    command=$fakes/tern-first-run first_run --steps check,order,ucx
    reports 'a wrong byte ends the run' 3 '^check\|tern-run .* 2\|failed' '^order\|.*\|wrong\|wrong byte: request 7 of seed 1'
    check 'nothing comes after it' sh -c '! grep "^ucx" "$0"' "$tmp/rows"
    rm -rf "$fakes"
    # Without other commands than those of the system.
    mkdir "$fakes"
    for program in sh env timeout sed uname nproc cat rm mkdir head tr sort ibv_devinfo; do
        ln -s "$(command -v "$program")" "$fakes/"
    done
    ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$fakes/python3"
    fake bare "PATH=$fakes exec $tools/tern-first-run \"\$@\""
    command=$fakes/bare first_run --steps perftest,ucx,mpi
    reports 'what is not installed' 0 '^perftest\|ib_write_lat, inline 0\|missing\|ib_write_lat: not installed' \
        '^ucx\|.*\|missing\|ucx_perftest' '^mpi\|Open MPI, MPICH\|missing\|mpirun'
    rm -rf "$fakes"
}

# A build with conformance programs, which is only scripts.
build_tests() {
    mkdir -p "$tmp/source/build/card/test" "$tmp/source/test/common" "$tmp/source/test/tern/ucx"
    printf '#!/bin/sh\necho "ok 1 - A.a"; echo "ok 2 - A.b # SKIP $CONFORMANCE_DEVICE"; echo "not ok 3 - A.c"; exit 1\n' \
        >"$tmp/source/test/common/gtest_tap.py"
    printf '#!/bin/sh\necho "ok 1 - B.a"\n' >"$tmp/source/test/tern/ucx/uct.sh"
    chmod +x "$tmp/source/test/common/gtest_tap.py" "$tmp/source/test/tern/ucx/uct.sh"
    echo "abs_top_srcdir = $tmp/source" >"$tmp/source/build/card/test/Makefile"
    first_run --steps tests --tests "$tmp/source/build/card/test"
    reports 'programs of a build' 1 '^tests\|verbs-conformance\|failed\|1 not ok: A.c' '^tests\|UCX.s UCT tests.*\|ok' \
        '^tests\|UCX.s UCP.*\|failed'
}

fault_tests() {
    more first_run --steps faults --faults --cable "sh -c '$SOFTHCA inject port-\$0'"
    more reports 'a kill, and a port that goes down' 0 '^faults\|a peer is killed\|ok' '^faults\|the cable .*\|ok'
    rm -rf "$report" && mkdir "$report"
    start "$tmp/output" "${hca[@]}" "$tools/tern-first-run" --output "$report" --steps order
    becomes grep -q 'writes, each byte' "$tmp/output"
    kill -TERM -- "-$pid"
    wait "$pid"
    check 'a signal leaves a report' grep -q 'ended early by a signal' "$report/first-run.json"
    reap_group "$pid"
    result $? 'and no process'
    pids=()
}

option_tests
order_tests
personality_tests
machine_tests
failure_tests
build_tests
fault_tests
nothing_left
finish
