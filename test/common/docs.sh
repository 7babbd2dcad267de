#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The documents name files, functions, headings and commits that exist, and their tables are whole.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
require python3

docs() { # NAME check
    check "$1" python3 "$srcdir/common/docs.py" "$2" "$srcdir/.."
}

docs 'links and their anchors lead somewhere' links
docs 'source files exist' files
docs 'functions exist, in the file that is named with them' names
docs 'include relations are those of the sources' includes
docs 'products include only these headers of each other' seams
docs 'counters are described, and exist' counters
docs 'tables have full rows' tables
docs 'measured values come from files of results' figures
# configure.ac has the addresses; packages take them from there.
# shellcheck disable=SC2016 # for the inner shell
check 'no other file names the contact' sh -c 'cd "$1/.." && ! grep -rlF "$(sed -n "s/^AC_INIT(\[.*\], \[.*\], \[\(.*\)\], \[.*\], .*/\1/p" configure.ac)" \
    README.md SECURITY.md CONTRIBUTING.md contrib docs src' _ "$srcdir"
if git -C "$srcdir" rev-parse >/dev/null 2>&1; then
    docs 'commits are in the history' commits
else
    skip 'commits are in the history' 'this is no clone'
fi
finish
