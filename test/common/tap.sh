#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What gtest_tap.sh makes of the output of a GoogleTest program, also of UCX's, which says in its own words that a test
# skips itself, and not always why; and what skips.awk makes of that.
# shellcheck disable=SC2016 # a script
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

cat >"$tmp/program" <<'END'
#!/usr/bin/env bash
case $* in
    *--gtest_list_tests*)
        printf 'Suite.\n  Passes\n  Skips\n  SkipsAsUcx\n  SkipsWithoutReason\n  PassesAfterIt\n  Fails\n'
        exit ;;
esac
ends() { # OK|FAILED, name
    printf '[ %8s ] Suite.%s (0 ms)\n' "$1" "$2"
}
begins() {
    printf '[ RUN      ] Suite.%s <ucx>\n' "$1"
}
begins Passes; ends OK Passes
begins Skips; printf 'file.cc:1: Skipped\nno device # 1\n'; printf '[  SKIPPED ] Suite.Skips (0 ms)\n'
begins SkipsAsUcx; echo '[     SKIP ] (no caps)'; ends OK SkipsAsUcx
begins SkipsWithoutReason; echo '[     SKIP ] '; ends OK SkipsWithoutReason
begins PassesAfterIt; ends OK PassesAfterIt
begins Fails; echo 'file.cc:2: Failure'; printf '[  FAILED  ] Suite.Fails (0 ms)\n'
exit 1
END
chmod +x "$tmp/program"
cat >"$tmp/expected" <<'END'
ok 1 - Suite.Passes
ok 2 - Suite.Skips # SKIP no device  1
ok 3 - Suite.SkipsAsUcx # SKIP (no caps)
ok 4 - Suite.SkipsWithoutReason # SKIP no reason given
ok 5 - Suite.PassesAfterIt
not ok 6 - Suite.Fails
# file.cc:2: Failure
1..6
END
"$srcdir/common/gtest_tap.sh" "$tmp/program" >"$tmp/tap"
diff "$tmp/expected" "$tmp/tap" >"$tmp/difference"
result $? 'passed, skipped and failed tests' "$tmp/difference"

# A program that dies in a test, with a line that has no end, and one that never ends.
cat >"$tmp/program" <<'END'
#!/usr/bin/env bash
case $* in
    *--gtest_list_tests*) printf 'Suite.\n  Dies\n  Passes\n  Hangs\n' && exit ;;
    *Suite.Dies*) echo '[ RUN      ] Suite.Dies' && printf 'a last word' && kill -KILL $$ ;;
    *Suite.Passes*) printf 'no end[ RUN      ] Suite.Passes\nno end[       OK ] Suite.Passes (0 ms)\n' ;;
esac
echo '[ RUN      ] Suite.Hangs'
sleep 1000
END
cat >"$tmp/expected" <<'END'
not ok 1 - Suite.Dies
# a last word
# killed by signal KILL
ok 2 - Suite.Passes
not ok 3 - Suite.Hangs
# no verdict within 1 s
1..3
END
"$srcdir/common/gtest_tap.sh" -t 1 "$tmp/program" >"$tmp/tap-of-dying"
diff "$tmp/expected" "$tmp/tap-of-dying" >"$tmp/difference"
result $? 'tests that end the program, or that never end' "$tmp/difference"
check 'they leave no process' sh -c '! ps -eo args | grep "gtest_filter[=]Suite"'

# Which skipped tests are too many.
cat >"$tmp/skips.txt" <<'END'
# suite  where   most  reason
su*      strict,hns  1     no device *
su*      any     -     (no caps)
other    any     -     *
END
skips() { # where, log: expected lines
    awk -f "$srcdir/common/skips.awk" -v where="$1" -v script=suite "$tmp/skips.txt" "$2" >"$tmp/output"
    cat >"$tmp/expected"
    diff "$tmp/expected" "$tmp/output" >"$tmp/difference"
}
grep -v WithoutReason "$tmp/tap" >"$tmp/allowed"
skips strict,no-io-uring "$tmp/allowed" </dev/null
result $? 'skipped tests that are allowed' "$tmp/difference"
skips hns "$tmp/allowed" </dev/null
result $? 'the same on the other device that the row names' "$tmp/difference"
skips mlx5 "$tmp/allowed" <<<'suite: 1 skipped (no device  1), of which skips.txt knows nothing'
result $? 'a skipped test that is allowed on another device' "$tmp/difference"
skips strict "$tmp/tap" <<<'suite: 1 skipped (no reason given), of which skips.txt knows nothing'
result $? 'a skipped test that is not allowed' "$tmp/difference"
sed p "$tmp/allowed" >"$tmp/twice"
skips strict "$tmp/twice" <<<'suite: 2 skipped (no device *), where skips.txt has 1'
result $? 'one skipped test too many' "$tmp/difference"
echo '1..0 # SKIP built without UCX' >"$tmp/nothing"
skips strict "$tmp/nothing" <<<'suite: 1 skipped (built without UCX), of which skips.txt knows nothing'
result $? 'a script that is skipped as a whole' "$tmp/difference"
finish
