#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# `tern-run --check` and `tern-run --explain`: each finding with its remedy, over both MPIs; counters while a program
# runs.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require ucx_info ucx_perftest cc
tern_run=$(dirname "$SOFTHCA")/tern-run
on_hca=("$tern_run" --soft-hca)
export UCX_WARN_UNUSED_ENV_VARS=n TMPDIR=$tmp/folders
mkdir "$TMPDIR"
unset LD_PRELOAD UCX_TLS UCX_PLUGIN_PATH "${!OMPI_MCA_@}" "${!UCX_IB_@}" "${!UCX_TERN_@}"

# says NAME STATUS PATTERN command...: the command ends with that status (or any), and a line of its output matches.
# No temporary folder is left.
says() {
    local name=$1 expected=$2 pattern=$3 status
    shift 3
    timeout -k 5 "$limit" "$@" >"$tmp/output" 2>&1 </dev/null
    status=$?
    [ "$expected" != any ] || expected=$status
    [ $status = "$expected" ] && grep -Eq -- "$pattern" "$tmp/output" && [ -z "$(ls -A "$TMPDIR")" ] &&
        { result 0 "$name"; return; }
    echo "status $status, expected $expected; wanted: $pattern; left: $(ls -A "$TMPDIR")" >>"$tmp/output"
    result 1 "$name" "$tmp/output"
}

# also NAME PATTERN: a line of the same output matches.
also() {
    grep -Eq -- "$2" "$tmp/output"
    result $? "$1" "$tmp/output"
}

# Another UCX than the one that the transport was built for.
cc -shared -fPIC -o "$tmp/other.so" -x c - <<'END' || { echo 'Bail out! cc cannot compile'; exit 1; }
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
    *major = 1;
    *minor = 12;
    *release = 7;
}
const char* ucp_get_version_string(void) { return "1.12.7"; }
END

# A filter of system calls like that of a container: COMMAND without userfaultfd and process_vm_readv.
cc -o "$tmp/filtered" -x c - <<'END' || { echo 'Bail out! cc cannot compile'; exit 1; }
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char** argv) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 77;
    execvp(argv[1], argv + 1);
    return 127;
}
END

# What keeps Tern from being used, as settings of the environment; `locked`: and a command in front.
down=(env SOFTHCA_FAULTS=port-down)
no_gid=(env SOFTHCA_LINK_LAYER=ethernet UCX_TERN_GID_INDEX=200)
locked=(env SOFTHCA_RULES=locked-memory=1 setpriv --bounding-set=-ipc_lock prlimit --memlock=65536:65536)
[ "$(id -u)" = 0 ] || locked=(env SOFTHCA_RULES=locked-memory=1 prlimit --memlock=65536:65536)

