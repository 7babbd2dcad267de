# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-3-Clause
#
# Common functions of the tests of the transport, in addition to lib.sh.
#
# tern_library is what programs load, tern_transport the transport that it loads with the UCX of this build.
tern_library=$(dirname "$SOFTHCA")/../.libs/libuct_tern.so.0
tern_library=$(readlink -e "$(dirname "$tern_library")")/libuct_tern.so.0
tern_transport=${tern_library%/.libs/*}/release/.libs/libuct_tern.so.0
if [ ! -e "$tern_library" ]; then
    echo "1..0 # SKIP built without UCX"
    exit 0
fi

# The costs of costs.inc, or those with copies so slow that the superpipeline does not pay.
set_costs() { # fast|slow
    eval "$(sed -n 's/^{"\(.*\)", "\(.*\)"},$/export \1=\2/p' "$(dirname "${BASH_SOURCE[0]}")/../bench/costs.inc")"
    if [ "$1" = slow ]; then UCX_TERN_RNDV_COSTS=${UCX_TERN_RNDV_COSTS/copy=20GBs/copy=900MBs}; fi
}
set_costs fast

# Sets the options of `softhca run` for the commands that follow, which also get the transport.
use_tern() {
    use_hca "$@"
    hca+=("$(dirname "$SOFTHCA")/tern-run" --only --)
}

# The sum of a counter over all interfaces that have written to file $1.
counter() { # file name
    grep -o "\"$2\":[0-9]*" "$1" | awk -F: '{ sum += $2 } END { print sum + 0 }'
}
