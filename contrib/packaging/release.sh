#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Usage: contrib/packaging/release.sh RELEASE FOLDER
#
# Makes Debian packages of this checkout in FOLDER for any release of Debian, for example trixie, in a root that
# mmdebstrap makes and that goes away in the end. UCX's private headers come from the source package of that release's
# UCX, or from UCX_SRC=FOLDER, a source tree of it. RELEASE_ROOT=FOLDER keeps the root, or uses the one that is there.
# Needs root.
usage() {
    sed -n '/^# Usage/,/^[^#]/ s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
[ $# = 2 ] || usage
release=$1
folder=$(realpath -m "$2")
headers=${UCX_SRC:+$(realpath "$UCX_SRC")}
kept=${RELEASE_ROOT:+$(realpath -m "$RELEASE_ROOT")}
. "$(dirname "$0")/../common.sh"

command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: install it"
[ "$(id -u)" = 0 ] || die "this needs root"
tmp=$(mktemp -d)
trap 'rm -rf --one-file-system "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
root=${kept:-$tmp/root}
[ -d "$root/usr" ] || mmdebstrap --quiet --variant=minbase \
    --include="$(wanted_packages build | paste -sd ,),build-essential,debhelper,dh-python,gfortran" "$release" "$root"

# What git knows of the working tree. Nothing of it is written to, and nothing but packages comes out.
mkdir -p "$tmp/source" "$folder"
git ls-files -z | xargs -0 sh -c 'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' sh |
    tar -c --null -T - | tar -x -C "$tmp/source"
# shellcheck disable=SC2016 # for the shell in the namespace
unshare --mount --pid --fork --kill-child sh -euc '
    mkdir -p "$0/source" "$0/packages" "$0/ucx-source"
    mount --bind "$1/source" "$0/source"
    mount --bind "$2" "$0/packages"
    [ -z "$3" ] || mount --bind -o ro "$3" "$0/ucx-source"
    cp /etc/resolv.conf "$0/etc/resolv.conf"
    cd "$0"
    mount -t proc proc proc
    mount --rbind /dev dev
    mount -t tmpfs -o mode=1777 tmpfs tmp
    exec chroot . bash -euo pipefail -c "
        cd /source
        export LC_ALL=C.UTF-8 UCX_SRC=${3:+/ucx-source}
        contrib/fetch-ucx-headers.sh
        autoreconf -i
        mkdir -p build/package
        cd build/package
        ../../configure --quiet
        ../../contrib/packaging/deb.sh . /tmp/packages
        find /tmp/packages -maxdepth 1 -type f -exec cp {} /packages/ \;"' "$root" "$tmp" "$folder" "$headers"