check_tests() {
    says 'check: all is good' 0 '^Tern can be used here\.$' "${on_hca[@]}" --check
    also 'check: what is gained' '^Gain between machines: long messages, .*; short messages of frequent senders, .*; receives that are posted early'
    also 'check: nothing is to be changed, but for limits of this machine' '^To change: '
    also 'check: reads' '^good +softhca0:1 +up to [0-9]+ RDMA reads at a time$'
    says "check: a site's settings" 0 '^good +site +counts for Tern: UCX_IB_SL=3$' \
        env UCX_IB_SL=3 UCX_IB_PKEY=0x7fff UCX_TERN_PKEY=auto UCX_IB_HOP_LIMIT=9 "${on_hca[@]}" --check
    also "check: a site's that does not count" '^note +site +does not count for Tern: UCX_IB_HOP_LIMIT=9$'
    says 'check: all is good' 0 '^Tern can be used here\.$' "${on_hca[@]}" --check
    also 'check: the library' "^good +library +$tern_library"
    also 'check: UCX, and which' '^good +UCX +1\.[0-9.]+, /.*libucp\.so'
    also 'check: the port' '^good +softhca0:1 +active, InfiniBand, [0-9]+ Gb/s, MTU [0-9]+, P_Key 0xffff, without GRH, lid 1'
    also 'check: inline' '^good +softhca0:1 +up to [0-9]+ bytes are sent inline$'
    also 'check: the order of bytes' '^good +softhca0 +promises the order of bytes'
    also 'check: XRC' '^good +softhca0 +XRC: messages can go direct'
    also 'check: paging' '^(good|note) +softhca0 +no on-demand paging; '
    also 'check: limits' '^(good|note) +ulimit -l '
    also 'check: the software HCA' '^good +software HCA +active$'
    says 'check: the order of bytes, of which mlx5 knows only when connected' 0 '^good +softhca0 +promises the order' \
        env SOFTHCA_PERSONALITY=mlx5 "${on_hca[@]}" --check
    says 'check: a device of another kind' 0 'promises no order of bytes' env SOFTHCA_PERSONALITY=rxe "${on_hca[@]}" --check
    also 'check: no XRC' '^note +softhca0 +no XRC'
    also 'check: less is gained' '^Gain between machines: long messages, by the cost model\.$'
    says 'check: a device without shared receive queues' 1 'ud_verbs works' \
        env SOFTHCA_PERSONALITY=irdma "${on_hca[@]}" --check
    says 'check: Ethernet' 0 'Ethernet.* GRH required, .*RoCE v2, IPv4' env SOFTHCA_LINK_LAYER=ethernet "${on_hca[@]}" --check
    says 'check: a program' 0 '^good +program +/bin/true is not linked with UCX' "${on_hca[@]}" --check /bin/true
    says 'check: a program of UCX' 0 '^good +program +.*ucx_info uses this UCX' "${on_hca[@]}" --check "$(command -v ucx_info)"

    if [ -e /sys/class/infiniband ]; then
        skip 'check: no device' 'there is one'
    else
        says 'check: no device' 1 '^WRONG +devices +libibverbs finds none' "$tern_run" --check
        also 'check: no device: what to do' '^ +-> .*container must be given /dev/infiniband'
    fi
    says 'check: a port that is down' 1 '^note +softhca0:1 +it is down' "${down[@]}" "${on_hca[@]}" --check
    also 'check: a port that is down: what to do' '-> check the cable'
    also 'check: and at the end' '^To change: .*check the cable and the switch'
    also 'check: and that nothing is gained' '^Gain between machines: nothing\.$'
    says 'check: the second port has no cable' 0 '^note +softhca0:2 +it is down' \
        env SOFTHCA_PORTS=2 SOFTHCA_FAULTS=port-down=softhca0:2 "${on_hca[@]}" --check
    also 'check: which is no fault' '-> nothing is needed if it has no cable'
    also 'check: and nothing to change' '^To change: ([^c]|c[^h])*\.$'
    says 'check: no such GID' 1 '^note +softhca0:1 +GID_INDEX 200 is not below' "${no_gid[@]}" "${on_hca[@]}" --check
    says 'check: too little memory may be locked' 1 '^note +softhca0 +not even 512 KiB' "${locked[@]}" "${on_hca[@]}" --check
    also 'check: too little memory: what to do' '-> raise the limit of locked memory'
    if "$tmp/filtered" true; then
        says 'check: a filter of system calls' 1 "^WRONG +software HCA +processes may not read each other's memory" \
            "$tmp/filtered" "${on_hca[@]}" --check
        also 'check: what the filter takes away too' '^note +userfaultfd +not available'
    else
        skip 'check: a filter of system calls' 'there are no filters here'
    fi
    says 'check: UCX_TLS' 1 '^WRONG +UCX_TLS +UCX_TLS=rc_v,self leaves tern out' env UCX_TLS=rc_v,self "${on_hca[@]}" --check
    for list in tern,self,tcp all ^sm ^ib,sm; do
        says "check: UCX_TLS=$list" 0 '^note +UCX_TLS +.*prefer other networks' env "UCX_TLS=$list" "${on_hca[@]}" --check
    done
    for list in tern,sm,self tern,self,cuda,mm ^ib,tcp; do
        says "check: UCX_TLS=$list" 0 "^good +UCX_TLS +.*${list/^/\\^}: Tern between machines, shared memory within one\$" \
            env "UCX_TLS=$list" "${on_hca[@]}" --check
    done
    for list in tern tern,self,cuda ^ib,tcp,sm; do
        says "check: UCX_TLS=$list" 0 "^good +UCX_TLS +.*${list/^/\\^}: Tern between machines and within one\$" \
            env "UCX_TLS=$list" "${on_hca[@]}" --check
    done
    says 'check: UCX_TLS of tern-run' 0 '^good +UCX_TLS +.*\(tern-run\): .*shared memory within one$' \
        "$SOFTHCA" run -- "$tern_run" --check
    says 'check: and on the software HCA' 0 '^good +UCX_TLS +.*\(tern-run\): .*and within one$' "${on_hca[@]}" --check
    says 'check: all but Tern' 1 '^WRONG +UCX_TLS' env UCX_TLS=^tern "${on_hca[@]}" --check
    says 'check: UCX_NET_DEVICES' 1 '-> change UCX_NET_DEVICES' env UCX_NET_DEVICES=mlx5_0:1 "${on_hca[@]}" --check
    says 'check: another UCX' 1 '^WRONG +UCX +.*installed for UCX .* this is UCX 1\.12\.7' \
        env LD_PRELOAD="$tmp/other.so" "$tern_run" --check
    if command -v ompi_info >/dev/null; then
        says 'check: Open MPI without UCX' 1 '^WRONG +Open MPI +OMPI_MCA_pml=ob1' env OMPI_MCA_pml=ob1 "${on_hca[@]}" --check
        says 'check: Open MPI' 0 '^good +Open MPI +.*uses this UCX' "${on_hca[@]}" --check
    else
        skip 'check: Open MPI' 'it is not installed'
    fi
    mkdir "$tmp/mpich"
    for modules in ofi,ucx ucx,ofi ofi; do
        printf '#!/bin/sh\necho "MPICH Device:    \tch4:%s"\n' $modules >"$tmp/mpich/mpichversion"
        chmod +x "$tmp/mpich/mpichversion"
        wanted='^good +MPICH +ch4:'$modules
        [ $modules != ofi ] || wanted='^note +MPICH +its device is ch4:ofi: it cannot'
        says "check: MPICH with $modules" 0 "$wanted" env PATH="$tmp/mpich:$PATH" "${on_hca[@]}" --check
        wanted='ucx'
        [ $modules != ofi ] || wanted='unset'
        says "MPICH with $modules gets its module" 0 "^$wanted\$" env PATH="$tmp/mpich:$PATH" "${on_hca[@]}" \
            sh -c 'echo "${MPIR_CVAR_CH4_NETMOD-unset}"'
    done
    printf '#!/bin/sh\necho "MPICH Device: ch4:ofi,ucx"\n' >"$tmp/mpich/mpichversion"
    says 'check: MPICH with another module' 1 '^WRONG +MPICH +MPIR_CVAR_CH4_NETMOD=ofi leaves UCX out' \
        env PATH="$tmp/mpich:$PATH" MPIR_CVAR_CH4_NETMOD=ofi "${on_hca[@]}" --check
    says 'check: no such option' 2 "no such option '--checks'" "$tern_run" --checks
}

