#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tests of the transport through UCX's own interface, on the software HCA, on their own fabric. Arguments are
# options of `softhca run`.
if [ ! -x ./tern-uct ]; then
    echo "1..0 # SKIP built without UCX"
    exit 0
fi
export SOFTHCA_FABRIC=test-uct-$$
export UCX_LOG_LEVEL=error
"$(dirname "$0")/gtest_tap.sh" "$SOFTHCA" run "$@" -- "$(dirname "$SOFTHCA")/tern-run" -- ./tern-uct
status=$?
"$SOFTHCA" clean >/dev/null
exit $status
