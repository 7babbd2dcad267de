#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: contrib/rxe-vm/kernel.sh FOLDER
#
# Gets Debian's kernel package and prints a folder below FOLDER with what a guest boots: vmlinux, and initramfs.cpio
# with busybox and the modules of rdma_rxe. Does nothing if they are there and Debian has no newer kernel.
set -euo pipefail

# crc32_generic is nobody's dependency, but rxe does not work without it.
modules=(virtio_pci virtio_console 9pnet_virtio 9p overlay virtio_net dummy crc32_generic rdma_rxe ib_uverbs rdma_ucm
    ib_umad)
busybox=/bin/busybox

die() {
    echo "$0: $*" >&2
    exit 1
}

need() { # file package
    [ -x "$1" ] || die "$1 is missing: install $2, as contrib/packages.txt says"
}

# The package and version that linux-image-amd64 stands for; nothing if apt knows of none.
wanted_kernel() {
    apt-cache show --no-all-versions linux-image-amd64 2>/dev/null |
        sed -n 's/^Depends: \(linux-image-[^ ]*\) (= \([^)]*\)).*/\1=\2/p'
}

# The kernel that the bzImage unpacks at boot: unpacked here, it starts seconds earlier.
extract_vmlinux() { # bzImage vmlinux
    local setup start length
    setup=$(od -An -tu1 -j 497 -N 1 "$1")
    start=$(((setup + 1) * 512 + $(od -An -tu4 -j 584 -N 4 "$1")))
    length=$(od -An -tu4 -j 588 -N 4 "$1")
    # The payload ends in four bytes that are not xz's: the size of what it unpacks to.
    head -c $((start + length - 4)) "$1" | tail -c +$((start + 1)) | xz -dc >"$2"
}

make_initramfs() { # folder with lib/modules, kernel release, initramfs
    local root=$1/initramfs module
    mkdir -p "$root"/{bin,dev,host,mod,new,overlay,proc,sys}
    cp "$busybox" "$root/bin/busybox"
    /sbin/depmod -b "$1" "$2"
    for module in "${modules[@]}"; do
        /sbin/modprobe -d "$1" -S "$2" --show-depends "$module" ||
            die "$2 has no module $module"
    done | awk '/^insmod/ && !seen[$2]++ { print $2 }' >"$1/modules"
    while read -r module; do
        cp "$module" "$root/mod/"
        echo "${module##*/}" >>"$root/mod/order"
    done <"$1/modules"
    (cd "$root" && find . | "$busybox" cpio -o -H newc 2>/dev/null) >"$3"
}

[ $# = 1 ] || die "usage: kernel.sh FOLDER"
mkdir -p "$1"
cache=$(realpath "$1")
exec 9>"$cache/lock"
flock 9

wanted=$(wanted_kernel)
if [ -z "$wanted" ]; then
    # Without apt's lists, an older kernel is better than none.
    cat "$cache/current" 2>/dev/null || die "apt knows of no package linux-image-amd64: run apt-get update first"
    exit
fi
# Whatever else goes into the initramfs is a reason to make it anew, too.
key=$(cat "$0" "$busybox" 2>/dev/null | cksum)
folder=$cache/${wanted#*=}-${key%% *}
if [ ! -e "$folder/initramfs.cpio" ]; then
    need "$busybox" busybox-static
    ! ldd "$busybox" >/dev/null 2>&1 || die "$busybox needs libraries: install busybox-static in its place"
    need /sbin/modprobe kmod
    need "$(command -v xz || echo xz)" xz-utils
    work=$(mktemp -d "$cache/work.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    (cd "$work" && apt-get -q -o APT::Sandbox::User=root download "$wanted") >"$work/log" 2>&1 ||
        die "cannot download $wanted (is apt-get update due?): $(tail -n 3 "$work/log")"
    dpkg -x "$work"/linux-image-*.deb "$work/k"
    release=$(basename "$work"/k/lib/modules/*)
    mkdir -p "$work/folder"
    extract_vmlinux "$work/k/boot/vmlinuz-$release" "$work/folder/vmlinux"
    make_initramfs "$work/k" "$release" "$work/folder/initramfs.cpio"
    # A guest that is just starting may still read an older one.
    find "$cache" -mindepth 2 -maxdepth 2 -name vmlinux -mmin +600 -printf '%h\0' | xargs -0r rm -rf
    rm -rf "$folder"
    mv "$work/folder" "$folder"
fi
echo "$folder" | tee "$cache/current"