# Why Tern was not used. `ucx_info -w -e` makes a worker and an endpoint, as a program does.
unused_tests() {
    local info=("${on_hca[@]}" --explain ucx_info -u t -w -e)
    says 'explain: UCX_TLS leaves Tern out' 0 'not used by ucx_info.*: UCX_TLS=sm,self leaves tern out; unset it' \
        env UCX_TLS=sm,self "${info[@]}"
    says 'explain: a port that is down' any 'not used by .*: softhca0:1: it is down; check the cable' "${down[@]}" "${info[@]}"
    says 'explain: no such GID' any 'not used by .*: softhca0:1: GID_INDEX 200 is not below .*; unset UCX_TERN_GID_INDEX' "${no_gid[@]}" "${info[@]}"
    says 'explain: too little memory' any 'not used by .*: softhca0: not even 512 KiB can be registered; raise the limit' \
        "${locked[@]}" "${info[@]}"
    says 'explain: UCX_NET_DEVICES' any 'UCX_NET_DEVICES=mlx5_0:1 names no port that Tern can use' \
        env UCX_NET_DEVICES=mlx5_0:1 "${info[@]}"
    says 'explain: another UCX' 0 'not used by .*: it is installed for UCX .*, and this is UCX 1\.12\.7; build it' \
        "${on_hca[@]}" --explain env LD_PRELOAD="$tmp/other.so:$tern_library" ucx_info -v
    [ -e /sys/class/infiniband ] ||
        says 'explain: no device' any 'libibverbs finds no device; tern-run --check' "$tern_run" --explain ucx_info -u t -w -e
    says 'explain: no program of UCX' 0 'not used: no process used UCX; .*mpirun tern-run COMMAND' "$tern_run" --explain true
    if ! grep -q libuct_tern <<<"$("$tern_run" env | grep LD_PRELOAD)"; then
        skip 'explain: not loaded' 'a plug-in of UCX is loaded by UCX only'
    elif echo 'int main(void) { return 0; }' | cc -static -o "$tmp/static" -x c - 2>/dev/null; then
        says 'explain: not loaded' 0 'not used: the library was not loaded at all; a static' "$tern_run" --explain "$tmp/static"
    else
        skip 'explain: not loaded' 'there is no static libc'
    fi
    says 'explain: the status of the command' 7 'no process used UCX before the command ended with status 7; its own messages may say' \
        "$tern_run" --explain sh -c 'exit 7'
    says 'explain: no such command' 127 'no-such-command: No such file' "$tern_run" --explain no-such-command
    says 'explain: nothing to run' 2 'no command to run' "$tern_run" --explain
}

