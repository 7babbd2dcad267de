#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Loading the transport: what UCX reports about it, and how it refuses a UCX that it was not built for.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require ucx_info cc readelf

# What is loaded into other people's processes needs no run-time library of C++: a process may have an older one than the
# system's, or need a newer one.
runtime_tests() {
    local library none="$tmp/older/libstdc++.so.6" flags needed
    flags=$(sed -n 's/^TERN_RUNTIME_LDFLAGS = //p' "$(dirname "$SOFTHCA")/../Makefile")
    if [ -z "$flags" ]; then
        skip 'libraries for other programs need no run-time library of C++' 'this build needs the shared one'
        return
    fi
    for library in "$tern_library" "$tern_transport" "$(dirname "$tern_transport")/libucp_tern.so.0" "$soft_hca"; do
        [ -e "$library" ] || continue
        # What unwinds the stack is the process's, but for the loader, which is in every process.
        needed='libstdc|libgcc_s'
        [ "$library" = "$tern_library" ] || needed=libstdc
        readelf -dW "$library" >"$tmp/output"
        result "$(grep -q 'Shared library: .libc\.' "$tmp/output" && ! grep -E "$needed" "$tmp/output" >/dev/null; echo $?)" \
            "${library##*/}$([ "$library" != "$tern_library" ] || echo ', the loader,') needs no run-time library of C++" "$tmp/output"
        # C++ names would replace those of the program, or the other way round, which only operators new and delete may.
        nm -D --defined-only "$library" >"$tmp/output"
        result "$(! grep -E ' (_Z[^dn]|_Zn[^aw]|_Zd[^al]|__cxa|__gxx|_Unwind|__cxx)' "$tmp/output" >/dev/null; echo $?)" 'it shows nothing of one, but perhaps new and delete' \
            "$tmp/output"
    done
    # As of a commercial code that ships an old one: it has not the versions that are asked for.
    mkdir "$tmp/older"
    echo 'int none;' | cc -shared -fPIC -Wl,-soname,libstdc++.so.6 -o "$none" -x c -
    check 'beside an older one, programs run with what Tern preloads' \
        env LD_LIBRARY_PATH="$tmp/older" LD_PRELOAD="$tern_library:$soft_hca" true
    check_match 'and use Tern' 'Transport: tern' \
        env LD_LIBRARY_PATH="$tmp/older" LD_PRELOAD="$tern_library:$soft_hca" ucx_info -d -t tern
    # A library that knows where its newer one is gets that one.
    echo 'int newer;' | cc -shared -fPIC -Wl,-soname,libstdc++.so.6 -o "$tmp/libstdc++.so.6" -x c -
    echo 'extern int newer; int* use(void) { return &newer; }' |
        cc -shared -fPIC -o "$tmp/user.so" -x c - -x none "$tmp/libstdc++.so.6" -Wl,-rpath,"$tmp"
    echo '#include <dlfcn.h>
    #include <stdio.h>
    int main(int count, char** names) {
        if (dlopen(names[count - 1], RTLD_NOW)) return 0;
        puts(dlerror());
        return 1;
    }' | cc -o "$tmp/opens" -x c - -ldl
    check 'a library gets its own run-time library, and not one that Tern has brought' \
        env LD_PRELOAD="$tern_library:$soft_hca" "$tmp/opens" "$tmp/user.so"
}
soft_hca=$("$SOFTHCA" env | sed -n 's/^LD_PRELOAD=//p')
runtime_tests

