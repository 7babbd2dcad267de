#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The `softhca` command: the variables that it sets, the options that it refuses, and its status of a running program.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
require ibv_devices ibv_devinfo ibv_rc_pingpong

# shows NAME PATTERN command...: the status must match in the end.
shows() {
    local name=$1 pattern=$2 tick
    shift 2
    for ((tick = 0; tick < limit * 20; tick++)); do
        timeout -k 5 "$limit" "$@" >"$tmp/output" 2>&1 </dev/null
        if grep -Eq -- "$pattern" "$tmp/output"; then
            result 0 "$name"
            return
        fi
        sleep 0.05
    done
    echo "no line matches: $pattern" >>"$tmp/output"
    result 1 "$name" "$tmp/output"
}

run_tests() {
    # shellcheck disable=SC2016 # for the inner shell
    local print='echo "$SOFTHCA_PROFILE $SOFTHCA_LINK_LAYER $SOFTHCA_DEVICES $SOFTHCA_MODEL"'
    check_match 'run sets the variables' '^graphene ethernet 3 gap=1us,latency=2$' "$SOFTHCA" run \
        --profile graphene --link-layer=ethernet --devices 3 --model gap=1us,latency=2 -- sh -c "$print"
    check_match 'an option wins over a variable' '^infini  *$' env SOFTHCA_PROFILE=hdr200 \
        "$SOFTHCA" run --profile infini sh -c "$print"
    check_match 'a variable alone is kept' '^hdr200  *$' env SOFTHCA_PROFILE=hdr200 "$SOFTHCA" run sh -c "$print"
    check_match 'options behind the command are its own' '^--profile nonsense$' "$SOFTHCA" run echo --profile nonsense
    check_match 'run makes devices' '^ +softhca2' "$SOFTHCA" run --devices 3 -- ibv_devices
    check_match 'run -v says what is set' '^SOFTHCA_EXECUTOR=thread$' "$SOFTHCA" run -v --executor thread -- true
    check_match 'run -v says what is modelled' '^model: latency=2.3us,bandwidth=3' "$SOFTHCA" run -v \
        --profile graphene --model bandwidth=3 -- true
    printf '%s\n' 'personality = mlx4  # its driver' 'bandwidth = 3' '[latency]' 'latency = 9us' >"$tmp/mine.model"
    check_match 'run takes a model file' '^profile @mine: latency=9us,bandwidth=3,gap=0ns' "$SOFTHCA" run --report \
        --profile cx5-edr --model "@$tmp/mine.model" -- ibv_devinfo
    cp "$tmp/output" "$tmp/report"
    check_match 'and its personality' '^personality mlx4$' cat "$tmp/report"
    check_match 'changes follow a model file' '^model: latency=1us,bandwidth=3,gap=2us' "$SOFTHCA" run -v \
        --model "@$tmp/mine.model, latency=1us,gap=2" -- true
    # shellcheck disable=SC2016
    check_match 'run prepends to LD_PRELOAD' '/libsofthca\.so:libm\.so\.6$' env LD_PRELOAD=libm.so.6 \
        "$SOFTHCA" run -- sh -c 'echo "$LD_PRELOAD"'
    # shellcheck disable=SC2016
    check_match 'run within run preloads once' '^[^:]*/libsofthca\.so$' \
        "$SOFTHCA" run -- "$SOFTHCA" run -- sh -c 'echo "$LD_PRELOAD"'
    refuses 'the status of the command is passed on' 7 '^$' "$SOFTHCA" run -- sh -c 'echo >&2; exit 7'
    refuses 'report after the command, and its status' 5 'ibv_devinfo \(gone\)' "$SOFTHCA" run --report -- sh -c 'ibv_devinfo >/dev/null; exit 5'
    check_match 'report: queues' '^queues +queue_pairs +completion_entries +receive_queues +bytes$' \
        "$SOFTHCA" run --report -- ibv_devinfo
    # shellcheck disable=SC2016
    check 'the manual has every setting and fault' bash -c \
        '! { "$1" help settings; "$1" help faults; } | grep -Fxvf "$2"' _ "$SOFTHCA" "$(dirname "$0")/../../docs/softhca/softhca.md"
    # shellcheck disable=SC2016
    check_match 'env prints what run sets' '^ethernet gap=1us,latency=2 hdr200 /[^:]*/libsofthca\.so:libm\.so\.6$' \
        env SOFTHCA_PROFILE=hdr200 LD_PRELOAD=libm.so.6 bash -c \
        'export $("$0" env --link-layer ethernet --model "gap=1us, latency=2") || exit
        echo "$SOFTHCA_LINK_LAYER $SOFTHCA_MODEL $SOFTHCA_PROFILE $LD_PRELOAD"' "$SOFTHCA"
    # shellcheck disable=SC2016
    check_match 'env prints nothing else' '^ASAN_OPTIONS LD_PRELOAD $' bash -c \
        'unset "${!SOFTHCA_@}" LD_PRELOAD ASAN_OPTIONS; "$0" env | cut -d= -f1 | sort | tr "\n" " "' "$SOFTHCA"
    check_match 'a sanitizer stays the first that is preloaded' '^LD_PRELOAD=/none/libasan\.so\.8:[^:]*/libsofthca\.so:libm\.so\.6$' \
        env LD_PRELOAD=libm.so.6:/none/libasan.so.8 "$SOFTHCA" env
    # shellcheck disable=SC2016
    check_match 'its options stay, and win' '^verify_asan_link_order=0:detect_leaks=0$' \
        env ASAN_OPTIONS=detect_leaks=0 "$SOFTHCA" run -- sh -c 'echo "$ASAN_OPTIONS"'

    check_match 'words of the command stay as they are' '^<\[a,b\]><><--><-v>$' "$SOFTHCA" run -v \
        printf '<%s>' '[a,b]' '' -- -v
    refuses 'no such command' 127 'no-such-command: No such file' "$SOFTHCA" run -- no-such-command
    refuses 'not a command' 126 'Permission denied' "$SOFTHCA" run -- /dev/null
}

