# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Common set-up of quickstart.sh, check.sh and .ci/run. Makes the source tree the working folder.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$source_dir"

say() {
    echo "== $*"
}

die() {
    echo "$0: $*" >&2
    exit 1
}

# The packages in these sections of packages.txt; without an argument, in all sections.
wanted_packages() { # section...
    awk -v sections="$(printf '%s\n' "$@")" '
        BEGIN { for (i = split(sections, name, "\n"); i > 0; i--) if (name[i] != "") wanted[name[i]] = some = 1 }
        /^# / { section = substr($0, 3) }
        /^[^#]/ && (!some || section in wanted) { print $1 }' contrib/packages.txt
}

missing_packages() { # section...
    local package
    for package in $(wanted_packages "$@"); do
        dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
    done
}

install_packages() { # section...
    local missing
    command -v dpkg-query >/dev/null ||
        die "this is not a Debian system; install by hand what contrib/packages.txt names"
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] ||
        die "packages are missing; run this first: sudo apt-get install --no-install-recommends ${missing[*]}"
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# What configure and its options need.
prepare() {
    [ ! -e Makefile ] || die "the source tree itself is configured; run make distclean first"
    mkdir -p m4
    contrib/fetch-ucx-headers.sh
    [ configure -nt configure.ac ] || autoreconf -i
}

# set_up FOLDER [configure option...]: configures out of the source tree.
set_up() {
    local folder=$1
    shift
    prepare
    mkdir -p "$folder"
    (cd "$folder" && "$(realpath --relative-to=. "$source_dir")/configure" --quiet "$@")
}

# build FOLDER [configure option...]: configures and builds.
build() {
    say "building in $1"
    set_up "$@" &&
        make -C "$1" -s -j"$(nproc)"
}

# Runs a command with ccache, for which the build of an unpacked release in build/check (make distcheck) is the same as
# the one in build/check itself.
cached() { # command...
    PATH=/usr/lib/ccache:$PATH CCACHE_DIR=$source_dir/build/ccache CCACHE_BASEDIR=$source_dir/build/check \
        CCACHE_NOHASHDIR=1 "$@"
}

# The build for the tests. Their reports need only lines and functions; full debugging information takes a third of the
# compiler's time. Its folders are Debian's, so that packages can be made of it.
check_flags='-g1 -O2'
build_to_check() {
    local folders
    read -ra folders <<<"$(contrib/packaging/deb.sh --folders)"
    cached build build/check --enable-werror CXXFLAGS="$check_flags" "${folders[@]}"
}