# Programs with the address sanitizer refuse to start if something is preloaded before its library.
sanitizer_tests() {
    local tern_run
    tern_run=$(dirname "$SOFTHCA")/tern-run
    cat >"$tmp/program.c" <<'END'
#include <stdio.h>
#include <ucp/api/ucp.h>
int main(void) {
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_h context;
    if (ucp_init(&params, NULL, &context) != UCS_OK) return 1;
    ucp_context_print_info(context, stdout);
    ucp_cleanup(context);
    return 0;
}
END
    if ! gcc -fsanitize=address -o "$tmp/sanitized" "$tmp/program.c" -lucp -lucs 2>"$tmp/output" ||
        ! gcc -o "$tmp/plain" "$tmp/program.c" -lucp -lucs 2>"$tmp/output"; then
        skip 'programs with the address sanitizer run' 'gcc has none'
        return
    fi
    check_match 'a program with the address sanitizer runs over Tern' 'tern/softhca0:1' \
        env ASAN_OPTIONS=detect_leaks=0 "$tern_run" --soft-hca "$tmp/sanitized"
    check 'and on the software HCA' \
        env ASAN_OPTIONS=detect_leaks=0 UCX_TLS=rc_v,self "$SOFTHCA" run -- "$tmp/sanitized"
    check_match 'so does one for which the user preloads the sanitizer' 'tern/softhca0:1' \
        env LD_PRELOAD="$(gcc -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 "$tern_run" --soft-hca "$tmp/plain"
}
[ -n "$(sed -n 's/^TERN_RUNTIME_LDFLAGS = //p' "$(dirname "$SOFTHCA")/../Makefile")" ] && sanitizer_tests

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

# Snapshots of UCX's development, which have the number of a release and call a transport's functions otherwise.
stub snapshot_pack <<END
#include <stddef.h>
struct md { int (**ops)(); };
int uct_md_mkey_pack(struct md* md, void* memh, void* key) {
    size_t parameters = 0;
    return $minor < 16 ? md->ops[8](md, memh, (void*)0, (size_t)-1, &parameters, key)
                       : md->ops[8](md, memh, &parameters, key);
}
END
stub snapshot_unpack <<END
#include <stddef.h>
struct component { char name[16]; void *query, *open, *cm; int (*unpack)(); };
struct bundle { size_t key; void *handle, *type; };
int uct_rkey_unpack(struct component* component, const void* key, struct bundle* bundle) {
    size_t parameters = 0;
    return $minor < 19 ? component->unpack(component, key, &parameters, &bundle->key, &bundle->handle)
                       : component->unpack(component, key, &bundle->key, &bundle->handle);
}
END
# Ones with other tables: not what should be called is called, and not what was written is read.
echo 'int uct_ep_query(void* ep, void* attributes) { return -1; }' | stub snapshot_interface
stub snapshot_component <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
int uct_component_query(void* component, uint64_t* fields) {
    int (*query)(void*, uint64_t*) = (int (*)(void*, uint64_t*))dlsym(RTLD_NEXT, "uct_component_query");
    return *fields == 8 ? 0 : query(component, fields);  /* the flags, of which UCP asks together with others */
}
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
    'tern is not available: it is installed for UCX [0-9.]+, and this is UCX 1\.12\.7; build it for this one'
refused 'another release is refused, with one line' release \
    "tern is not available: it is installed for UCX $major\.$minor\.$release, and this is UCX $next; build it for this one"
refused 'another layout is refused, with one line' layout \
    'tern is not available: uct_base_iface_t has [0-9]+ bytes in this UCX [0-9.]+ and [0-9]+ in the one'
for snapshot in 'pack:packs keys .mkey_pack.' 'unpack:unpacks keys .rkey_unpack.' 'interface:calls interfaces .*' \
    'component:reads components .*'; do
    refused "a snapshot with the release's number is refused: ${snapshot%%:*}" "snapshot_${snapshot%%:*}" \
        "tern is not available: this UCX calls itself [0-9.]+, but ${snapshot#*:} in another way than the one it was"
done
if ucx_info -b | grep -q 'define ENABLE_ASSERT *1'; then
    refused 'a UCX without assertions is refused, with one line' assertions \
        'tern is not available: ucs_arbiter_group_t has 8 bytes in this UCX [0-9.]+ and 12 in the one'
else
    skip 'a UCX without assertions is refused' 'this one has none'
fi

finish
