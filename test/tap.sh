#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What gtest_tap.sh makes of the output of a GoogleTest program, also of UCX's, which says in its own words that a test
# skips itself, and not always why.
# shellcheck disable=SC2016 # a script
# shellcheck source-path=SCRIPTDIR source=integration/lib.sh
. "$(dirname "$0")/integration/lib.sh"

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
"$srcdir/gtest_tap.sh" "$tmp/program" >"$tmp/output"
diff "$tmp/expected" "$tmp/output" >"$tmp/difference"
result $? 'passed, skipped and failed tests' "$tmp/difference"
finish
