#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Notifications of rwapi on a software HCA that misbehaves: data in pieces and out of order, late
# completions, receivers without buffers.
# shellcheck source-path=SCRIPTDIR source=cases.sh
. "$(dirname "$0")/cases.sh"
for RWAPI_NOTIFY in fence flush; do
    export RWAPI_NOTIFY
    cases 4 '--faults segment=512:20us,out-of-order' order slots signals traffic kinds lists polled polled-stream
done
# A device that promises no order between two writes needs flushes, which are the default over rc_verbs.
cases 4 '--faults swap-writes' order
# Long transfers in pieces.
export RWAPI_MAX_TRANSFER=1000
cases 4 '--faults segment=512:20us,out-of-order' puts-and-gets slots lists
cases 4 '' killed-peer
unset RWAPI_NOTIFY
cases 4 '' puts-and-gets slots killed-peer freed-memory
unset RWAPI_MAX_TRANSFER
cases 4 '--faults delay-completions=200us' puts-and-gets atomics lists
RWAPI_LOG=debug cases 4 '--faults delay-completions=20ms' replaced-keys
# Of each peer's 40 keys, all but the last few are released.
keys=$(grep -c 'region .* has [1-9][0-9]* bytes$' "$tmp/output")
released=$(grep -c 'region .* its key is released$' "$tmp/output")
[ "$keys" -ge 160 ] && [ "$released" -ge $((keys * 3 / 4)) ]
result $? "keys that are replaced are released: $released of $keys"
cases 4 '--faults rnr=5' slots traffic
export RWAPI_TLS=rc_verbs
loader=()
for RWAPI_NOTIFY in fence flush; do
    export RWAPI_NOTIFY
    cases 4 '--faults segment=512:20us,out-of-order' slots traffic
done
unset RWAPI_NOTIFY
cases 4 '--faults swap-writes' order
export RWAPI_MAX_TRANSFER=1000
cases 4 '' puts-and-gets slots lists killed-peer freed-memory lost-error
finish
