#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: contrib/packaging/deb.sh BUILD FOLDER
#
# Makes Debian packages for the installed UCX, from the release that `make dist` makes of a configured build, in FOLDER.
# Needs debhelper. The source package has two parts: the release, and the private headers of UCX that the build uses.
set -euo pipefail
[ $# = 2 ] || { sed -n '/^# Usage/,/^[^#]/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$(realpath "$1")
folder=$(realpath -m "$2")
packaging=$(realpath "$(dirname "$0")")

version=$(sed -n 's/^PACKAGE_VERSION = //p' "$build/Makefile")
headers=$(sed -n 's/^UCX_CPPFLAGS = .*-isystem \(.*\)\/src\( .*\)\?$/\1/p' "$build/Makefile")
make -C "$build" -s dist
rm -rf "$folder"
mkdir -p "$folder"
mv "$build/ucx-tern-$version.tar.gz" "$folder/ucx-tern_$version.orig.tar.gz"

# The same bytes each time: no names of users, order or times of the machine.
plain=(--sort=name --owner=0 --group=0 --numeric-owner --mtime=@0)
tar "${plain[@]}" --dereference --transform 's,^\.,ucx-headers,' -C "$headers" -cJf \
    "$folder/ucx-tern_$version.orig-ucx-headers.tar.xz" .

cd "$folder"
tar -xf "ucx-tern_$version.orig.tar.gz"
tar -xf "ucx-tern_$version.orig-ucx-headers.tar.xz" -C "ucx-tern-$version"
cp -r "$packaging/debian" "ucx-tern-$version/"
cd "ucx-tern-$version"
dpkg-buildpackage --no-sign -j"${JOBS:-$(nproc)}"
