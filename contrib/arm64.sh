#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR
#
# Usage: contrib/arm64.sh [FILTER]
#
# Builds the software HCA, its commands, the unit tests and those of the engine for arm64 by Debian's cross compiler
# (g++-aarch64-linux-gnu), and runs the tests by qemu-user: FILTER is one of GoogleTest's for those of the engine. The
# libraries are in a folder of their own, which mmdebstrap fills: nothing of arm64 is installed here. Prints TAP.
. "$(dirname "$0")/common.sh"

folder=build/arm64
# The first needs pages that cannot be written to, which /proc/PID/mem does not heed. The others exchange or forge many
# messages, which takes long under qemu.
engine_filter='-*ReadThatLosesItsPinGetsARing:*NothingIsLostOrReordered:*TransferFuzzTest.*'
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
    make -C $folder/test -s -j"$(nproc)" softhca-unit tern-unit tern-engine
    aarch64-linux-gnu-gcc "--sysroot=$root" -Wall -Werror -O1 -shared -fPIC -o $folder/test/process_memory.so \
        test/tern/arm64/process_memory.c
} >&2

export SOFTHCA_FABRIC=test-arm64-$$ TERN_TEST_PATIENCE=4
trap 'qemu-aarch64 -L "$root" "$source_dir/$folder/src/tools/softhca" clean >/dev/null' EXIT
trap 'exit 1' HUP INT TERM

tests() { # filter qemu's options, program
    local filter=$1
    shift
    "$source_dir/test/common/gtest_tap.py" -t 600 qemu-aarch64 -L "$root" "$@" --gtest_filter="$filter" || failed=yes
}

# qemu-user does not show the threads, the end or the stop of other processes, nor their memory, as the kernel does, and
# has no ptrace. The models of all orders of events take long even without qemu.
cd $folder/test
device=$PWD/process_memory.so:$(realpath ../src/softhca/.libs/libsofthca.so)
{
    failed=no
    tests '-FabricTest.*:HostTest.*:OwnerTest.Numbers*:ProcessMemoryTest.*:*OrderedCopyTest.*:*KillAnywhereTest.*' ./softhca-unit
    tests '-*EveryOrderOfEvents*:TupleSchedules.*' ./tern-unit
    tests "${1:-$engine_filter}" -E "LD_PRELOAD=$device" -E SOFTHCA_FAULTS=stale-cq ./tern-engine
    # One program's lines after the other's, with one plan.
    [ $failed = no ]
} | awk '
    /^1\.\.[0-9]/ { sum += substr($0, 4); next }
    /^(not )?ok / { sub(/ok [0-9]+/, "ok " ++n) }
    { print }
    END { print "1.." sum }'
