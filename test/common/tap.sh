#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What gtest_tap.py makes of the output of a GoogleTest program, also of UCX's, which says in its own words that a test
# skips itself, and not always why; and what skips.awk makes of that.
# shellcheck disable=SC2016 # a script
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

cat >"$tmp/program" <<'END'
#!/usr/bin/env bash
if [[ $* == *--gtest_list_tests* ]]; then
    printf 'Suite.  # TypeParam = int\n'
    for name in Passes Skips SkipsAsUcx SkipsWithoutReason PassesAfterIt Fails Dies GoesOn Hangs Leaves Races; do
        [[ $* != *"$name"* ]] || printf '  %s  # GetParam() = 1\n  DISABLED_%s\n' $name $name
    done
    exit
fi
begins() { # the line before may have no end
    [[ $filter =~ Suite\.$1(:|$) ]] && printf 'no end[ RUN      ] Suite.%s <ucx>\n' "$1"
}
ends() { # OK|SKIPPED|FAILED, name
    printf '[ %8s ] Suite.%s (0 ms)\n' "$1" "$2"
}
filter=${*: -1}
begins Passes && ends OK Passes
begins Skips && printf 'file.cc:1: Skipped\nno device # 1\n' && ends SKIPPED Skips
begins SkipsAsUcx && echo '[     SKIP ] (no caps)' && ends OK SkipsAsUcx
begins SkipsWithoutReason && echo '[     SKIP ] ' && ends OK SkipsWithoutReason
begins PassesAfterIt && ends OK PassesAfterIt
begins Fails && echo 'file.cc:2: Failure' && ends ' FAILED ' Fails
begins Dies && printf 'a last word' && kill -KILL $$
begins GoesOn && ends OK GoesOn
begins Hangs && sleep 1000
begins Leaves && ends OK Leaves && { sleep 1000 & } # holds the output
begins Races && printf 'WARNING: ThreadSanitizer: data race\n  in f()\nSUMMARY: a race\n' && ends OK Races && exit 66
[[ $filter != *Fails* ]]
END
chmod +x "$tmp/program"

prints() { # name, cases in a filter: the expected TAP, where process numbers are N
    local filter
    printf -v filter '%s:' "${@:2}"
    cat >"$tmp/expected"
    "$srcdir/common/gtest_tap.py" -t 1 "$tmp/program" --gtest_filter="$filter" >"$tmp/tap"
    sed 's/^# [0-9]* sleep/# N sleep/' "$tmp/tap" | diff "$tmp/expected" - >"$tmp/difference"
    result $? "$1" "$tmp/difference"
}

prints 'tests that end the program, or that never end' Dies GoesOn Hangs <<'END'
not ok 1 - Suite.Dies
# a last word
# killed by signal KILL
ok 2 - Suite.GoesOn
not ok 3 - Suite.Hangs
# no verdict within 1 s
1..3
END
prints 'a process that is left behind' Leaves <<'END'
ok 1 - Suite.Leaves
not ok 2 - no process is left behind
# N sleep
1..2
END
check 'no process is left' sh -c '! ps -eo args | grep "gtest_filter[=]Suite\|^sleep 100[0]$"'
prints 'reports of the thread sanitizer' Races <<'END'
ok 1 - Suite.Races
not ok 2 - the program ends with status 0
# WARNING: ThreadSanitizer: data race
#   in f()
# SUMMARY: a race
# in or before Suite.Races
# exited with status 66
1..2
END
prints 'passed, skipped and failed tests' Passes Skips SkipsAsUcx SkipsWithoutReason PassesAfterIt Fails <<'END'
ok 1 - Suite.Passes
ok 2 - Suite.Skips # SKIP no device  1
ok 3 - Suite.SkipsAsUcx # SKIP (no caps)
ok 4 - Suite.SkipsWithoutReason # SKIP no reason given
ok 5 - Suite.PassesAfterIt
not ok 6 - Suite.Fails
# file.cc:2: Failure
1..6
END
printf '#!/bin/sh\n[ "$1" = --gtest_list_tests ] && printf "A.\\n  b\\n" || exit 3\n' >"$tmp/broken"
chmod +x "$tmp/broken"
check_match 'a program that starts no test' '^Bail out! .* started no test case and exited with status 3' \
    sh -c '! "$@"' sh "$srcdir/common/gtest_tap.py" "$tmp/broken"

# Which skipped tests are too many.
cat >"$tmp/skips.txt" <<'END'
# suite  where   most  reason
su*      strict,hns  1     no device *
su*      any     -     (no caps)
other    any     -     *
END
skips() { # name, where, log: expected lines
    awk -f "$srcdir/common/skips.awk" -v where="$2" -v script=suite "$tmp/skips.txt" "$3" >"$tmp/output"
    diff - "$tmp/output" >"$tmp/difference"
    result $? "$1" "$tmp/difference"
}
grep -v WithoutReason "$tmp/tap" >"$tmp/allowed"
skips 'skipped tests that are allowed' strict,no-io-uring "$tmp/allowed" </dev/null
skips 'the same on the other device that the row names' hns "$tmp/allowed" </dev/null
skips 'a skipped test that is allowed on another device' mlx5 "$tmp/allowed" \
    <<<'suite: 1 skipped (no device  1), of which skips.txt knows nothing'
skips 'a skipped test that is not allowed' strict "$tmp/tap" \
    <<<'suite: 1 skipped (no reason given), of which skips.txt knows nothing'
sed p "$tmp/allowed" >"$tmp/twice"
skips 'one skipped test too many' strict "$tmp/twice" <<<'suite: 2 skipped (no device *), where skips.txt has 1'
echo '1..0 # SKIP built without UCX' >"$tmp/nothing"
skips 'a script that is skipped as a whole' strict "$tmp/nothing" \
    <<<'suite: 1 skipped (built without UCX), of which skips.txt knows nothing'
finish
