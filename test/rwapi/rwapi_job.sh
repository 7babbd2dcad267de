#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Jobs of rwapi over Tern on the software HCA, and the program of docs/rwapi/rwapi.md. RWAPI_CASES: these cases only.
# TERN_PERSONALITY: the device that is imitated.
export SOFTHCA_PERSONALITY=${TERN_PERSONALITY:-default}
# shellcheck source-path=SCRIPTDIR source=cases.sh
. "$(dirname "$0")/cases.sh"
if [ -n "${RWAPI_CASES:-}" ]; then
    # shellcheck disable=SC2086 # a list
    cases 4 '' $RWAPI_CASES
    finish
    exit
fi
# shellcheck disable=SC2086,SC2154 # a list
cases 4 '' $all_cases
cases 2 '' writes small-messages traffic threads killed-waits
# Notifications that are repeated are writes with immediate data.
cases 4 '' repeats stale-repeats slots signals sleep traffic threads killed-peer \
    killed-waits sleeping-threads woken-sleepers
cases 1 '' many-contexts another-start atomics
cases 2 '--personality bnxt_re' atomics # has none
# Each process has three contexts at first, and two register the same memory for the same use.
RWAPI_LOG=debug cases 2 '' shared-registration
[ "$(grep -c 'memory domain .*: is opened$' "$tmp/output")" = 2 ] &&
    [ "$(grep -c 'memory domain .*: is shared$' "$tmp/output")" = 6 ] &&
    [ "$(grep -c '^rwapi: region .*: 1048576 bytes at .*; their registration is shared$' "$tmp/output")" = 2 ]
result $? 'contexts share the memory domain and registrations'
# As the defaults have it, the end of a peer is noticed long before a connection request would be given up.
unset UCX_TERN_TIMEOUT UCX_TERN_RETRY_COUNT UCX_TERN_CONNECT_TIMEOUT
cases 3 '' killed-early killed-and-left left

# shellcheck disable=SC2016 # a script
keep_going=--keep-going job 3 '' sh -c '
    [ "$PMI_RANK" = 2 ] || exec ./rwapi-job killed-early
    RWAPI_TLS=nosuch ./rwapi-job killed-early
    sleep 2' # its address can be had
[ "$(grep -c 'rwapi: node 2 has no transport: its own messages say why' "$tmp/output")" = 2 ] &&
    ! grep -q '_cases.cc:\|job.cc:' "$tmp/output"
result $? 'nobody waits for a process that has no transport'
# shellcheck disable=SC2016
keep_going=--keep-going job 3 '--personality default' sh -c '[ "$PMI_RANK" != 1 ] || export RWAPI_TLS=rc_verbs; exec ./rwapi-job small-messages'
[ $? = 1 ] && grep -q 'rwapi: node 0 uses the transport tern, this process rc_verbs: set RWAPI_TLS' "$tmp/output"
result $? 'a process with another transport is told at the start' # rc_verbs needs the default device

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
library=$(cd ../src/.libs && pwd)
# shellcheck disable=SC2016 # the quotes are Markdown's
sed -n '/^```c$/,/^```$/p' "$source_folder/docs/rwapi/rwapi.md" | sed '/^```/d' >"$tmp/first.c"
result $(($(wc -l <"$tmp/first.c") > 30)) 'the first program of docs/rwapi/rwapi.md is short'
# A sanitizer's run-time library must be the program's too.
compiler=${CC:-cc}
case $(ldd ./rwapi-job) in
    *libasan*) flags=('-fsanitize=address,undefined') ;;
    *libtsan*) flags=(-fsanitize=thread) ;;
    *clang_rt.asan*)
        compiler=clang
        flags=('-fsanitize=address,undefined' -shared-libsan "-Wl,-rpath,$(clang -print-runtime-dir)")
        ;;
    *) flags=(-pedantic -Werror) ;;
esac
$compiler -std=c99 -Wall -Wextra "${flags[@]}" -I"$source_folder/src/rwapi/include" "$tmp/first.c" -o "$tmp/first" \
    -L"$library" -lrwapi -Wl,-rpath,"$library" >"$tmp/output" 2>&1
result $? 'it compiles'
keep_going=
job 3 '' "$tmp/first" &&
    [ "$(grep -cx 'node 0: node 2 says hello\|node 1: node 0 says hello\|node 2: node 1 says hello' "$tmp/output")" = 3 ]
result $? 'it runs'
finish
