#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A site's settings: UCX_IB_NAME counts where UCX_TERN_NAME is not set, from the environment and from ucx.conf, for each
# row of the table in docs/tern/running.md and for nothing else.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=tern.sh
. "$(dirname "$0")/tern.sh"
require ucx_info
tern_run=$(dirname "$SOFTHCA")/tern-run
unset LD_PRELOAD UCX_TLS UCX_PLUGIN_PATH "${!UCX_IB_@}" "${!UCX_TERN_@}"
mkdir "$tmp/site"
export UCX_WARN_UNUSED_ENV_VARS=n UCX_CONFIG_DIR=$tmp/site

# Two values of each setting, the first of which is not its default, as UCX prints them.
declare -A values=([SL]='5 3' [TRAFFIC_CLASS]='33 44' [PKEY]='0x7fff 0x1' [GID_INDEX]='1 0' [IS_GLOBAL]='y n'
    [PATH_MTU]='512 1024' [NUM_PATHS]='3 2' [ROCE_LOCAL_SUBNET]='y n'
    [PCI_RELAXED_ORDERING]='on off' [FORK_INIT]='y n')

# What Tern's setting is, with these variables.
setting() { # NAME variable...
    local name=$1
    shift
    env "$@" "$tern_run" ucx_info -c | sed -n "s/^UCX_TERN_$name=//p" | sort -u
}

counts() { # NAME site's-value own-value
    [ "$(setting "$1" "UCX_IB_$1=$2")" = "$2" ] || return
    [ "$(setting "$1" "UCX_IB_$1=$2" "UCX_TERN_$1=$3")" = "$3" ] || return
    echo "UCX_IB_$1=$2" >"$tmp/site/ucx.conf"
    [ "$(setting "$1")" = "$2" ] && [ "$(setting "$1" "UCX_TERN_$1=$3")" = "$3" ]
    local status=$?
    rm "$tmp/site/ucx.conf"
    return $status
}

# shellcheck disable=SC2016 # backquotes of the page
sed -n '/^<!-- test: site -->/,/^$/s/^| `UCX_IB_\([A-Z_]*\)`.*/\1/p' "$srcdir/../docs/tern/running.md" | sort >"$tmp/page"
"$tern_run" ucx_info -cf | sed -n '/inherits:  UCX_IB_/,/^UCX_/s/^UCX_TERN_\([A-Z_]*\)=.*/\1/p' | sort -u >"$tmp/shared"
check 'the table has the settings that Tern shares' diff "$tmp/page" "$tmp/shared"
while read -r name; do
    # shellcheck disable=SC2086 # two words
    counts "$name" ${values[$name]-}
    result $? "UCX_IB_$name counts, and UCX_TERN_$name more"
done <"$tmp/page"
finish
