#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: test/common/packaging/dist.sh BUILD
#
# What `make dist` of a configured build makes has each file of the checkout, and none that is not made from them. Prints
# TAP. Whether it builds, installs and cleans up, `make distcheck` tells (contrib/nightly.sh).
set -u
[ $# = 1 ] || { sed -n '/^# Usage/,/^[^#]/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$(realpath "$1")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$(dirname "$0")/../../.." || exit 1
if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    echo "1..0 # SKIP not a checkout"
    exit 0
fi

number=0
failures=0
check() { # name command...
    local name=$1
    shift
    number=$((number + 1))
    if "$@" >"$tmp/output" 2>&1; then
        echo "ok $number - $name"
    else
        failures=$((failures + 1))
        echo "not ok $number - $name"
        tail -n 40 "$tmp/output" | sed 's/^/# /'
    fi
}

# Empty if each line of the first file is in the second.
without() {
    ! comm -23 "$1" "$2" | grep .
}

check 'make dist' make -C "$build" -s dist GZIP_ENV=--fast distdir=release
tar -tzf "$build/release.tar.gz" 2>/dev/null | sed -n 's,^[^/]*/\(.*[^/]\)$,\1,p' | sort >"$tmp/release"
rm -f "$build/release.tar.gz"
git ls-files | while read -r file; do [ ! -e "$file" ] || echo "$file"; done | grep -vx .gitignore | sort >"$tmp/tracked"
# What autoreconf makes, configure for a package, and make for the manual pages.
{
    cat "$tmp/tracked"
    printf '%s\n' aclocal.m4 configure tern_config.h.in contrib/packaging/ucx-tern.spec contrib/packaging/ucx-tern.eb \
        contrib/packaging/spack/package.py
    find . -name Makefile.in -not -path './build/*' -printf '%P\n'
    find config m4 ! -type d
    for page in docs/man/*.scd; do echo "${page%.scd}"; done
} | sort >"$tmp/known"
check 'it has each file of the checkout' without "$tmp/tracked" "$tmp/release"
check 'and nothing else but what autoreconf makes' without "$tmp/release" "$tmp/known"
echo "1..$number"
[ $failures = 0 ]
