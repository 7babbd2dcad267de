#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: contrib/fetch-ucx-headers.sh [FOLDER]
#
# Gets the private headers of exactly the installed UCX version from its Debian source package, because no binary
# package has them. Puts them into FOLDER (default: build/ucx-headers, where configure looks for them), unless they are
# there already. UCX_SRC=FOLDER names a source tree of that version, for machines whose mirror has no source packages.
set -euo pipefail

source_dir=$(cd "$(dirname "$0")/.." && pwd)
folder=$(realpath -m "${1:-$source_dir/build/ucx-headers}")
by_hand="get the source of your UCX version by hand and name its folder by UCX_SRC=FOLDER"
# shellcheck source=ucx-source.sh
. "$source_dir/contrib/ucx-source.sh"

installed_ucx
stamp=$folder/.version
if [ -d "$folder/src/ucp" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$version" ]; then
    exit 0
fi
if [ -n "${UCX_SRC:-}" ]; then
    tree=$(realpath "$UCX_SRC")
    [ -f "$tree/src/uct/base/uct_iface.h" ] || die "$UCX_SRC is no source tree of UCX; $by_hand"
else
    fetch_ucx_source
fi

mkdir -p "$(dirname "$folder")"
rm -rf "$folder.new"
mkdir "$folder.new"
(cd "$tree" && find configure.ac LICENSE src/ucm src/ucs src/ucp src/uct/api src/uct/base -type f \
    \( -name '*.h' -o -name '*.inl' -o -name configure.ac -o -name LICENSE \) -print0 |
    tar -c --null -T -) | tar -x -C "$folder.new"
echo "$version" >"$folder.new/.version"
rm -rf "$folder"
mv "$folder.new" "$folder"
