# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-3-Clause
#
# Common functions of the integration tests. A test sources this file, calls check, pair and so on, and ends with
# `finish`. Each test prints TAP. By hand: SOFTHCA=path/to/softhca test/PRODUCT/NAME.sh
set -u

SOFTHCA=${SOFTHCA:-$(command -v softhca)} || { echo "Bail out! set SOFTHCA to the softhca command"; exit 1; }
[ -x "$SOFTHCA" ] || { echo "Bail out! there is no command $SOFTHCA"; exit 1; }
srcdir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
limit=${limit:-300} # seconds, for each command; only one that hangs takes so long
max_lines=100       # of the output of a failed command
count=0
failures=0
port=0
device=softhca0:1
hca=("$SOFTHCA" run --) # the launcher of a command on the software HCA
pids=()

# A separate fabric for each test, so that tests can run at the same time.
SOFTHCA_FABRIC=test-$(basename "$0" .sh)-$$
export SOFTHCA_FABRIC
tmp=$(mktemp -d) || exit 1

clean_up() {
    local pid
    for pid in ${pids[@]+"${pids[@]}"}; do
        kill -KILL -- "-$pid" 2>/dev/null
    done
    "$SOFTHCA" clean --fabric "$SOFTHCA_FABRIC" >/dev/null 2>&1 # not those of tests that run beside
    rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

# Sets the options of `softhca run` for the commands that follow.
use_hca() {
    hca=("$SOFTHCA" run "$@" --)
}

result() { # status name [file...]: prints one TAP line, and the files if status is not 0
    local status=$1 name=$2 file
    shift 2
    count=$((count + 1))
    if [ "$status" = 0 ]; then
        echo "ok $count - $name"
        return 0
    fi
    failures=$((failures + 1))
    echo "not ok $count - $name"
    for file in "$@"; do
        [ -s "$file" ] && tail -n "$max_lines" "$file" | sed "s/^/# ${file##*/}: /"
    done
    return 1
}

skip() { # name reason
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

# TERN_SELECTION leaves out tests: "ci" those that differ from others by a setting or a size only, "short", of the short
# form of contrib/check.sh, most others of programs that poll too.
whole() {
    [ "${TERN_SELECTION:-all}" = all ]
}
more() { # command...
    ! whole || "$@"
}
unless_short() { # command...
    [ "${TERN_SELECTION:-all}" = short ] || "$@"
}

finish() {
    # shellcheck disable=SC2016 # for the inner shell
    check 'nobody is left in the fabric' bash -c '"$0" status 2>&1 | grep "nobody is in fabric"' "$SOFTHCA"
    echo "1..$count"
    [ "$failures" = 0 ]
    exit
}

# Skips the whole test if one of the programs is not installed.
require() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null && continue
        echo "1..0 # SKIP $program is not installed"
        exit 0
    done
}

# check NAME command...: passes if the command ends with status 0 within the limit.
check() {
    local name=$1 status
    shift
    timeout -k 5 "$limit" "$@" >"$tmp/output" 2>&1 </dev/null
    status=$?
    [ $status = 0 ] || echo "status $status (124: time-out)" >>"$tmp/output"
    result $status "$name" "$tmp/output"
}

# leaves_no_fabric NAME PREFIX command...: the command succeeds, and the fabrics that it has named PREFIX-PID.N are gone.
leaves_no_fabric() {
    local name=$1 prefix=$2
    shift 2
    check "$name" bash -c '"$@" & wait "$!" && ! ls "/dev/shm/softhca-$(id -u)-$0-$!".*' "$prefix" "$@"
}

# check_match NAME PATTERN command...: like check, and the output must match the extended regular expression.
check_match() {
    local name=$1 pattern=$2 status
    shift 2
    timeout -k 5 "$limit" "$@" >"$tmp/output" 2>&1 </dev/null
    status=$?
    [ $status = 0 ] || echo "status $status (124: time-out)" >>"$tmp/output"
    if [ $status = 0 ] && ! grep -Eq -- "$pattern" "$tmp/output"; then
        echo "no line matches: $pattern" >>"$tmp/output"
        status=1
    fi
    result $status "$name" "$tmp/output"
}

# refuses NAME STATUS PATTERN command...: the command must end with that status, and its error output must match.
refuses() {
    local name=$1 expected=$2 pattern=$3 status
    shift 3
    timeout -k 5 "$limit" "$@" >"$tmp/stdout" 2>"$tmp/stderr" </dev/null
    status=$?
    if [ $status = "$expected" ] && grep -Eq -- "$pattern" "$tmp/stderr"; then
        result 0 "$name"
    else
        echo "status $status, expected $expected; no error matches: $pattern" >>"$tmp/stderr"
        result 1 "$name" "$tmp/stderr"
    fi
}

listening() { # TCP port
    local hex
    printf -v hex ':%04X' "$1"
    awk -v port="$hex" '$4 == "0A" && $2 ~ port "$" { found = 1 } END { exit !found }' \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# Sets `port` to a TCP port on which no process listens, a new one at each call.
new_port() {
    [ "$port" != 0 ] || port=$((20000 + ($$ * 97) % 10000))
    port=$((port + 1))
    while listening "$port"; do
        port=$((port + 1))
    done
}

# start FILE command...: starts the command in its own process group; sets `pid`.
start() {
    local file=$1
    shift
    # Empties the file first: a reader must not find the output of an earlier command in it.
    : >"$file"
    timeout -k 5 "$limit" "$@" >"$file" 2>&1 </dev/null &
    pid=$!
    pids+=("$pid")
}

# Waits until process $1 listens on the port, or ends. The caller reports a server that has ended.
wait_for_server() {
    local tick
    for ((tick = 0; tick < limit * 20; tick++)); do
        listening "$port" && return
        kill -0 "$1" 2>/dev/null || return
        sleep 0.05
    done
}

# becomes command...: repeats the command until it succeeds. Fails at the limit.
becomes() {
    local tick
    for ((tick = 0; tick < limit * 20; tick++)); do
        "$@" && return
        sleep 0.05
    done
    return 1
}

# Whether process group $1 has live processes. Zombies do not count.
lives() {
    kill -0 -- "-$1" 2>/dev/null &&
        ps -eo pgid=,stat= | awk -v group="$1" '$1 == group && $2 !~ /^Z/ { left = 1 } END { exit !left }'
}

# Ends the remaining processes of process group $1; fails if there were any.
reap_group() {
    local tick
    for ((tick = 0; tick < limit * 10; tick++)); do
        lives "$1" || return 0
        sleep 0.1
    done
    kill -KILL -- "-$1" 2>/dev/null
    return 1
}

# pair NAME server... ::: client...: starts the server, and runs the client once the server listens on TCP port `port`.
# Passes if both end with status 0 and leave no process behind.
pair() {
    local name=$1 server=() server_pid client_pid server_status client_status status
    shift
    while [ "$1" != ::: ]; do
        server+=("$1")
        shift
    done
    shift
    start "$tmp/server" "${server[@]}"
    server_pid=$pid
    wait_for_server "$server_pid"
    start "$tmp/client" "$@"
    client_pid=$pid
    wait "$client_pid"
    client_status=$?
    # A server may wait for ever for a client that has failed.
    [ $client_status = 0 ] || { sleep 1; kill "$server_pid" 2>/dev/null; }
    wait "$server_pid" 2>/dev/null
    server_status=$?
    status=$((client_status | server_status))
    [ $client_status = 0 ] || echo "status $client_status (124: time-out)" >>"$tmp/client"
    [ $server_status = 0 ] || echo "status $server_status (124: time-out)" >>"$tmp/server"
    reap_group "$client_pid" || { status=1; echo "left processes behind" >>"$tmp/client"; }
    reap_group "$server_pid" || { status=1; echo "left processes behind" >>"$tmp/server"; }
    pids=()
    result $status "$name" "$tmp/server" "$tmp/client"
}