# A signal ends the command, and the folder goes.
signal_test() {
    local status
    start "$tmp/signalled" "$tern_run" --explain sh -c "echo \$\$ >$tmp/pid; exec sleep 1000"
    becomes test -s "$tmp/pid"
    kill -TERM "$(ps -o ppid= "$(cat "$tmp/pid")" | tr -d ' ')"
    wait "$pid"
    status=$?
    [ $status = 143 ] && ! kill -0 "$(cat "$tmp/pid")" 2>/dev/null && [ -z "$(ls -A "$TMPDIR")" ]
    result $? "explain: a signal goes to the command (status $status)" "$tmp/signalled"
}

# Records as processes leave them: what no small job shows.
record() { # rank event fields
    echo "{\"event\":\"$2\",\"host\":\"a\",\"pid\":$((100 + $1)),\"rank\":\"$1\",\"rank_by\":\"${by-PMI_RANK}\"$3}" \
        >>"$tmp/records/a.$((100 + $1)).json"
}
records() { # transports
    local rank
    rm -rf "$tmp/records"
    mkdir "$tmp/records"
    for rank in 0 1 2 3 4 5 6 7 8; do
        record $rank devices ",\"count\":1,\"tls\":\"$1\""
        record $rank interface ",\"id\":\"$rank\",\"program\":\"a.out\""
    done
}

record_tests() {
    local rank peer report=("$tern_run" --explain="$tmp/records")
    records tern,self
    for rank in 0 1 2 3 4 5 6 7 8; do
        for peer in 0 1 2 3 4 5 6 7 8; do
            [ $peer = $rank ] || record $rank peer ",\"device\":\"d:1\",\"peer\":\"$peer\",\"requests\":$((10 * rank + peer)),\"read\":2,\"bytes\":2048"
        done
        [ $rank = 3 ] || record $rank counters ',"counters":{"sent_hot":5,"pin_failures":1},"reasons":{"x":2}'
    done
    says 'explain: of many ranks, the busiest pairs' 0 '^  8 +7 +d:1 +87 ' "${report[@]}"
    also 'explain: and how many there are' '^  \.\.\. and 64 of 72 directions'
    also 'explain: sums' '^  short messages +40 into blocks'
    also 'explain: what fell back, and what to do' '^  fell back +8 registrations failed.*ulimit -l'
    also 'explain: a rank that was killed' 'rank 3 has left no counters; it was killed'
    records tern,tcp,self
    for rank in 0 1 2 3 4 5 6 7 8; do record $rank counters ',"counters":{},"reasons":{}'; done
    says 'explain: outbid' 0 'not used by ranks 0-8: UCX_TLS=tern,tcp,self lets UCX prefer another transport' "${report[@]}"
    by=PMIX_RANK records tern,self,sm
    for rank in 0 1; do
        by=PMIX_RANK record $rank counters ',"counters":{},"reasons":{}'
        by=PMIX_RANK record $rank lanes ',"text":"  ep_cfg[0]: tag(self/memory0)"'
    done
    by=PMIX_RANK record 0 lanes ',"text":"  ep_cfg[1]: tag(sysv/memory)"'
    by=PMIX_RANK record 1 lanes ',"text":"intra-node cfg#2 tag(sysv/memory)"'
    says 'explain: one node' 0 'not used by ranks 0-1: .*UCX uses shared memory within one; tern-run --only' "${report[@]}"
    also 'explain: the lanes in its place' '^  lanes +ranks 0-1: tag\(sysv/memory\)$'
    result "$(! grep -q self/ "$tmp/output"; echo $?)" 'explain: no lanes to oneself' "$tmp/output"
    records tern,self
    for rank in 0 1 2 5; do record $rank counters ',"counters":{},"reasons":{}'; done
    says "explain: MPICH's shared memory" 0 'not used by ranks 0-2, 5: .*; tern-run --only' "${report[@]}"
    echo '{"event":"devices","host":"a"' >>"$tmp/records/a.100.json"
    says 'explain: half a line is left out' 0 'not used by ranks 0-2, 5' "${report[@]}"
    says 'explain: no such folder' 1 'no-such-folder' "$tern_run" --explain="$tmp/no-such-folder"
}

