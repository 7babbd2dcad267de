#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The loader and tern-run choose the transport by the release of UCX. With any build: this release among others that do
# not exist. With a build for several releases (configure --with-ucx=PREFIX:PREFIX...): all of them, installed into one
# folder. What is built once, for the first release, runs with all of them. TERN_TEST_UCX: prefixes of further releases of
# UCX, with colons between them, for which nothing is built.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require ucx_info cc make
build=$(readlink -e "$(dirname "$SOFTHCA")/../..")
folder=$(dirname "$tern_library")
read -r this others <<<"$(sed -n 's/^UCX_RELEASES = //p' "$build/src/Makefile")"
unset LD_PRELOAD UCX_TLS UCX_PLUGIN_PATH "${!OMPI_MCA_@}"
export UCX_WARN_UNUSED_ENV_VARS=n
soft_hca=$("$SOFTHCA" env | sed -n 's/^LD_PRELOAD=//p')

# What programs load: a library that leaves a mark, in the place of the transport for a release.
echo '#include <fcntl.h>
__attribute__((constructor)) static void load(void) { open(MARK, O_CREAT | O_WRONLY, 0600); }' |
    cc -shared -fPIC "-DMARK=\"$tmp/mark\"" -o "$tmp/other.so" -x c - ||
    { echo 'Bail out! cc cannot compile'; exit 1; }

# installation NAME [RELEASE...]: a folder as of an installation, with the loader and these releases; only this one is
# real. The commands are in a folder of their own.
installation() {
    local at=$tmp/$1/.libs release
    shift
    mkdir -p "$at" "${at%/.libs}/tools"
    cp -L "$tern_library" "$at/"
    ln -s "$(readlink -e "$folder/../softhca")" "${at%/.libs}/softhca"
    cp "$(dirname "$SOFTHCA")/softhca" "${at%/.libs}/tools/"
    cp "$(dirname "$SOFTHCA")/tern-run" "${at%/.libs}/tools/"
    for release in "$@"; do
        if [ "$release" = "$this" ]; then
            ln -s "$(readlink -e "$folder/$this")" "$at/$release"
        else
            mkdir "$at/$release"
            cp "$tmp/other.so" "$at/$release/libuct_tern.so.0"
        fi
    done
}
installation several 1.9.9 "$this" 1.99.0
installation missing 1.9.9 1.99.0
installation none
several=$tmp/several/.libs/libuct_tern.so.0
missing=$tmp/missing/.libs/libuct_tern.so.0

# loads NAME command...: the command finds Tern, and no library for another release was loaded.
loads() {
    local name=$1 status
    shift
    rm -f "$tmp/mark"
    timeout -k 5 "$limit" "$@" >"$tmp/output" 2>&1 </dev/null
    status=$?
    grep -Eq 'tern/softhca0:1|Transport: tern$' "$tmp/output" || status=1
    [ ! -e "$tmp/mark" ] || status=1
    result $status "$name" "$tmp/output"
}

# refused NAME PATTERN command...: the command goes well, without Tern, and one line says why.
refused() {
    local name=$1 pattern=$2 status
    shift 2
    rm -f "$tmp/mark"
    timeout -k 5 "$limit" "$@" >"$tmp/output" 2>&1 </dev/null
    status=$?
    [ "$(grep -c 'transport tern is not available' "$tmp/output")" = 1 ] || status=1
    grep -Eq "^tern: transport tern is not available: $pattern" "$tmp/output" || status=1
    grep -q 'Transport: self$' "$tmp/output" || status=1
    ! grep -q 'Transport: tern$' "$tmp/output" || status=1
    [ ! -e "$tmp/mark" ] || status=1
    result $status "$name" "$tmp/output"
}

# Preloaded, with the software HCA.
several_on_hca=(env LD_PRELOAD="$several:$soft_hca")