refusal_tests() {
    refuses 'wrong option' 2 "^softhca run: no such option '--profil3'$" \
        "$SOFTHCA" run --profil3 x -- true
    refuses 'wrong letter' 2 "no such option '-x'" "$SOFTHCA" run -vx -- true
    refuses 'option without its value' 2 "^softhca run: --profile: 1 required VALUE missing" "$SOFTHCA" run --profile
    refuses 'an empty value behind =' 2 "no value after '--model='" "$SOFTHCA" run --model= true
    check_match 'an empty value is the default' '^$' \
        env SOFTHCA_MODEL=gap=1us "$SOFTHCA" run --model '' printenv SOFTHCA_MODEL
    refuses 'wrong profile' 2 '--profile=myri: choose from ideal, graphene, infini, hdr200, muse' \
        "$SOFTHCA" run --profile myri -- true
    refuses 'wrong variable' 2 'SOFTHCA_EXECUTOR=fast: choose from inline, thread' \
        env SOFTHCA_EXECUTOR=fast "$SOFTHCA" run -- true
    refuses 'wrong number' 2 '--devices=17: .*1 to 16' "$SOFTHCA" run --devices 17 -- true
    refuses 'wrong personality' 2 'choose from default, mlx5' "$SOFTHCA" run --personality kind -- true
    refuses 'wrong rule' 2 'choose from ethernet, inline' "$SOFTHCA" run --rules speed=3 -- true
    refuses 'wrong link layer' 2 'infiniband, ethernet' "$SOFTHCA" run --link-layer roce -- true
    refuses 'wrong model' 2 'choose from latency, bandwidth' "$SOFTHCA" run --model speed=3 -- true
    echo 'qp-send = 1us' >>"$tmp/mine.model"
    refuses 'wrong model file' 2 'mine\.model, line 5: qp-send is of group queue-pair' \
        "$SOFTHCA" run --model "@$tmp/mine.model" -- true
    refuses 'no model file' 2 "--model=@none: cannot read 'none': No such file" "$SOFTHCA" run --model @none -- true
    refuses 'wrong faults' 2 'choose from reg-fail=N' "$SOFTHCA" run --faults fire -- true
    refuses 'wrong fabric' 2 '--fabric=a/b' "$SOFTHCA" run --fabric a/b -- true
    refuses 'wrong profile for env' 2 '--profile=myri: choose from ideal' "$SOFTHCA" env --profile myri
    refuses 'env runs nothing' 2 "unexpected 'true'" "$SOFTHCA" env true
    refuses 'nothing to run' 2 'no command' "$SOFTHCA" run --profile ideal --
    refuses 'nothing at all' 2 'choose from run, env, status, inject, clean' "$SOFTHCA"
    refuses 'wrong subcommand' 2 "'walk'; choose from run, env, status, inject, clean" "$SOFTHCA" walk
    refuses 'wrong option of status' 2 "no such option '--xml'" "$SOFTHCA" status --xml
    refuses 'surplus argument' 2 "unexpected 'all'" "$SOFTHCA" clean all
    refuses 'no faults to inject' 2 'no faults given' "$SOFTHCA" inject
    refuses 'status of an empty fabric' 1 "nobody is in fabric '$SOFTHCA_FABRIC'" "$SOFTHCA" status
    refuses 'inject into an empty fabric' 1 'nobody is in fabric' "$SOFTHCA" inject rnr=1
    check_match '--version' '^softhca [0-9]' "$SOFTHCA" --version
    check_match 'help' '^ +status ' "$SOFTHCA" help
    check_match 'help run' '--link-layer' "$SOFTHCA" help run
    # shellcheck disable=SC2016
    check_match 'help settings' '^\| `SOFTHCA_PROFILE` \| `--profile` ' "$SOFTHCA" help settings
}

