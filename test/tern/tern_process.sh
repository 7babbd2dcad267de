#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# docs/tern/process.md says what Tern does to a process. Here a program that uses UCX runs over Tern and over UCX's own
# transport on the same device, and what differs must be what the page's tables say.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require cc python3
unset LD_PRELOAD UCX_TLS UCX_PLUGIN_PATH "${!OMPI_MCA_@}"
export UCX_WARN_UNUSED_ENV_VARS=n
page=$srcdir/../docs/tern/process.md

cc -std=gnu11 -O2 -o "$tmp/process" "$srcdir/tern/ucp/process.c" -lucp -lucs 2>"$tmp/compiler" ||
    { sed 's/^/# /' "$tmp/compiler"; echo 'Bail out! process.c does not compile'; exit 1; }
check 'a program runs over the stock transport' "$SOFTHCA" run -- env UCX_TLS=rc_v,self "$tmp/process"
cp "$tmp/output" "$tmp/stock"
check 'and over Tern' "$SOFTHCA" run -- env UCX_TLS=tern \
    "$(dirname "$SOFTHCA")/tern-run" "$tmp/process"
cp "$tmp/output" "$tmp/tern"

check 'threads, descriptors, mappings and signals are those of the page' \
    python3 "$srcdir/tern/process_page.py" "$page" "$tmp/stock" "$tmp/tern"

cc -std=gnu11 -O2 -o "$tmp/calls" "$srcdir/tern/ucp/calls.c" -lucp -lucs 2>"$tmp/compiler" ||
    { sed 's/^/# /' "$tmp/compiler"; echo 'Bail out! calls.c does not compile'; exit 1; }
check_match "a program's own calls work on memory that has been sent" '^fork ' "$SOFTHCA" run -- env UCX_TLS=tern \
    "$(dirname "$SOFTHCA")/tern-run" "$tmp/calls" 2

# What tern-run sets.
"$SOFTHCA" run -- env UCX_TLS=tern,self env | cut -d= -f1 | sort -u >"$tmp/without"
"$SOFTHCA" run -- env UCX_TLS=tern,self "$(dirname "$SOFTHCA")/tern-run" env | cut -d= -f1 | sort -u >"$tmp/with"
{ comm -13 "$tmp/without" "$tmp/with" | grep -vx UCX_PLUGIN_PATH; echo UCX_TLS; } | sort >"$tmp/set"
# shellcheck disable=SC2016 # backquotes of the page
sed -n '/^<!-- test: set -->/,/^$/s/^| `\([A-Za-z_0-9]*\)`.*/\1/p' "$page" | sort >"$tmp/page"
check 'tern-run sets the variables of the page' diff "$tmp/page" "$tmp/set"
# shellcheck disable=SC2016
check_match 'and adds to these' '^/.*libuct_tern\.so\.0:.*verify_asan_link_order=0|^/.*ucx-tern' \
    "$SOFTHCA" run -- "$(dirname "$SOFTHCA")/tern-run" sh -c 'echo "${UCX_PLUGIN_PATH-}$LD_PRELOAD $ASAN_OPTIONS"'

# What the transport reads, but for UCX's settings UCX_TERN_*, which docs/tern/settings.md has.
grep -rhoE 'getenv\("[A-Z_0-9]+"\)' "$srcdir"/../src/{common,tern/[!t]*,tern/tupleq} |
    sed 's/.*"\(.*\)".*/\1/' | sort -u >"$tmp/read"
# shellcheck disable=SC2016 # backquotes of the page
sed -n '/^<!-- test: read -->/,/^$/s/^| `\([A-Za-z_0-9]*\)`.*/\1/p' "$page" | sort >"$tmp/page"
check 'the page names the variables that are read' python3 - "$tmp/read" "$tmp/page" <<'END'
import sys
read, page = (set(open(path).read().split()) for path in sys.argv[1:])
missing = read - page
print("not in the page:", *missing)
sys.exit(bool(missing) or not read)
END

finish
