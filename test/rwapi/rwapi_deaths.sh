#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Jobs of rwapi whose processes die or leave, with the default time-outs of the transports: the other tests shorten them.
# shellcheck source-path=SCRIPTDIR source=cases.sh
. "$(dirname "$0")/cases.sh"
unset UCX_TERN_TIMEOUT UCX_TERN_RETRY_COUNT UCX_TERN_CONNECT_TIMEOUT \
    UCX_RC_VERBS_TIMEOUT UCX_RC_VERBS_RETRY_COUNT UCX_UD_VERBS_TIMEOUT
# shellcheck disable=SC2154 # of cases.sh
deaths="$(printf '%s\n' "$all_cases" | tr ' ' '\n' | grep '^killed-') left"
# shellcheck disable=SC2086 # a list
cases 3 '' $deaths
cases 2 '' killed-waits
export RWAPI_TLS=rc_verbs
loader=()
# shellcheck disable=SC2086
cases 3 '' $deaths
finish
