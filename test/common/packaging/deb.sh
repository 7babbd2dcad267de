#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: test/common/packaging/deb.sh FOLDER [AGAIN]
#
# The packages that contrib/packaging/deb.sh has made in FOLDER: lintian finds no errors; they are installed, their tests
# (debian/tests) run without privileges, and they are removed without leftovers. Those of another build, in AGAIN, have
# the same bytes. All that happens in a layer above a clean root of Debian's RELEASE (that of this machine; or trixie),
# which mmdebstrap makes, or with PACKAGES_ROOT=FOLDER above that one: with PACKAGES_ROOT=/ above this machine's, which
# takes seconds. Prints TAP. Needs root; without lintian, that part is skipped.
set -u
[ $# -ge 1 ] || { sed -n '/^# Usage/,/^[^#]/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
if [ "$(id -u)" != 0 ] || ! unshare --mount true 2>/dev/null; then
    echo "1..0 # SKIP this needs root, and namespaces of mounts"
    exit 0
fi
folder=$(realpath "$1")
again=${2:-}
tests=$(realpath "$(dirname "$0")/../../../contrib/packaging/debian/tests")
release=${RELEASE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
tmp=$(mktemp -d)
clean=${PACKAGES_ROOT:-$tmp/clean}
mkdir "$tmp/mnt" "$tmp/upper" "$tmp/work" "$tmp/root"
number=0
failures=0
trap 'rm -rf --one-file-system "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

check() { # name command...
    local name=$1
    shift
    number=$((number + 1))
    if "$@" >"$tmp/output" 2>&1 </dev/null; then
        echo "ok $number - $name"
    else
        failures=$((failures + 1))
        echo "not ok $number - $name"
        tail -n 40 "$tmp/output" | sed 's/^/# /'
    fi
}

skip() { # name reason
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}

# The fields of all packages, each followed by a comma.
fields() { # format
    local deb
    for deb in "${debs[@]}"; do dpkg-deb -W --showformat="$1, " "$deb"; done
}

# What the packages and their tests depend on, without the packages themselves.
dependencies() {
    { fields '${Pre-Depends}, ${Depends}'; sed -n 's/^Depends: //p' "$tests/control" | sed 's/$/,/'; } |
        tr ',' '\n' | awk '{ print $1 }' | sed 's/:any$//' | grep . | sort -u |
        grep -vxFf <(fields '${Package}' | tr ',' '\n' | tr -d ' ' | grep .)
}

# In the root, with processes, /tmp and /dev/shm of its own; /mnt has the packages and their tests.
inside() { # command...
    # shellcheck disable=SC2016 # for the shell in the namespace
    unshare --mount --pid --fork --kill-child sh -euc '
        mount -t overlay overlay -o "lowerdir=$0,upperdir=$1/upper,workdir=$1/work" "$1/root"
        mount --bind "$1/mnt" "$1/root/mnt"
        cd "$1/root"
        mount -t proc proc proc
        mount --rbind /sys sys
        mount --rbind /dev dev
        for folder in tmp dev/shm; do mount -t tmpfs -o mode=1777 tmpfs $folder; done
        shift
        exec chroot . "$@"' "$clean" "$tmp" "$@"
}

# As nobody; what is left in /dev/shm or /tmp is an error.
as_user() { # test
    # shellcheck disable=SC2016
    inside sh -euc '
        cd /tmp
        HOME=/tmp setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --inh-caps=-all \
            timeout 300 "$0"
        left=$(find /tmp /dev/shm -mindepth 1)
        [ -z "$left" ] || { echo "left: $left"; exit 1; }' "/mnt/$1"
}

# The tests whose packages of ours are there: of the software HCA alone, there are no others.
possible_tests() {
    awk -v debs="$(fields '${Package}')" '
        /^Package: / { ours[$2] }
        /^Tests: / { test = $2; missing = 0 }
        /^Depends: / {
            for (i = 2; i <= NF; ++i) {
                sub(/,$/, "", $i)
                if ($i in ours && index(" " debs, " " $i ",") == 0) missing = 1
            }
            if (test != "" && !missing) print test
        }' "$tests/../control" "$tests/control"
}

# What the layer has, or hides (by a device without number), but not what dpkg and others keep for themselves.
no_leftovers() {
    local left
    left=$(cd "$tmp/upper" && find . -mindepth 1 \
        \( -path ./var/cache -o -path ./var/lib/dpkg -o -path ./var/log \) -prune -o -print |
        while read -r name; do [ -e "$clean/$name" ] && [ ! -c "$name" ] || echo "$name"; done)
    [ -z "$left" ] || { echo "$left"; return 1; }
}

mapfile -t debs < <(find "$folder" -maxdepth 1 -name '*.deb' ! -name '*-dbgsym_*' | sort)
cp "${debs[@]}" "$tests"/* "$tmp/mnt/"
if command -v lintian >/dev/null; then
    check 'lintian finds no errors' lintian --allow-root --fail-on error --tag-display-limit 0 "$folder"/*.changes
else
    skip 'lintian finds no errors' 'lintian is not installed'
fi
if [ -n "$again" ]; then
    for file in "$folder"/*.deb "$folder"/*.tar.*; do
        check "another build has the same bytes: $(basename "$file")" cmp "$file" "$again/$(basename "$file")"
    done
fi
[ -n "${PACKAGES_ROOT:-}" ] ||
    check "a clean root of $release" mmdebstrap --quiet --variant=minbase --include="$(dependencies | paste -sd ,)" "$release" "$clean"
check 'the packages are installed' inside sh -c 'dpkg -i /mnt/*.deb'
for test in $(possible_tests); do
    check "$test, without privileges" as_user "$test"
done
# shellcheck disable=SC2046
check 'they are removed' inside dpkg --purge $(fields '${Package}' | tr -d ,)
check 'nothing is left' no_leftovers
echo "1..$number"
[ $failures = 0 ]
