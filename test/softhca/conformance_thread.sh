#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Always the default personality: others lack features, and the tests of these features are skipped.
exec "$(dirname "$0")/conformance.sh" --executor thread --personality default
