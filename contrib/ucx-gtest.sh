#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Usage: [UCX_SELECTION=ci] contrib/ucx-gtest.sh [--build-only]
#
# Builds UCX's own gtest in build/ucx-gtest, unless it is there already: from the Debian source package of exactly the
# installed UCX version, with `tern` in its lists of transports; for UCX_SELECTION=ci without some files that CI's
# selection does not need. It is linked with the installed libraries. Then builds Tern in build/check and runs
# `make check-ucx`: all of UCX's tests over Tern on the software HCA. See docs/tern/ucx-versions.md.
. "$(dirname "$0")/common.sh"
by_hand="UCX's tests cannot be built without it"
. contrib/ucx-source.sh

folder=$source_dir/build/ucx-gtest
selection=${UCX_SELECTION:-all}

# edit FILE 'sed script'...: edits a file. An edit that changes nothing is an error: the file is not the expected one.
edit() {
    local file=$1 script
    shift
    for script; do
        sed -i.before -E "$script" "$file"
        ! cmp -s "$file" "$file.before" || die "$file of $package $version is not laid out as expected; no match for $script"
    done
    rm "$file.before"
}

# Adds Tern to the lists of transports. Instances of tests are called tern/...; those of other transports rc_verbs/...
# (UCT), ib/... (memory domains) or rc/... (UCP).
add_tern() {
    edit uct/uct_test.h 's/^(#define UCT_TEST_NO_SELF_TLS .*)$/\1\n    tern, \\/'
    edit uct/test_md.cc '/^#define UCT_MD_INSTANTIATE_TEST_CASE/,/knem/ s/knem,/tern, knem,/'
    edit uct/test_tag.cc 's/^UCT_TAG_INSTANTIATE_TEST_CASE\(test_tag\)$/&\n_UCT_INSTANTIATE_TEST_CASE(test_tag, tern)/'
    edit ucp/ucp_test.h \
        's/^#define UCP_INSTANTIATE_TEST_CASE\(_test_case\) \\$/&\n    UCP_INSTANTIATE_TEST_CASE_TLS(_test_case, tern, "tern") \\/' \
        's/^#define UCP_INSTANTIATE_TEST_CASE_GPU_AWARE\(_test_case\) \\$/&\n    UCP_INSTANTIATE_TEST_CASE_TLS_GPU_AWARE(_test_case, tern, "tern") \\/'
    edit ucp/test_ucp_tag_offload.cc \
        's/^#define UCP_INSTANTIATE_TAG_OFFLOAD_TEST_CASE\(_test_case\) \\$/&\n    UCP_INSTANTIATE_TEST_CASE_TLS(_test_case, tern, "tern") \\/'
    # The test knows the transports that can cancel outstanding operations by name.
    edit uct/test_flush.cc 's/^( *if \()\(GetParam\(\)->tl_name != "dc_mlx5"\) &&$/\1(GetParam()->tl_name != "tern") \&\& (GetParam()->tl_name != "dc_mlx5") \&\&/'
    edit ucp/test_ucp_sockaddr.cc \
        's/^#define UCP_INSTANTIATE_CM_TEST_CASE\(_test_case\) \\$/&\n    UCP_INSTANTIATE_TEST_CASE_TLS_GPU_AWARE(_test_case, tern, "tern") \\/'
}

# Tests of other parts than transports, and of UCX's own transports, take almost half of the compiler's time; those that
# CI does not select (test/tern/ucx/lib.sh) a sixth.
leave_out() {
    edit Makefile.am '/^\tucs\/test_.*\\$/d' '/^gtest_SOURCES \+= \\$/ { N; /uct\/ib/ { :more; /\\$/ { N; b more }; d } }'
    [ "$selection" != ci ] || edit Makefile.am \
        "/^\\tucp\/test_ucp_(context|dt|ep|mem_type|mmap|perf|proto|request|sockaddr|stream|tls|worker)\.cc/d" \
        "/^\\tucp\/test_ucp_tag_(cancel|mem_type|mt|offload|perf|xfer)\.cc/d"
}

# The options with which the installed UCX was configured, except folders.
options() {
    ucx_info -v | sed -n 's/^# Configured with: //p' | tr ' ' '\n' | grep -E '^--(enable|disable|with|without)-' |
        grep -vxE -- '--enable-examples|--disable-(silent-rules|option-checking)'
}

# The installed libraries, and those of the tests themselves.
libraries() {
    local folder
    folder=$(pkg-config --variable=libdir ucx)/ucx
    echo "$PWD/src/tools/perf/lib/libucxperf.la $PWD/test/gtest/common/googletest/libgtest.la -lucp -luct -lucs -lucm" \
        "-L$folder -luct_ib -Wl,-rpath,$folder -libverbs -fopenmp"
}

build_gtest() {
    local configure_options
    mapfile -t configure_options < <(options)
    rm -rf "$folder"
    mkdir -p "$folder"
    (
        fetch_ucx_source
        cp -a "$tree/." "$folder"
    )
    cd "$folder"
    (cd test/gtest && add_tern && leave_out)
    autoreconf -i
    # Speed of the tests does not matter, so these are the options that build fastest. UCX's configure gives both
    # compilers the C flags, with which its tests compile at -O0 and at -O2, but not at -O1.
    ./configure --prefix="$folder/none" "${configure_options[@]}" --enable-gtest --disable-static --without-java \
        --without-go --disable-doxygen-doc CFLAGS='-O1 -g0 -Wno-error'
    make -s -j"$(nproc)" -C src/tools/perf/lib libucxperf_la_DEPENDENCIES= libucxperf_la_LIBADD= &&
        make -s -j"$(nproc)" -C test/gtest/common/googletest &&
        make -s -j"$(nproc)" -C test/gtest CXXFLAGS='-O0 -g0 -Wno-error' gtest_DEPENDENCIES= \
            gtest_LDADD="$(libraries)" gtest
}

install_packages build 'make check'
installed_ucx
built=$(cat "$folder/.built" 2>/dev/null) || built=
if [ "$built" != "$version all" ] && [ "$built" != "$version $selection" ]; then
    say "building UCX's gtest (log in build/ucx-gtest.log)"
    mkdir -p build
    (build_gtest) >build/ucx-gtest.log 2>&1 || { tail -n 30 build/ucx-gtest.log; die "the build failed"; }
    echo "$version $selection" >"$folder/.built"
fi
[ "${1:-}" != --build-only ] || exit 0

build_to_check
make -C build/check check-ucx
