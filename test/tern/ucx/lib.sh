# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# UCX's own gtest over Tern on the software HCA, compared with stock UCX on the same device. A script sets its
# configuration, sources this file and calls `judge`. It prints TAP: one line for each of UCX's tests.
#
#   ok                 the test passes over Tern
#   ok # SKIP          the test is skipped over Tern and does not pass over the stock transport; or it fails over both
#   not ok             the test fails, hangs or dies over Tern, or is skipped, but not over the stock transport
#   not ok # TODO      the same, and departures.txt gives the verdict and its reason
#   ok # TODO          departures.txt says that the test differs, but it passes: this counts as a failure
#
# By hand: SOFTHCA=path/to/softhca test/tern/ucx/uct.sh ['FILTER']. TERN_PERSONALITY: the device that is imitated.
# UCX_GTEST_DEVICE=mlx5_0:1: on this device in place of the software HCA, with the time-outs of Tern's defaults.
set -u

srcdir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
gtest_folder=${UCX_GTEST:-$srcdir/../build/ucx-gtest}
configuration=$(basename "$0" .sh)
program=$gtest_folder/test/gtest/gtest
if [ ! -x "$program" ]; then
    echo "1..0 # SKIP UCX's gtest is not built: run contrib/ucx-gtest.sh --build-only"
    exit 0
fi

export SOFTHCA_FABRIC=test-ucx-$configuration-$$ SOFTHCA_PERSONALITY=${TERN_PERSONALITY:-default}
if [ -n "${UCX_GTEST_DEVICE:-}" ]; then
    hca=()
    export UCX_NET_DEVICES=$UCX_GTEST_DEVICE
else
    hca=("$SOFTHCA" run --)
    # The device answers at once, so short timeouts suffice. UCX's tests also shorten the timeouts of its own transports.
    export UCX_TERN_TIMEOUT=10ms UCX_TERN_RETRY_COUNT=2 UCX_TERN_CONNECT_TIMEOUT=6s
fi
export UCX_TERN_TX_QUEUE_LEN=32
# UCX's own transports ask for 4096 receives, which not every device's queues have.
export UCX_RC_VERBS_RX_QUEUE_LEN=1024 UCX_UD_VERBS_RX_QUEUE_LEN=1024
export UCX_WARN_UNUSED_ENV_VARS=n
export GTEST_TAP_RESTARTS=200
limit=${UCX_GTEST_LIMIT:-120} # seconds, for one test; some take 40 over any transport

