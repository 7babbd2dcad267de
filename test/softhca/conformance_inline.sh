#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# On the device that TERN_PERSONALITY has imitated, with on-demand paging.
exec "$(dirname "$0")/conformance.sh" --executor inline --personality "${TERN_PERSONALITY:-default}" \
    --rules odp=1
