#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tests of the transport through UCX's own interface, on the software HCA, on their own fabric. Arguments are
# options of `softhca run`. TERN_PERSONALITY: the device that is imitated.
if [ ! -x ./tern-uct ]; then
    echo "1..0 # SKIP built without UCX"
    exit 0
fi
export SOFTHCA_FABRIC=test-uct-$$ SOFTHCA_PERSONALITY=${TERN_PERSONALITY:-default}
export UCX_LOG_LEVEL=error
"$(dirname "$0")/../common/gtest_tap.py" "$SOFTHCA" run "$@" -- "$(dirname "$SOFTHCA")/tern-run" -- ./tern-uct
status=$?
"$SOFTHCA" clean >/dev/null
exit $status
