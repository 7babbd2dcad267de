# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-3-Clause
#
# What tests of the transport share, besides lib.sh.
tern_library=$(dirname "$SOFTHCA")/../.libs/libuct_tern.so.0
tern_library=$(readlink -e "$(dirname "$tern_library")")/libuct_tern.so.0
if [ ! -e "$tern_library" ]; then
    echo "1..0 # SKIP built without UCX"
    exit 0
fi
