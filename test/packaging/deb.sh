#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: test/packaging/deb.sh FOLDER [AGAIN]
#
# The packages that contrib/packaging/deb.sh has made in FOLDER: lintian finds no errors; in a clean root of this
# release of Debian, they are installed, their tests (debian/tests) run without privileges, and they are removed
# without leftovers. Those of another build, in AGAIN, have the same bytes. Prints TAP. Needs root, lintian and
# mmdebstrap.
set -u
[ $# -ge 1 ] || { sed -n '/^# Usage/,/^[^#]/ s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(realpath "$1")
again=${2:-}
tests=$(realpath "$(dirname "$0")/../../contrib/packaging/debian/tests")
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
tmp=$(mktemp -d)
root=$tmp/root
number=0
failures=0
trap 'rm -rf --one-file-system "$tmp"' EXIT

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

inside() { # command...: in the root, with processes and a /dev/shm of its own
    # shellcheck disable=SC2016 # for the shell in the namespace
    unshare --mount --pid --fork --kill-child sh -euc '
        mount -t proc proc "$0/proc"
        mount --rbind /sys "$0/sys"
        mount -t tmpfs tmpfs "$0/dev/shm"
        chmod 1777 "$0/dev/shm"
        exec chroot "$0" "$@"' "$root" "$@"
}

# As nobody; what is left in /dev/shm or /tmp is an error.
as_user() { # test
    cp "$tests/$1" "$root/tmp/test"
    # shellcheck disable=SC2016
    inside sh -euc '
        cd /tmp
        HOME=/tmp setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --inh-caps=-all \
            timeout 300 ./test
        rm test
        left=$(find /tmp /dev/shm -mindepth 1)
        [ -z "$left" ] || { echo "left: $left"; exit 1; }'
}

files() {
    (cd "$root" && find . \( -path ./proc -o -path ./tmp -o -path ./var/cache -o -path ./var/lib/dpkg -o -path ./var/log \
        \) -prune -o -print | sort)
}

no_leftovers() {
    files | diff "$tmp/before" -
}

mapfile -t debs < <(find "$folder" -maxdepth 1 -name '*.deb' ! -name '*-dbgsym_*')
check 'lintian finds no errors' lintian --allow-root --fail-on error --tag-display-limit 0 "$folder"/*.changes
if [ -n "$again" ]; then
    for deb in "$folder"/*.deb; do
        check "another build has the same bytes: $(basename "$deb")" cmp "$deb" "$again/$(basename "$deb")"
    done
fi
check 'a clean root' mmdebstrap --quiet --variant=minbase --include="$(dependencies | paste -sd ,)" "$suite" "$root"
files >"$tmp/before"
cp "${debs[@]}" "$root/var/cache/"
check 'the packages are installed' inside sh -c 'dpkg -i /var/cache/*.deb'
for test in $(sed -n 's/^Tests: //p' "$tests/control"); do
    check "$test, without privileges" as_user "$test"
done
# shellcheck disable=SC2046
check 'they are removed' inside dpkg --purge $(fields '${Package}' | tr -d ,)
check 'nothing is left' no_leftovers
echo "1..$number"
[ $failures = 0 ]
