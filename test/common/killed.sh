# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: BSD-3-Clause
#
# Kills a peer of ucx_perftest. Sourced after lib.sh; `hca` is the launcher of the commands.

# killed NAME victim test [SIZE]: kills the server or the client in the middle of a test that would not end by itself.
# The survivor's endpoint must fail within the limit. (The survivor need not exit: ucx_perftest's own connection may
# wait for ever for a dead peer.)
killed() {
    local -x UCX_TERN_TIMEOUT=200ms # a dead peer is found out after seven times this
    local name=$1 victim=$2 test=$3 size=${4:-4096} server_pid client_pid victim_pid survivor status=1 tick iterations=2000000000
    # The target of puts counts up to the number of iterations before it makes any progress.
    [[ $test != ucp_put* ]] || iterations=20000000
    new_port
    start "$tmp/server" "${hca[@]}" ucx_perftest -p "$port" -e
    server_pid=$pid
    wait_for_server "$server_pid"
    start "$tmp/client" "${hca[@]}" ucx_perftest -p "$port" -e -t "$test" -s "$size" -n "$iterations" 127.0.0.1
    client_pid=$pid
    disown "$server_pid" "$client_pid" # otherwise bash reports their end
    for ((tick = 0; tick < limit * 10; tick++)); do # until the first report of progress
        grep -q '^\[thread' "$tmp/client" && break
        kill -0 "$client_pid" 2>/dev/null || break
        sleep 0.1
    done
    # What is to be seen is that a peer fails in the middle, because it is killed.
    if ! grep -q '^\[thread' "$tmp/client" || grep -q 'error handler called' "$tmp/server" "$tmp/client"; then
        kill -KILL -- "-$server_pid" "-$client_pid" 2>/dev/null
        pids=()
        result 1 "$name (it failed before the kill)" "$tmp/server" "$tmp/client"
        return
    fi
    if [ "$victim" = server ]; then
        victim_pid=$server_pid survivor=client
    else
        victim_pid=$client_pid survivor=server
    fi
    kill -KILL -- "-$victim_pid" 2>/dev/null
    for ((tick = 0; tick < limit * 10; tick++)); do
        if grep -q 'error handler called' "$tmp/$survivor"; then
            status=0
            break
        fi
        sleep 0.1
    done
    kill -KILL -- "-$server_pid" "-$client_pid" 2>/dev/null
    pids=()
    result $status "$name" "$tmp/server" "$tmp/client"
}