# A program whose UCX comes later, in a component that nobody else sees, as that of Open MPI. PLUGIN: what is loaded
# then, as UCX loads plug-ins.
cat >"$tmp/component.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>
int run(void) {
    const char* plugin = getenv("PLUGIN");
    if (plugin && !dlopen(plugin, RTLD_LAZY | RTLD_LOCAL)) return 1;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_h context;
    if (ucp_init(&params, NULL, &context) != UCS_OK) return 1;
    ucp_context_print_info(context, stdout);
    ucp_cleanup(context);
    return 0;
}
END
echo '#include <dlfcn.h>
int main(int argc, char** argv) {
    void* component = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : 0;
    int (*run)(void) = component ? (int (*)(void))dlsym(component, "run") : 0;
    return run ? run() : 77;
}' | cc -o "$tmp/program" -x c - -ldl || { echo 'Bail out! cc cannot compile'; exit 1; }

loader_tests() {
    loads 'preloaded, the loader takes the transport of this UCX' "${several_on_hca[@]}" ucx_info -d -t tern
    if cc -shared -fPIC -o "$tmp/component.so" "$tmp/component.c" -lucp -lucs; then
        loads 'also where UCX comes later, and only a component sees it' \
            "${several_on_hca[@]}" env UCX_TLS=tern,self "$tmp/program" "$tmp/component.so"
        check_match 'there it says what is missing' '^tern: .* installed for UCX 1\.9\.9 and 1\.99\.0, and this is' \
            env LD_PRELOAD="$missing:$soft_hca" "$tmp/program" "$tmp/component.so"
        loads 'loaded after UCX, as a plug-in, it takes that transport at once' \
            env LD_PRELOAD="$soft_hca" PLUGIN="$several" UCX_TLS=tern,self "$tmp/program" "$tmp/component.so"
        cc -o "$tmp/linked" "$tmp/component.c" -Drun=main -lucp -lucs
        loads 'also where the program is linked with UCX' \
            env LD_PRELOAD="$soft_hca" PLUGIN="$several" UCX_TLS=tern,self "$tmp/linked"
    else
        result 1 'a component of UCX compiles'
    fi
    case $this in
        1.1?.* | 1.2[01].*) skip 'by UCX_PLUGIN_PATH too' "UCX $this has no such variable" ;;
        *)
            loads 'by UCX_PLUGIN_PATH too' \
                env LD_PRELOAD="$soft_hca" UCX_PLUGIN_PATH="${several%/*}" ucx_info -d -t tern
            refused 'there it also says what is missing' 'it is installed for UCX 1\.9\.9 and 1\.99\.0' \
                env UCX_PLUGIN_PATH="${missing%/*}" ucx_info -d
            ;;
    esac
    refused 'without a transport for it, UCX goes on, and one line says which there are' \
        "it is installed for UCX 1\.9\.9 and 1\.99\.0, and this is UCX $this; build it" \
        env LD_PRELOAD="$missing" ucx_info -d
    refused 'without any transport too' "it is installed for no release of UCX; install it for $this" \
        env LD_PRELOAD="$tmp/none/.libs/libuct_tern.so.0" ucx_info -d
    rm -f "$tmp/mark"
    check_match 'a process without UCX gets nothing' '^nothing$' env LD_PRELOAD="$missing" \
        sh -c 'grep -E "/lib(uc[mpst]|ibverbs)\." /proc/$$/maps || echo nothing'
    result "$([ "$(wc -l <"$tmp/output")" = 1 ] && [ ! -e "$tmp/mark" ]; echo $?)" 'and hears nothing' "$tmp/output"
}