tmp=$(mktemp -d) || exit 1
clean_up() {
    "$SOFTHCA" clean --fabric "$SOFTHCA_FABRIC" >/dev/null 2>&1
    rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

# The name of the same test over the stock transport.
control_of() { # name
    case $1 in
        tern/test_md*) echo "ib/${1#tern/}" ;;
        tern/*ucp*) echo "rc/${1#tern/}" ;;
        tern/*) echo "rc_verbs/${1#tern/}" ;;
    esac
}

# CI's selection: tests of the transport's own decisions, of a few minutes in all, in two parts, so that each can have a
# processor. Those of the first part wait for time-outs most of the time.
ci_ucp_waiting='tern/test_ucp_peer_failure*:tern/test_ucp_wireup_1sided.send_disc*'
ci_ucp_others='tern/test_ucp_rma*:tern/test_ucp_fence*:tern/test_ucp_atomic*:tern/test_ucp_wakeup*'
ci_ucp_others+=':tern/test_ucp_tag_match*:tern/test_ucp_tag_probe*:tern/test_ucp_am_nbx_align*'
# Of messages of gigabytes, two of seven ways: puts, and gets by the newer protocols.
huge=tern/test_ucp_tag_match_rndv.exp_huge_mix
ci_ucp_others+=-$huge/0:$huge/1:$huge/3:$huge/4:$huge/6

# Tests of UCP, except those of socket addresses.
ucp_filter() {
    case ${UCX_SELECTION:-all} in
        ci) echo "$ci_ucp_waiting:$ci_ucp_others" ;;
        ci-waiting) echo "$ci_ucp_waiting" ;;
        ci-others) echo "$ci_ucp_others" ;;
        *) echo 'tern/*ucp*:-tern/*sockaddr*:tern/*tag_offload*' ;;
    esac
}

run_over_tern() { # filter
    "$srcdir/common/gtest_tap.py" -t "$limit" ${hca[@]+"${hca[@]}"} "$(dirname "$SOFTHCA")/tern-run" -- "$program" \
        --gtest_filter="$1"
}

run_over_stock() { # filter
    "$srcdir/common/gtest_tap.py" -t "$limit" ${hca[@]+"${hca[@]}"} "$program" --gtest_filter="$1"
}

# Converts TAP to lines "NAME<tab>VERDICT<tab>REASON". The verdicts are ok, failed and skipped.
verdicts() {
    sed -nE -e 's/^ok [0-9]+ - ([^ ]+) # SKIP ?(.*)$/\1\tskipped\t\2/p;t' \
        -e 's/^ok [0-9]+ - ([^ ]+)$/\1\tok\t/p;t' -e 's/^not ok [0-9]+ - ([^ ]+).*$/\1\tfailed\t/p'
}

# The verdict that a test must have by departures.txt, and the reason: "VERDICT<tab>REASON". Empty: it may not differ.
departure() { # name
    local where pattern verdict reason
    while IFS=$'\t' read -r where pattern verdict reason; do
        [[ $where != '#'* && -n $reason ]] || continue
        # shellcheck disable=SC2053,SC2254 # patterns
        case $configuration in $where) ;; *) continue ;; esac
        # shellcheck disable=SC2053
        [[ $1 == $pattern ]] && echo "$verdict"$'\t'"$reason" && return
    done <"$srcdir/tern/ucx/departures.txt"
}

# What a test that failed over Tern has printed.
output_of() { # name
    awk -v name="$1" '
        /^(not )?ok / { shown = $0 ~ /^not ok/ && index($0, " - " name) }
        /^#/ && shown { print }' "$tmp/tern.tap"
}

# judge FILTER: a gtest filter for tests whose names begin with tern/.
judge() {
    local filter=$1 name verdict reason why control names=() number=0
    declare -A stock=()
    if ! run_over_tern "$filter" >"$tmp/tern.tap" || grep -q '^Bail out' "$tmp/tern.tap"; then
        grep '^Bail out' "$tmp/tern.tap" && exit 1
    fi
    verdicts <"$tmp/tern.tap" >"$tmp/tern"
    # Tests that do not pass run over the stock transport too, except those that are expected to differ.
    while IFS=$'\t' read -r name verdict reason; do
        [ "$verdict" = ok ] || [ -n "$(departure "$name")" ] || names+=("$(control_of "$name")")
    done <"$tmp/tern"
    if [ ${#names[@]} -gt 0 ]; then
        run_over_stock "$(IFS=:; echo "${names[*]}")" | verdicts >"$tmp/stock"
        while IFS=$'\t' read -r name verdict reason; do stock[$name]=$verdict; done <"$tmp/stock"
    fi
    while IFS=$'\t' read -r name verdict reason; do
        number=$((number + 1))
        why=$(departure "$name")
        control=${stock[$(control_of "$name")]:-absent}
        if [ -n "$why" ] && [ "$verdict" = "${why%%$'\t'*}" ]; then
            echo "not ok $number - $name # TODO $verdict: ${why#*$'\t'}"
        elif [ -n "$why" ] && [ "$verdict" != ok ]; then
            echo "not ok $number - $name"
            echo "# $verdict over tern, and departures.txt says ${why%%$'\t'*}"
            output_of "$name"
        elif [ -n "$why" ]; then
            echo "ok $number - $name # TODO it passes: strike it off departures.txt"
        elif [ "$verdict" = ok ]; then
            echo "ok $number - $name"
        elif [ "$verdict" = "$control" ]; then
            echo "ok $number - $name # SKIP ${reason:-$verdict} (over the stock transport too)"
            output_of "$name" | tail -n 5
        elif [ "$verdict" = skipped ] && [ "$control" != ok ]; then
            echo "ok $number - $name # SKIP $reason ($control over the stock transport)"
        else
            echo "not ok $number - $name"
            echo "# $verdict over tern ${reason:+($reason) }and $control over the stock transport"
            output_of "$name"
        fi
    done <"$tmp/tern"
    echo "1..$number"
}