# A server that waits for its client has every kind of object except an SRQ.
fabric_tests() {
    new_port
    start "$tmp/server" "$SOFTHCA" run --profile graphene --devices 2 --faults delay-completions=1ms -- \
        ibv_rc_pingpong -p "$port"
    wait_for_server "$pid"
    shows 'status: objects' 'ibv_rc_pingpong +inline +1 +0 +1 +1 +0$' "$SOFTHCA" status
    shows 'status: devices' '1 process, 2 devices of 1 port, infiniband' "$SOFTHCA" status --fabric "$SOFTHCA_FABRIC"
    shows 'status: profile' '^profile graphene: latency=2.3us,bandwidth=2,' "$SOFTHCA" status
    shows 'status: faults of the environment' '^faults delay-completions=1ms$' "$SOFTHCA" status
    shows 'status: lateness' '^lateness +operations +late +late_total_ns$' "$SOFTHCA" status
    shows 'status: json' '"queue_pairs": 1' "$SOFTHCA" status --json
    shows 'status: registrations' '"registrations": 1$' "$SOFTHCA" status --json
    if command -v python3 >/dev/null; then
        check 'status: the json is json' sh -c "'$SOFTHCA' status --json | python3 -m json.tool"
    else
        skip 'status: the json is json' 'python3 is not installed'
    fi
    check_match 'inject' '^faults: rnr=3,port-down=softhca1:1$' "$SOFTHCA" inject none rnr=3,port-down=softhca1:1
    shows 'injected faults are in force' '^faults rnr=3,port-down=softhca1:1$' "$SOFTHCA" status
    shows 'a port is down' 'softhca0:1 up softhca1:1 DOWN' "$SOFTHCA" status
    refuses 'inject a wrong fault' 2 'choose from reg-fail=N' "$SOFTHCA" inject none,fire
    refuses 'inject into a port that does not exist' 1 'no such port' "$SOFTHCA" inject port-down=softhca0:2
    shows 'a refused list changes nothing' '^faults rnr=3,port-down=softhca1:1$' "$SOFTHCA" status
    refuses 'clean of a fabric in use' 1 'in use by process' "$SOFTHCA" clean --fabric "$SOFTHCA_FABRIC"
    kill -KILL -- "-$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    reap_group "$pid"
    pids=()
    refuses 'a killed process leaves nobody in the fabric' 1 'nobody is in fabric' "$SOFTHCA" status
    check_match 'clean' "^removed fabric '$SOFTHCA_FABRIC'$" "$SOFTHCA" clean
    check 'clean again' "$SOFTHCA" clean --fabric "$SOFTHCA_FABRIC"
}

run_tests
refusal_tests
fabric_tests
finish