# mpi_tests openmpi|mpich
mpi_tests() {
    local mpi=$1 run=("mpirun.$1" -np 2) program=$tmp/talk.$1
    if ! command -v "mpirun.$mpi" "mpicc.$mpi" >/dev/null; then
        skip "explain: $mpi" 'it is not installed'
        return
    fi
    [ "$mpi" = mpich ] || run+=(--oversubscribe)
    [ "$mpi" = mpich ] || [ "$(id -u)" != 0 ] || run+=(--allow-run-as-root)
    "mpicc.$mpi" -o "$program" "$srcdir/tern/mpi/talk.c" || { echo 'Bail out! talk.c does not compile'; exit 1; }
    says "$mpi: pairs of ranks" 0 '^  0 +1 +softhca0:1 +[0-9]+ +in blocks .* [0-9.]+ MiB$' \
        "${on_hca[@]}" --explain "${run[@]}" "$program"
    also "$mpi: the other direction" '^  1 +0 +softhca0:1 +[0-9]+ +in blocks'
    also "$mpi: short messages" '^  short messages +[1-9][0-9]* into blocks'
    also "$mpi: schemes" '^  long messages +travelled so because: [0-9]+ "'
    also "$mpi: registrations" '^  registrations +[0-9]+ of buffers'
    [ "$(grep -c 'was not used' "$tmp/output")" = 0 ]
    result $? "$mpi: nobody was left out" "$tmp/output"
    says "$mpi: behind the launcher, rank 0 reports" 0 '^  0 +peer1 +softhca0:1' "${run[@]}" "${on_hca[@]}" --explain "$program"
    [ "$(grep -c 'Tern carried' "$tmp/output")" = 1 ]
    result $? "$mpi: and nobody else" "$tmp/output"
    says "$mpi: behind the launcher, into a folder" 0 '^talked$' \
        "${run[@]}" "${on_hca[@]}" --explain="$tmp/$mpi-records" "$program"
    says "$mpi: and the report of it" 0 '^  0 +1 +softhca0:1 +[0-9]+ +in blocks' "$tern_run" --explain="$tmp/$mpi-records"
    says "$mpi: what others may have carried" 0 '^  others +UCX_TLS=tern,tcp,self|tern,tcp,self lets UCX prefer' \
        env UCX_TLS=tern,tcp,self "${on_hca[@]}" --explain "${run[@]}" "$program"
    [ "$mpi" = mpich ] ||
        says 'openmpi: without UCX' 0 'not used: no process used UCX; .*--mca pml ucx' \
            "${on_hca[@]}" --explain "${run[@]}" --mca pml ob1 --mca btl self,tcp "$program"
}

# The counters of a job that does not end.
interval_tests() {
    local tick file="" status=1 first="" now
    new_port
    export UCX_TLS=tern,self UCX_NET_DEVICES=$device UCX_TERN_COUNTERS=$tmp/counters UCX_TERN_COUNTERS_INTERVAL=10ms
    start "$tmp/server" "${on_hca[@]}" ucx_perftest -p "$port"
    wait_for_server "$pid"
    start "$tmp/client" "${on_hca[@]}" ucx_perftest -p "$port" -t tag_lat -n 1000000000 127.0.0.1
    for ((tick = 0; tick < limit * 20; tick++)); do
        file=$(ls "$tmp"/counters.*.running 2>/dev/null | sed 1q)
        now=$(cat "$file" 2>/dev/null)
        if [[ $now == '{"pid":'*'}' ]]; then
            [ -z "$first" ] || [ "$first" = "$now" ] || { status=0; break; }
            first=$now
        fi
        sleep 0.05
    done
    result $status 'counters are replaced while the job runs' "$tmp/client"
    for pid in "${pids[@]}"; do kill -KILL -- "-$pid"; wait "$pid"; done 2>/dev/null
    pids=()
    rm -f "$tmp"/counters*
    new_port
    pair 'a job that ends' "${on_hca[@]}" ucx_perftest -p "$port" ::: \
        "${on_hca[@]}" ucx_perftest -p "$port" -t tag_lat -n 100000 127.0.0.1
    [ "$(wc -l <"$tmp/counters")" -ge 2 ] && ! ls "$tmp"/counters.*.running >/dev/null 2>&1
    result $? 'has its counters in one file at its end' "$tmp/counters"
    unset UCX_TLS UCX_NET_DEVICES UCX_TERN_COUNTERS UCX_TERN_COUNTERS_INTERVAL
}

check_tests
unused_tests
signal_test
record_tests
mpi_tests openmpi
mpi_tests mpich
interval_tests
finish
