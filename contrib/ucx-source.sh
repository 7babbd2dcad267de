# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The source of exactly the installed UCX version, from its Debian source package. apt reads the machine's list of
# mirrors, turned into a list of sources, and keeps its state in a temporary folder: the system's apt configuration
# stays untouched, and no privileges are needed. A script that sources this file must set `by_hand`, the advice in case
# of failure.

die() {
    echo "$0: $*" >&2
    exit 1
}

# Sets `package` and `version` of the source.
installed_ucx() {
    local installed
    # shellcheck disable=SC2016 # for dpkg-query
    installed=$(dpkg-query -W -f='${source:Package} ${source:Version}\n' libucx0 2>/dev/null) ||
        die "UCX is not installed from a Debian package; $by_hand"
    read -r package version <<<"$installed" # of one architecture, if there are several
}

# Unpacks the source into a temporary folder, which the script removes when it ends, and sets `tree` to its path.
fetch_ucx_source() {
    local list apt
    command -v dpkg-source >/dev/null || die "dpkg-source is missing: install dpkg-dev"

    tmp=$(mktemp -d)
    trap 'rm -rf "$tmp"' EXIT
    mkdir -p "$tmp"/{sources,lists/partial,cache/archives/partial,source}

    # Both formats of list. Disabled entries stay disabled.
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ ! -f "$list" ] || sed -nE 's/^[[:space:]]*deb(-src)?([[:space:]])/deb-src\2/p' "$list"
    done | sort -u >"$tmp/sources/one-line.list"
    for list in /etc/apt/sources.list.d/*.sources; do
        [ ! -f "$list" ] || sed -E 's/^Types:.*/Types: deb-src/I' "$list" >"$tmp/sources/${list##*/}"
    done

    apt=(apt-get -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$tmp/sources"
        -o Dir::State::lists="$tmp/lists" -o Dir::Cache="$tmp/cache" -o APT::Sandbox::User="$(id -un)"
        -o Acquire::Retries=3)
    cd "$tmp/source"
    # A mirror without sources does not matter if another one has this package.
    if ! { "${apt[@]}" update || true; "${apt[@]}" --only-source source "$package=$version"; } >"$tmp/log" 2>&1; then
        tail -n 20 "$tmp/log" >&2
        die "no mirror of this machine has the source of $package $version; $by_hand"
    fi
    tree=$(find . -mindepth 1 -maxdepth 1 -type d)
    [ -f "$tree/src/uct/base/uct_iface.h" ] || die "$package $version is not laid out as expected; $by_hand"
}
