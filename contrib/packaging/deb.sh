#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: contrib/packaging/deb.sh [--built] BUILD FOLDER
#
# Makes Debian packages for the installed UCX, from the release that `make dist` makes of a configured build, in FOLDER.
# Needs debhelper. The source package has two parts: the release, and the private headers of UCX that the build uses.
# With --built, the packages have what BUILD has compiled, and there is no source package; this takes seconds, for tests.
# BUILD must have been configured with Debian's folders: contrib/packaging/deb.sh --folders prints the options. If it has
# no UCX, there is a package of the software HCA only, which the build profile pkg.ucx-tern.softhca makes of the source
# package, too.
set -euo pipefail
folders() {
    echo "--prefix=/usr --libdir=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH) --libexecdir=/usr/libexec"
}
built=no
case ${1:-} in
    --folders)
        folders
        exit 0
        ;;
    --built)
        built=yes
        shift
        ;;
esac
[ $# = 2 ] || { sed -n '/^# Usage/,/^[^#]/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$(realpath "$1")
folder=$(realpath -m "$2")
packaging=$(realpath "$(dirname "$0")")

version=$(sed -n 's/^PACKAGE_VERSION = //p' "$build/Makefile")
rm -rf "$folder"
mkdir -p "$folder/ucx-tern-$version"
if [ $built = yes ]; then
    if ! grep -q '^prefix = /usr$' "$build/Makefile"; then
        echo "$0: $1 was not configured with $(folders)" >&2
        exit 1
    fi
    export TERN_BUILT=$build
    grep -q '^UCX_VERSION = .' "$build/Makefile" || export DEB_BUILD_PROFILES=pkg.ucx-tern.softhca
    cp "$packaging/../../LICENSE" "$folder/ucx-tern-$version/"
else
    headers=$(sed -n 's/^UCX_CPPFLAGS = .*-isystem \(.*\)\/src\( .*\)\?$/\1/p' "$build/Makefile")
    # The same bytes each time: no users, modes, order or times of the machine.
    released=$(dpkg-parsechangelog -l "$packaging/debian/changelog" -S Timestamp)
    plain="--sort=name --owner=0 --group=0 --numeric-owner --mode=a=rX,u+w --mtime=@$released"
    make -C "$build" -s -j"$(nproc)" # the manual pages say what the commands say
    make -C "$build" -s dist GZIP_ENV='--best --no-name' TAR_OPTIONS="$plain"
    mv "$build/ucx-tern-$version.tar.gz" "$folder/ucx-tern_$version.orig.tar.gz"
    # shellcheck disable=SC2086
    tar $plain --dereference --transform 's,^\.,ucx-headers,' -C "$headers" -cJf \
        "$folder/ucx-tern_$version.orig-ucx-headers.tar.xz" .
    tar -C "$folder" -xf "$folder/ucx-tern_$version.orig.tar.gz"
    tar -C "$folder/ucx-tern-$version" -xf "$folder/ucx-tern_$version.orig-ucx-headers.tar.xz"
fi
cp -r "$packaging/debian" "$folder/ucx-tern-$version/"
for variable in PACKAGE_BUGREPORT PACKAGE_URL; do
    value=$(sed -n "s/^$variable = //p" "$build/Makefile")
    sed -i "s,@$variable@,$value,g" "$folder/ucx-tern-$version/debian/control" "$folder/ucx-tern-$version/debian/changelog"
done
cd "$folder/ucx-tern-$version"
if [ $built = yes ]; then
    DEB_BUILD_OPTIONS=noautodbgsym dpkg-buildpackage --no-sign --build=binary
else
    dpkg-buildpackage --no-sign -j"${JOBS:-$(nproc)}"
fi
