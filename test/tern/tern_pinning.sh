#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The test PinningStorm with the memory allocators that are installed, instead of the C library's.
export SOFTHCA_FABRIC=test-pinning-$$
unset TERN_PINNING_STORM
allocators=$(ldconfig -p | awk '$1 ~ /^lib(jemalloc|tcmalloc_minimal|mimalloc)\.so\./ { print $NF }')
if [ -z "$allocators" ]; then
    echo "1..0 # SKIP there is neither jemalloc nor tcmalloc nor mimalloc"
    exit 0
fi
if ldd ./tern-engine | grep -q 'lib[at]san'; then
    echo "1..0 # SKIP a sanitizer is the allocator"
    exit 0
fi
number=0
status=0
for allocator in $allocators; do
    number=$((number + 1))
    name="userfaultfd under $(basename "$allocator")"
    # shellcheck disable=SC2016 # the device's library is preloaded, too, and must come first
    if output=$(timeout -k 5 300 "$SOFTHCA" run -- bash -c 'export LD_PRELOAD="$LD_PRELOAD:$1"; exec "$0" "$2"' \
        ./tern-engine "$allocator" '--gtest_filter=*PinningStorm*userfaultfd*' 2>&1); then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        sed 's/^/# /' <<<"$output" | tail -50
        status=1
    fi
done
echo "1..$number"
"$SOFTHCA" clean >/dev/null
exit $status
