#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs a command in a guest that has a real rdma_rxe device, rxe0. See docs/rxe-vm.md.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
own_failure=125
died=123
timed_out=124

usage() {
    cat <<'END'
Usage: contrib/rxe-vm/run.sh [OPTION...] -- COMMAND [ARGUMENT...]

Boots Debian's kernel in QEMU on this machine's own file system, which the guest sees but cannot change, and runs
COMMAND there with an rdma_rxe device, rxe0.

  --vms N         1 or 2 guests; 2 share a network and both run COMMAND, with the lines of the second marked "rank 1: "
  --timeout S     seconds for all of it, the boot included (default: 300)
  --results DIR   a folder that the guest can write to, as $RXE_RESULTS
  --env NAME      passes on a variable of the environment, or all that begin with PRE: --env PRE*
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
        --env) names+=("$2") ;;
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
command -v rdma >/dev/null || die "the command rdma is missing: install iproute2"
available=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
[ "$available" -ge $((vms * memory)) ] ||
    die "not enough memory: $vms guest(s) of $memory MiB, but only $available MiB are available; see --memory"

tmp=$(mktemp -d)
guests=()
outputs=()

clean_up() {
    local pid
    for pid in ${guests[@]+"${guests[@]}"}; do
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
[ -n "$results" ] || { results=$tmp/results; mkdir "$results"; }
merge=0
[ ! /proc/self/fd/1 -ef /proc/self/fd/2 ] || merge=1 # one stream keeps its order

# The script that the guest runs: environment, working folder, command.
command_script() { # rank, command...
    local rank=$1 name
    shift
    for name in "${names[@]}"; do
        case $name in
            *\*) compgen -e "${name%\*}" || : ;;
            *) echo "$name" ;;
        esac
    done | while read -r name; do
        [ -z "${!name+set}" ] || printf 'export %s=%q\n' "$name" "${!name}"
    done
    echo ". /run/rxe-vm/config"
    echo "export RXE_RANK RXE_SIZE RXE_ADDRESS RXE_PEER RXE_RESULTS=/run/rxe-vm/results TERM=dumb"
    printf 'cd %q || exit %s\n' "$PWD" $own_failure
    echo "ulimit -l unlimited"
    printf 'exec'
    printf ' %q' "$@"
    echo
}

# Shows what a guest writes to a FIFO.
show() { # rank fifo
    if [ "$1" = 0 ]; then
        exec cat "$2"
    fi
    exec sed -u "s/^/rank $1: /" "$2"
}

start() { # rank command...
    local rank=$1 folder=$tmp/$1 device=dummy0 network=() errors=null,id=errors cpus=2
    mkdir "$folder"
    mkfifo "$folder/output" "$folder/errors"
    if [ "$vms" = 2 ]; then
        device=eth0
        cpus=1
        network=(-netdev "dgram,id=net,local.type=unix,local.path=$tmp/net.$rank,remote.type=unix,remote.path=$tmp/net.$((1 - rank))"
            -device "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:12:34:0$rank")
    fi
    {
        echo "RXE_RANK=$rank RXE_SIZE=$vms RXE_ADDRESS=10.1.1.$((rank + 1)) device=$device merge=$merge"
        [ "$vms" = 1 ] || echo "RXE_PEER=10.1.1.$((2 - rank))"
    } >"$folder/config"
    command_script "$@" >"$folder/command"
    install -m 755 "$here/init" "$folder/init"
    # The kernel takes several archives, one behind the other.
    {
        cat "$kernel/initramfs.cpio"
        cd "$folder" && printf '%s\n' init config command | busybox cpio -o -H newc 2>/dev/null
    } >"$folder/initramfs"

    show "$rank" "$folder/output" &
    outputs+=($!)
    if [ $merge = 0 ]; then
        show "$rank" "$folder/errors" >&2 &
        outputs+=($!)
        errors=file,id=errors,path=$folder/errors
    fi
    # Without erms=off, a copy of memory is 80 times slower. KVM is no alternative where this is a guest itself.
    setpriv --pdeathsig KILL qemu-system-x86_64 -accel tcg,thread=multi -cpu max,la57=off,erms=off,fsrm=off \
        -M q35 -m "$memory" -smp $cpus -nodefaults -no-user-config -no-reboot -display none \
        -kernel "$kernel/vmlinux" -initrd "$folder/initramfs" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check audit=0 selinux=0 apparmor=0" \
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

for ((rank = 0; rank < vms; rank++)); do
    start "$rank" "$@"
done

# What has become of a guest: its command's status, or empty while it runs.
status_of() { # rank
    local status
    status=$(sed -n 's/^exit //p' "$tmp/$1/status" 2>/dev/null) || :
    if [ -z "$status" ] && ! kill -0 "${guests[$1]}" 2>/dev/null; then
        status=$died
        echo "run.sh: guest $1 has died$(grep -q started "$tmp/$1/status" 2>/dev/null || echo " before it ran the command")" >&2
        sed 's/\x1b[[(][0-9;?]*[A-Za-z]//g; s/\r//g' "$tmp/$1/qemu" "$tmp/$1/console" 2>/dev/null | tail -n 30 >&2
    fi
    echo "$status"
}

# Ends when both have, or soon after the first that fails: the other may well wait for it.
first=
statuses=()
deadline=$limit
while :; do
    done=0
    for ((rank = 0; rank < vms; rank++)); do
        [ -n "${statuses[$rank]:-}" ] || statuses[$rank]=$(status_of "$rank")
        [ -n "${statuses[$rank]}" ] || continue
        done=$((done + 1))
        if [ "${statuses[$rank]}" != 0 ] && [ -z "$first" ]; then
            first=${statuses[$rank]}
            deadline=$((SECONDS + 10 < limit ? SECONDS + 10 : limit))
        fi
    done
    [ $done -lt "$vms" ] || break
    if [ "$SECONDS" -ge "$deadline" ]; then
        [ -n "$first" ] || {
            first=$timed_out
            echo "run.sh: not done after $limit seconds" >&2
        }
        break
    fi
    sleep 0.1
done
for pid in "${guests[@]}"; do
    kill -TERM "$pid" 2>/dev/null || :
    wait "$pid" 2>/dev/null || :
done
wait "${outputs[@]}" || :
exit "${first:-0}"