tern_run_tests() {
    local tern_run=$tmp/several/tools/tern-run
    check_match 'tern-run preloads the loader where older releases are' "^LD_PRELOAD=$several" "$tern_run" -v true
    loads 'its programs have Tern' "$tern_run" --soft-hca ucx_info -d -t tern
    check_match 'tern-run --check names the releases' \
        "^good +library +$several, .*, for UCX 1\.9\.9, $this and 1\.99\.0$" "$tern_run" --soft-hca --check
    local says="^tern-run: transport tern is not available: it is installed for UCX 1\.9\.9 and 1\.99\.0, and this is UCX $this; .*another UCX"
    check_match 'tern-run says which releases there are' "$says" "$tmp/missing/tools/tern-run" true
    check_match 'and runs the program, which may have another UCX' "^ran $missing .*tern,self" \
        "$tmp/missing/tools/tern-run" sh -c 'echo "ran $LD_PRELOAD $UCX_TLS"'
    check_match 'one rank says it' '^1$' sh -c 'for r in 0 1 2; do PMI_RANK=$r "$1" true; done 2>&1 | grep -c "^tern-run: "' _ \
        "$tmp/missing/tools/tern-run"
    refuses 'or that there is none' 1 "^tern-run: there is no transport beside $tmp/none/" "$tmp/none/tools/tern-run" true
    mkdir "$tmp/records"
    TERN_EXPLAIN=$tmp/records LD_PRELOAD=$missing ucx_info -d >/dev/null 2>&1
    check_match 'tern-run --explain says so too' \
        "not used by ucx_info.*: it is installed for UCX 1\.9\.9 and 1\.99\.0, and this is UCX $this; build it" \
        "$tern_run" --explain="$tmp/records"
}

# Sets `with_ucx` to the launcher of commands with the UCX of a prefix.
use_ucx() {
    with_ucx=(env PATH="$1/bin:$PATH")
    [ "$1" = /usr ] || with_ucx+=(LD_LIBRARY_PATH="$1/lib")
}

# Where the UCX is for which a build folder was configured.
prefix_of() { # build folder
    local prefix
    prefix=$(sed -n 's/^UCX_LDFLAGS = -L\(.*\)\/lib -R.*/\1/p' "$1/src/Makefile")
    echo "${prefix:-/usr}"
}

# once_tests NAME TRANSPORT TERN-BENCH: what uses UCT's public interface and is built once, with the UCX of `with_ucx`.
once_tests() {
    local launcher=("${with_ucx[@]}" env RWAPI_TLS="$2" UCX_LOG_LEVEL=error)
    if [ -x ./rwapi-job ]; then
        if [ "$2" = tern ]; then launcher+=("$root_commands/tern-run" --soft-hca); else launcher+=("${hca[@]}"); fi
        check "$1: rwapi over $2" "${launcher[@]}" ./rwapi-launch -np 2 ./rwapi-job traffic
    else
        skip "$1: rwapi over $2" 'the program is not built'
    fi
    check_match "$1: tern-bench over $2" "^ *$2 / rc_verbs " "${with_ucx[@]}" env UCX_LOG_LEVEL=error \
        "$3" latency --quick --transport "$2"
}

# A UCX that says that it is of a release that nobody knows.
unknown_tests() {
    local says="was built for UCX 1\.[0-9]+ and fits UCX 1\.13 to 1\.22, and this is UCX 1\.99\.0; build it for this one"
    echo 'void ucp_get_version(unsigned* major, unsigned* minor, unsigned* patch) { *major = 1; *minor = 99; *patch = 0; }
        const char* ucp_get_version_string(void) { return "1.99.0"; }' |
        cc -shared -fPIC -o "$tmp/unknown.so" -x c - || { echo 'Bail out! cc cannot compile'; exit 1; }
    local launcher=("${hca[@]}" env LD_PRELOAD="$soft_hca:$tmp/unknown.so")
    if [ -x ./rwapi-job ]; then
        refuses 'rwapi refuses a release that it does not know' 1 "^rwapi: librwapi $says" \
            "${launcher[@]}" env RWAPI_TLS=rc_verbs ./rwapi-job traffic
        result "$([ "$(grep -c '^rwapi: ' "$tmp/stderr")" = 1 ]; echo $?)" 'in one line' "$tmp/stderr"
    else
        skip 'rwapi refuses a release that it does not know' 'the program is not built'
    fi
    refuses 'so does tern-bench' 3 "tern-bench $says" \
        "${launcher[@]}" "$(dirname "$SOFTHCA")/tern-bench" latency --quick --transport rc_verbs
}

