#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The verbs conformance tests on rxe. Tests that rxe is known to fail are skipped, with the reason.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
in_guest --env 'CONFORMANCE_*'
# The processor is emulated, so deadlines are longer.
export CONFORMANCE_DEVICE=rxe0 CONFORMANCE_DEADLINE=${CONFORMANCE_DEADLINE:-30}
exec "$srcdir/common/gtest_tap.py" -t 100 "$(dirname "$SOFTHCA")/../../test/verbs-conformance"
