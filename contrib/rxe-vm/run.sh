#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs a command in a guest that has a real rdma_rxe device, rxe0. See docs/tern/devices.md.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
died=123
timed_out=124
own_failure=125

usage() {
    cat <<'END'
Usage: contrib/rxe-vm/run.sh [OPTION...] -- COMMAND [ARGUMENT...]

Boots Debian's kernel in QEMU on this machine's own file system, which the guest sees but cannot change, and runs
COMMAND there with an rdma_rxe device, rxe0.

  --vms N         1 or 2 guests; 2 share a network and both run COMMAND, with the lines of the second marked "rank 1: "
  --timeout S     seconds for all of it, the boot included (default: 300)
  --results DIR   a folder that the guest can write to, as $RXE_RESULTS
  --env NAME      passes on a variable of the environment; NAME* is all that begin with NAME
                  (always: PATH, HOME, LANG, RXE_*, UCX_*, TERN_*, SOFTHCA*, GTEST_*)
  --memory MIB    for each guest (default: 3072)
  --cache DIR     keeps the kernel (default: $RXE_VM_CACHE or build/rxe-vm)

The guest sets RXE_RANK, RXE_SIZE, RXE_ADDRESS and, with two guests, RXE_PEER.
Exit status: COMMAND's (the first that is not 0); 123 if the guest dies, 124 after the time limit, 125 if it cannot run.
END
}

die() {
    echo "run.sh: $*" >&2
    exit $own_failure
}

vms=1
limit=300
results=
memory=3072
cache=${RXE_VM_CACHE:-$here/../../build/rxe-vm}
names=(PATH HOME LANG 'RXE_*' 'UCX_*' 'TERN_*' 'SOFTHCA*' 'GTEST_*')
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case $1 in
        --help) usage; exit ;;
        --vms | --timeout | --results | --env | --memory | --cache) [ $# -gt 1 ] || die "$1 needs a value" ;;
        *) die "what is $1? See --help" ;;
    esac
    case $1 in
        --vms) vms=$2 ;;
        --timeout) limit=$2 ;;
        --results) results=$2 ;;
        --env)
            [[ $2 =~ ^[A-Za-z_][A-Za-z0-9_]*\*?$ ]] || die "--env $2: no name of a variable"
            names+=("$2")
            ;;
        --memory) memory=$2 ;;
        --cache) cache=$2 ;;
    esac
    shift 2
