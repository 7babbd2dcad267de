#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Builds the software HCA, its commands and the unit tests for arm64 by Debian's cross compiler (g++-aarch64-linux-gnu),
# and runs the unit tests by qemu-user. The libraries are in a folder of their own, which mmdebstrap fills: nothing of
# arm64 is installed here. Prints TAP.
. "$(dirname "$0")/common.sh"

folder=build/arm64
root=$source_dir/build/arm64-root
for command in aarch64-linux-gnu-g++ qemu-aarch64 mmdebstrap; do
    command -v $command >/dev/null || die "$command is missing: install g++-aarch64-linux-gnu, qemu-user and mmdebstrap"
done

{
    [ -d "$root/usr/include" ] || mmdebstrap --quiet --variant=extract --architectures=arm64 \
        --include=libc6-dev,libcli11-dev,libgmock-dev,libgtest-dev,libibverbs-dev,librdmacm-dev,libstdc++-12-dev \
        --include=nlohmann-json3-dev bookworm "$root"
    [ configure -nt configure.ac ] || autoreconf -i
    mkdir -p $folder
    (cd $folder && "$source_dir/configure" --quiet --host=aarch64-linux-gnu --without-ucx --enable-werror \
        CC="aarch64-linux-gnu-gcc --sysroot=$root" CXX="aarch64-linux-gnu-g++ --sysroot=$root" CXXFLAGS='-g1 -O1')
    make -C $folder -s -j"$(nproc)"
    make -C $folder/test -s -j"$(nproc)" tern-unit softhca-unit
} >&2

# One program's lines of TAP after the other's, with one plan.
cd $folder/test
for program in softhca-unit tern-unit; do
    # The models of all orders of events take long even without qemu. qemu-user does not show the threads, the end or the
    # stop of other processes as the kernel does, which FabricTest and HostTest are about.
    "$source_dir/test/gtest_tap.sh" -t 600 qemu-aarch64 -L "$root" ./$program \
        --gtest_filter='-*EveryOrderOfEvents*:TupleSchedules.*:FabricTest.*:HostTest.*'
done | awk '/^1\.\.[0-9]/ { sum += substr($0, 4); next } /^(not )?ok / { sub(/ok [0-9]+/, "ok " ++n) } { print } END { print "1.." sum }'