# release_tests RELEASE PREFIX: the installed transport for it.
release_tests() {
    local release=$1 at=() run load
    use_ucx "$2"
    [ "$2" = /usr ] || at=(-I"$2/include" -L"$2/lib" "-Wl,-rpath-link,$2/lib")
    run=("${with_ucx[@]}" "$root_commands/tern-run" --soft-hca)
    load=("${with_ucx[@]}" env LD_PRELOAD="$root_library:$soft_hca" "UCX_TLS=tern,self")
    check_match "$release: it is that UCX" "ersion:* *$release" "${with_ucx[@]}" ucx_info -v
    loads "$release: tern-run" "${run[@]}" ucx_info -d -t tern
    loads "$release: preloaded" "${load[@]}" ucx_info -d -t tern
    case $release in
        1.1?.* | 1.2[01].*) ;;
        *) loads "$release: as a plug-in" "${with_ucx[@]}" env LD_PRELOAD="$soft_hca" \
            UCX_PLUGIN_PATH="${root_library%/*}" ucx_info -d -t tern ;;
    esac
    export UCX_NET_DEVICES=$device UCX_RNDV_THRESH=8k UCX_LOG_LEVEL=error
    # Early messages and long ones, between two processes.
    if cc -std=gnu11 -O2 "${at[@]}" -o "$tmp/early" "$srcdir/tern/ucp/early.c" -lucp -lucs 2>"$tmp/compiler"; then
        check "$release: messages, by tern-run" "${run[@]}" "$tmp/early"
        check "$release: messages, preloaded" "${load[@]}" "$tmp/early"
    else
        result 1 "$release: a program compiles" "$tmp/compiler"
    fi
    if [ -x "$2/bin/ucx_perftest" ]; then
        new_port
        pair "$release: UCT" "${run[@]}" ucx_perftest -p "$port" -x tern -d "$device" ::: \
            "${run[@]}" ucx_perftest -p "$port" -x tern -d "$device" -t am_lat -n 2000 -w 10 127.0.0.1
    else
        skip "$release: UCT" "$2 has no ucx_perftest"
    fi
    once_tests "$release" tern "$root_commands/tern-bench"
    unset UCX_NET_DEVICES UCX_RNDV_THRESH UCX_LOG_LEVEL
}

installed_tests() {
    local release prefix root=$tmp/root
    if [ -z "$others" ]; then
        skip 'several releases in one installation' 'this build is for one: configure --with-ucx=PREFIX:PREFIX...'
        return
    fi
    check 'make install' make -C "$build" install DESTDIR="$root" || return
    root_commands=$(dirname "$(find "$root" -path '*/bin/tern-run')")
    root_library=$(find "$root" -path '*/ucx-tern/libuct_tern.so.0')
    check_match 'they are all there' "^$this $others$" \
        sh -c "cd '${root_library%/*}' && echo \$(ls -d [0-9]*/libuct_tern.so.0 | sed 's,/.*,,' | sort -V)"
    release_tests "$this" "$(prefix_of "$build")"
    for release in $others; do release_tests "$release" "$(prefix_of "$build/releases/$release")"; done
    for prefix in ${TERN_TEST_UCX//:/ }; do
        use_ucx "$prefix"
        refused "$prefix, for which nothing is built: preloaded" "it is installed for UCX $this.* and this is UCX" \
            "${with_ucx[@]}" env LD_PRELOAD="$root_library" ucx_info -d
        check_match "$prefix: tern-run" "^tern-run: .*it is installed for UCX $this.* and this is UCX" \
            "${with_ucx[@]}" "$root_commands/tern-run" true
    done
    check 'make uninstall' make -C "$build" uninstall DESTDIR="$root"
    check_match 'nothing is left' '^none$' sh -c "find '$root' ! -type d | grep . || echo none"
}

loader_tests
tern_run_tests
installed_tests
unknown_tests
prefixes=${TERN_TEST_UCX-}
[ -n "$prefixes" ] || skip 'a UCX for which nothing is built' 'TERN_TEST_UCX names none'
for prefix in ${prefixes//:/ }; do
    use_ucx "$prefix"
    once_tests "$prefix, for which nothing is built" rc_verbs "$(dirname "$SOFTHCA")/tern-bench"
done
finish
