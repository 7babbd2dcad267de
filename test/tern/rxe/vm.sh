#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tool that runs commands in guests; this test runs on the host.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

# For every run of this test, so that the test finds files that a run leaves behind.
export TMPDIR=$tmp/tmp
results=$tmp/results
mkdir "$TMPDIR" "$results"

# run OPTION... -- command...: runs the command; sets `status`, and writes the output to files.
run() {
    "$run_sh" --timeout 400 --results "$results" "$@" >"$tmp/stdout" 2>"$tmp/stderr"
    status=$?
}

expect() { # name command...
    local verdict=0
    "${@:2}" || verdict=1
    result $verdict "$1" "$tmp/stdout" "$tmp/stderr"
}

# shellcheck disable=SC2317 # called by expect
nothing_left() {
    [ -z "$(ls -A "$TMPDIR")" ] && ! grep -sqa "[p]ath=$TMPDIR" /proc/[0-9]*/cmdline
}

# shellcheck disable=SC2317 # called by expect
says() { # file pattern
    grep -Eq -- "$2" "$tmp/$1"
}

# Errors before a guest boots.
run --memory 99999999 -- true
expect 'too little memory' eval "[ $status = 125 ] && says stderr 'not enough memory'"
run --vms 3 -- true
expect 'a wrong number of guests' eval "[ $status = 125 ] && says stderr '1 or 2'"
mkdir "$tmp/bin"
for program in bash dirname; do
    ln -s "$(command -v $program)" "$tmp/bin/"
done
PATH=$tmp/bin run -- true
expect 'no QEMU' eval "[ $status = 125 ] && says stderr 'install qemu-system-x86'"
expect 'nothing is left after a refusal' nothing_left

# One guest answers many questions.
cat >"$tmp/questions" <<'END'
echo out
echo err >&2
printf 'argument <%s>\n' "$@"
echo "folder $PWD"
echo "variables $UCX_TEST $TERN_TEST ${OTHER-unset}, $NAMED"
echo "rank $RXE_RANK of $RXE_SIZE at $RXE_ADDRESS"
echo "memlock $(ulimit -l)"
read -r || echo 'no input'
echo written >"$RXE_RESULTS/file"
echo changed >"$HOST_FILE" && echo 'writable here'
getent hosts "$(hostname)" >/dev/null && echo 'host name resolved'
setpriv --reuid 65534 --regid 65534 --clear-groups bash -c 'id -u
    : >/dev/shm/file && echo "shared memory"
    timeout 60 ibv_rc_pingpong -d rxe0 -g 1 -n 10 >/dev/null &
    for i in {1..20}; do
        timeout 60 ibv_rc_pingpong -d rxe0 -g 1 -n 10 127.0.0.1 2>/dev/null && break
        sleep 0.5
    done'
exit 7
END
echo host >"$tmp/host_file"
# shellcheck disable=SC2016 # as it stands
export UCX_TEST='a b' TERN_TEST="it's" OTHER=other NAMED='$x;"' HOST_FILE=$tmp/host_file
run --env NAMED --env HOST_FILE -- bash "$tmp/questions" 'one two' '' '*' "\$HOME'\"\\"
expect 'the exit status is passed on' [ $status = 7 ]
expect 'standard output, from its first line' eval "[ \"\$(head -n 1 '$tmp/stdout')\" = out ]"
expect 'standard error, and nothing else there' eval "[ \"\$(cat '$tmp/stderr')\" = err ]"
expect 'arguments are passed on as they are' eval \
    "says stdout '^argument <one two>' && says stdout '^argument <>' && says stdout '^argument <[*]>' &&
     grep -Fqx \"argument <\\\$HOME'\\\"\\\\>\" '$tmp/stdout'"
expect 'the working folder' says stdout "^folder $PWD\$"
expect 'the environment, and only what is named' grep -Fqx "variables a b it's unset, \$x;\"" "$tmp/stdout"
expect 'rank and address' says stdout '^rank 0 of 1 at 10\.1\.1\.1$'
expect 'locked memory is unlimited' says stdout '^memlock unlimited$'
expect 'no input' says stdout '^no input$'
expect 'the results folder' grep -qx written "$results/file"
expect 'what is written stays in the guest' eval "says stdout 'writable here' && grep -qx host '$tmp/host_file'"
expect 'the host name' says stdout 'host name resolved'
expect 'an unprivileged user uses the device' eval \
    "says stdout '^65534' && says stdout '^shared memory' && says stdout '^10 iters'"
expect 'nothing is left after a run' nothing_left

# shellcheck disable=SC2016 # for the guest
run -- bash -c 'echo before; echo c >/proc/sysrq-trigger; sleep 100'
expect 'a panic is no exit status' eval "[ $status = 123 ] && says stdout before && says stderr 'console: .*panic'"
expect 'nothing is left after a panic' nothing_left

run --timeout 30 -- sleep 1000
expect 'the time limit' eval "[ $status = 124 ] && says stderr 'not done after 30 seconds'"
expect 'nothing is left after the time limit' nothing_left

"$run_sh" -- sleep 1000 >"$tmp/stdout" 2>"$tmp/stderr" &
sleep 4
kill -TERM $!
wait $!
status=$?
expect 'a signal ends it' [ $status = 143 ]
expect 'nothing is left after a signal' nothing_left

# shellcheck disable=SC2016 # for the guests
run --vms 2 -- bash -c 'echo "$RXE_RANK of $RXE_SIZE to $RXE_PEER"
    echo "processors $(cat /sys/devices/system/cpu/possible)"
    busybox ping -c 2 "$RXE_PEER" || exit 1
    if [ "$RXE_RANK" = 0 ]; then
        timeout 60 ibv_rc_pingpong -g 1 -n 100 -c
        sleep 1000
    fi
    for i in {1..20}; do
        timeout 60 ibv_rc_pingpong -g 1 -n 100 -c "$RXE_PEER" && exit 5
        sleep 0.5
    done'
expect 'two guests' eval "says stdout '^0 of 2 to 10.1.1.2' && says stdout '^rank 1: 1 of 2 to 10.1.1.1'"
# See run.sh: otherwise the network stops once in many runs.
expect 'both are emulated with barriers' eval "says stdout '^processors 0-1' && says stdout '^rank 1: processors 0-1'"
expect 'ping between two guests' eval "says stdout '^2 packets.* 0% packet loss' && says stdout '^rank 1: 2 packets.* 0%'"
expect 'ibv_rc_pingpong between two guests' eval "says stdout '^100 iters' && says stdout '^rank 1: 100 iters'"
expect 'one guest that fails ends the other' [ $status = 5 ]
expect 'nothing is left after two guests' nothing_left
finish
