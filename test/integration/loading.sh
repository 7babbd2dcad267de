#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Loading the transport: what UCX reports about it, and how it refuses a UCX that it was not built for.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require ucx_info cc

# Compiles a library that replaces some of UCX's functions, and so changes what the transport sees of UCX.
stub() { # name <source
    cc -shared -fPIC -o "$tmp/$1.so" -x c - -ldl || {
        echo "Bail out! cc cannot compile the stub $1"
        exit 1
    }
}

stub version <<'END'
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
    *major = 1;
    *minor = 12;
    *release = 7;
}
const char* ucp_get_version_string(void) { return "1.12.7"; }
END
# The next release of the same minor version.
IFS=. read -r major minor release <<<"$(ucx_info -v | sed -n 's/^# .*[Vv]ersion:* *\([0-9.]*\).*/\1/p' | sed 1q)"
next=$major.$minor.$((release + 1))
stub release <<END
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
    *major = $major;
    *minor = $minor;
    *release = $release + 1;
}
const char* ucp_get_version_string(void) { return "$next"; }
END
stub layout <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
struct ucs_class {
    const char* name;
    size_t size;
    void *superclass, *init, *cleanup;
} uct_base_iface_t_class;
__attribute__((constructor)) static void grow(void) {
    uct_base_iface_t_class = *(struct ucs_class*)dlsym(RTLD_NEXT, "uct_base_iface_t_class");
    uct_base_iface_t_class.size += 8;
}
END

stub assertions <<'END'
void ucs_arbiter_group_init(void** tail) { *tail = 0; }
END

# refused NAME stub pattern: UCX logs one line, which matches; it has no component tern and continues.
refused() {
    local status=0
    timeout -k 5 "$limit" env LD_PRELOAD="$tern_library:$tmp/$2.so" ucx_info -d >"$tmp/output" 2>&1 || status=1
    [ "$(grep -c ' UCX  ' "$tmp/output")" = 1 ] || status=1
    grep -Eq "ERROR transport $3" "$tmp/output" || status=1
    grep -q 'Component: self' "$tmp/output" || status=1
    ! grep -q 'Component: tern' "$tmp/output" || status=1
    result $status "$1" "$tmp/output"
}

refused 'another version is refused, with one line' version \
    'tern is not available: it was built for UCX [0-9.]+ and this is UCX 1\.12\.7; build it for this one'
refused 'another release is refused, with one line' release \
    "tern is not available: it was built for UCX $major\.$minor\.$release and this is UCX $next; build it for this one"
refused 'another layout is refused, with one line' layout \
    'tern is not available: uct_base_iface_t has [0-9]+ bytes in this UCX [0-9.]+ and [0-9]+ in the one'
if ucx_info -b | grep -q 'define ENABLE_ASSERT *1'; then
    refused 'a UCX without assertions is refused, with one line' assertions \
        'tern is not available: ucs_arbiter_group_t has 8 bytes in this UCX [0-9.]+ and 12 in the one'
else
    skip 'a UCX without assertions is refused' 'this one has none'
fi

finish
