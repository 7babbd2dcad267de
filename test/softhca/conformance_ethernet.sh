#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# On the device that TERN_PERSONALITY has imitated.
exec "$(dirname "$0")/conformance.sh" --link-layer ethernet --personality "${TERN_PERSONALITY:-default}"