done
[ $# -gt 1 ] || die "no command: see --help"
shift
[[ $vms =~ ^[12]$ ]] || die "--vms $vms: 1 or 2"
[[ $limit =~ ^[1-9][0-9]*$ ]] || die "--timeout $limit: a number of seconds"
[[ $memory =~ ^[1-9][0-9]*$ ]] || die "--memory $memory: a number of MiB"
[ -z "$results" ] || { [ -d "$results" ] && [ -w "$results" ]; } || die "--results $results: no folder to write to"

command -v qemu-system-x86_64 >/dev/null || die "QEMU is missing: install qemu-system-x86"
command -v busybox >/dev/null || die "busybox is missing: install busybox-static"
command -v rdma >/dev/null || die "the command rdma is missing: install iproute2"
available=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
[ "$available" -ge $((vms * memory)) ] ||
    die "not enough memory: $vms guest(s) of $memory MiB, but only $available MiB are available; see --memory"

unset RXE_RANK RXE_SIZE RXE_ADDRESS RXE_PEER RXE_RESULTS
tmp=$(mktemp -d)
guests=()  # process ids, by rank
readers=() # of the processes that pass on output
fifos=()   # that they read from

# shellcheck disable=SC2317 # called by the trap
clean_up() {
    local pid
    for pid in ${guests[@]+"${guests[@]}"} ${readers[@]+"${readers[@]}"}; do
        kill -KILL "$pid" 2>/dev/null || :
        wait "$pid" 2>/dev/null || :
    done
    rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

kernel=$("$here/kernel.sh" "$cache") || die "no kernel for the guest"
SECONDS=0
[ -n "$results" ] || { results=$tmp/results; mkdir "$results"; }
merge=0
[ ! /proc/self/fd/1 -ef /proc/self/fd/2 ] || merge=1 # one stream keeps its order

# Prints the script that the guest runs: environment, working folder, command.
command_script() { # command...
    local name
    for name in "${names[@]}"; do
        compgen -e -X "!$name" || :
    done | while read -r name; do
        printf 'export %s=%q\n' "$name" "${!name}"
    done
    echo ". /run/rxe-vm/config"
    echo "ulimit -l unlimited"
    printf 'cd %q || exit %s\n' "$PWD" $own_failure
    printf 'exec --'
    printf ' %q' "$@"
    echo
}

# pass_on RANK FIFO: what a guest writes.
pass_on() {
    fifos+=("$2")
    if [ "$1" = 0 ]; then
        cat "$2" &
    else
        sed -u "s/^/rank $1: /" "$2" &
    fi
    readers+=($!)
}

start() { # rank command...
    local rank=$1 folder=$tmp/$1 device=dummy0 cpus=2 network=() errors=null,id=errors
    shift
    mkdir "$folder"
    mkfifo "$folder/output" "$folder/errors"
    {
        echo "export RXE_RANK=$rank RXE_SIZE=$vms RXE_ADDRESS=10.1.1.$((rank + 1)) RXE_RESULTS=/run/rxe-vm/results"
        [ "$vms" = 1 ] || echo "export RXE_PEER=10.1.1.$((2 - rank))"
    } >"$folder/config"
    if [ "$vms" = 2 ]; then
        device=eth0
        # One processor, but room for a second one: without it, QEMU emulates locked instructions as plain accesses,
        # without a barrier. The guest's virtio drivers need the barrier because QEMU's other threads use the same
        # queues. Without it, a guest or QEMU misses that a queue has something new, and the queue stops for ever.
        cpus=1,maxcpus=2
        network=(-netdev "dgram,id=net,local.type=unix,local.path=$tmp/net$rank,remote.type=unix,remote.path=$tmp/net$((1 - rank))"
            -device "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:12:34:0$rank")
    fi
    command_script "$@" >"$folder/command"
    install -m 755 "$here/init" "$folder/init"
    # The kernel takes several archives, one behind the other.
    {
        cat "$kernel/initramfs.cpio"
        (cd "$folder" && printf '%s\n' init config command | busybox cpio -o -H newc 2>/dev/null)
    } >"$folder/initramfs"

    pass_on "$rank" "$folder/output"
    if [ $merge = 0 ]; then
        pass_on "$rank" "$folder/errors" >&2
        errors=file,id=errors,path=$folder/errors
    fi
    # Without erms=off, a copy of memory takes 80 times as long. An oops ends the guest: what comes after is worthless.
    setpriv --pdeathsig KILL qemu-system-x86_64 -accel tcg,thread=multi -cpu max,la57=off,erms=off,fsrm=off \
        -M q35 -m "$memory" -smp "$cpus" -nodefaults -no-user-config -no-reboot -display none \
        -kernel "$kernel/vmlinux" -initrd "$folder/initramfs" \
        -append "console=ttyS0 quiet oops=panic panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check audit=0 \
apparmor=0 rxe.device=$device rxe.merge=$merge" \
        -chardev "file,id=console,path=$folder/console" -serial chardev:console \
        -device virtio-serial-pci \
        -chardev "file,id=output,path=$folder/output" -device virtserialport,nr=1,chardev=output \
        -chardev "$errors" -device virtserialport,nr=2,chardev=errors \
        -chardev "file,id=status,path=$folder/status" -device virtserialport,nr=3,chardev=status \
        -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=host,mount_tag=host \
        -fsdev "local,id=results,path=${results//,/,,},security_model=none,multidevs=remap" \
        -device virtio-9p-pci,fsdev=results,mount_tag=results \
        ${network[@]+"${network[@]}"} </dev/null >"$folder/qemu" 2>&1 &
    guests+=($!)
}

# Sets `started` and `status` to what the guest has written of its command.
look() { # rank
    local word value
    started=no status=
    [ -e "$tmp/$1/status" ] || return 0
    while read -r word value; do
        started=yes
        [ "$word" != exit ] || status=$value
    done <"$tmp/$1/status"
}

# The end of a console, or all since the kernel said what is wrong: the call trace after it has any length.
end_of_console() { # rank
    cat "$tmp/$1/qemu" "$tmp/$1/console" 2>/dev/null |
        sed 's/\x1b[[(][0-9;?]*[A-Za-z]//g; s/\x1bc//g; s/\r//g; s/^/console: /' |
        awk -v shown=40 '
            { line[NR] = $0 }
            /BUG: |Oops: |Kernel panic/ && !wrong { wrong = NR }
            END {
                first = NR - shown + 1
                if (wrong && wrong < first) first = wrong
                for (i = first; i <= NR; i++) if (i in line) print line[i]
            }'
}

complain() { # rank text
    echo "run.sh: guest $1 $2" >&2
    end_of_console "$1" >&2
}

# Sets `result`. Waits until every guest is done, or a little longer than the first one that fails: another may well
# wait for it in vain.
watch() {
    local rank statuses=() started status alive left grace=10 deadline=$limit
    result=0
    while :; do
        left=0
        for ((rank = 0; rank < vms; rank++)); do
            [ -z "${statuses[rank]:-}" ] || continue
            alive=yes
            kill -0 "${guests[rank]}" 2>/dev/null || alive=no
            look "$rank"
            if [ -z "$status" ] && [ "$alive" = no ]; then
                status=$died
                [ "$started" = yes ] || complain "$rank" "never came to run the command"
                [ "$started" = no ] || complain "$rank" "has died"
            fi
            statuses[rank]=$status
            if [ -z "$status" ]; then
                left=$((left + 1))
            elif [ "$status" != 0 ] && [ "$result" = 0 ]; then
                result=$status
                [ $((SECONDS + grace)) -ge "$limit" ] || deadline=$((SECONDS + grace))
            fi
        done
        if [ $left = 0 ] || [ "$SECONDS" -ge "$deadline" ]; then
            break
        fi
        sleep 0.1
    done
    if [ $left -gt 0 ] && [ "$result" = 0 ]; then
        result=$timed_out
        for ((rank = 0; rank < vms; rank++)); do
            look "$rank"
            [ "$started" = yes ] || complain "$rank" "never came to run the command"
        done
        echo "run.sh: not done after $limit seconds" >&2
    fi
}

for ((rank = 0; rank < vms; rank++)); do
    start "$rank" "$@"
done
watch
for pid in "${guests[@]}"; do
    kill -TERM "$pid" 2>/dev/null || :
    wait "$pid" 2>/dev/null || :
done
for i in "${!readers[@]}"; do
    # A QEMU that never opened the FIFO leaves its reader waiting for a writer.
    while kill -0 "${readers[i]}" 2>/dev/null; do
        : <>"${fifos[i]}"
        sleep 0.05
    done
done
exit "$result"
