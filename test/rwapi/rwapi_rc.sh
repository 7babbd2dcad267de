#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Jobs of rwapi over UCX's own rc_verbs on the software HCA, whose endpoints ud_verbs connects.
# shellcheck source-path=SCRIPTDIR source=cases.sh
. "$(dirname "$0")/cases.sh"
export RWAPI_TLS=rc_verbs
loader=()
# shellcheck disable=SC2086,SC2154 # a list
cases 4 '' $all_cases
finish
