#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The commands of docs/bench/tour.md, from step 2 on, do what the page says. They run as they stand there, with the commands
# of this build in the place of those of step 1, and with two rounds only.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
require mpicc.openmpi mpirun.openmpi ucx_info
tour=$srcdir/../docs/bench/tour.md
tools=$(dirname "$SOFTHCA")
limit=240
mkdir -p "$tmp/tree/build/quickstart/src"
ln -s "$tools" "$tmp/tree/build/quickstart/src/tools"
ln -s "$srcdir/../examples" "$tmp/tree/examples"
{
    echo 'set -ex'
    awk '/^## 2/ { on = 1 } on && /^    / { sub(/^    /, ""); sub(/--rounds 7/, "--rounds 2"); print }' "$tour"
} >"$tmp/commands"

check 'step 1 names a script that is there' test -x "$srcdir/../contrib/quickstart.sh"
check_match 'step 1 says where it builds' '^folder=build/quickstart$' cat "$srcdir/../contrib/quickstart.sh"
# Every command is one of these.
check 'the tour has the commands that are tested' test "$(grep -c '^ *tern-bench\|^ *UCX.*tern-bench' "$tmp/commands")" = 3
check 'the commands' env -C "$tmp/tree" "$BASH" "$tmp/commands"
cp "$tmp/output" "$tmp/log"
check_match 'step 2 lists the device' '^# +Device: softhca0:1' cat "$tmp/log"
check_match 'step 3 prints a time' '^a message takes [0-9.]+ us' cat "$tmp/log"
check_match 'step 3 counts messages' '"sent_cold": *[1-9]' cat "$tmp/log"
check_match 'step 4 prints a ratio' '^  tern / rc_v +[0-9.]+ +x' cat "$tmp/log"
check 'step 5 prints another one' test "$(grep -Ec '^  tern / rc_v +[0-9.]+ +x' "$tmp/log")" = 3
finish
