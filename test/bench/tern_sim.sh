#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Simulations in virtual time (`tern-bench sim`): Tern's figures are exactly those of sim/expected.txt, two runs give the
# same bytes, a ping-pong takes what the model and the table of costs say, and many ranks run in one process. Time
# plays no part, so the result does not depend on how busy the machine is.
# SIM_KEEP=FILE: writes Tern's figures there, to replace sim/expected.txt. RWAPI_SIM_KEEP=FILE: the same of librwapi,
# sim/rwapi.txt.
# shellcheck source-path=SCRIPTDIR source=../common/lib.sh
. "$(dirname "$0")/../common/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../tern/tern.sh
. "$(dirname "$0")/../tern/tern.sh"
tern_bench=$(dirname "$SOFTHCA")/tern-bench

skip_all() { # reason
    echo "1..0 # SKIP $1"
    exit 0
}
[ "$(uname -m)" = x86_64 ] || skip_all 'simulations need a processor of type x86-64'
case $(ldd "$tern_library") in *libasan* | *libtsan* | *libclang_rt*) skip_all 'built with sanitizers' ;; esac

# Containers may forbid it.
"$tern_bench" sim --patterns ping-pong --ranks 2 >"$tmp/first" 2>&1 ||
    ! grep -q 'the kernel does not let' "$tmp/first" || skip_all "$(grep -o 'the kernel does not let.*' "$tmp/first")"

# The figures of a transport, the third or fourth column from the right: "PROFILE|PATTERN|BYTES|UNIT|VALUE".
figures_of() { # file column-from-the-right
    awk -v right="$2" '
        /^profile / { profile = substr($2, 1, length($2) - 1) }
        table { print profile "|" substr($0, 1, 22) "|" substr($0, 24, 8) "|" substr($0, 33, 4) "|" $(NF - right) }
        /^pattern / { table = 1 }' "$1" | sed 's/ *| */|/g'
}

profile=cx5-edr
check 'all patterns' "$tern_bench" sim --profile $profile --json "$tmp/first.json" || finish
cp "$tmp/output" "$tmp/first"
# Other addresses, and other changes of the process's memory.
check 'again' env LD_PRELOAD=libz.so.1 MALLOC_TRIM_THRESHOLD_=1 MALLOC_MMAP_THRESHOLD_=4096 \
    FILLS="$(printf '%050000d' 0)" "$tern_bench" sim --profile $profile --json "$tmp/again.json"
cp "$tmp/output" "$tmp/again"
check 'two runs print the same' cmp "$tmp/first" "$tmp/again"
sed -i '/^ "date": /d' "$tmp/first.json" "$tmp/again.json"
check 'two runs write the same, but for the date' cmp "$tmp/first.json" "$tmp/again.json"

# What is exact depends on which copies the compiler has made instructions of.
figures_of "$tmp/first" 2 >"$tmp/figures"
if [ -n "${SIM_KEEP:-}" ]; then cp "$tmp/figures" "$SIM_KEEP"; fi
build=$(cd "$(dirname "$SOFTHCA")/../.." && pwd)
if ! readelf -p .comment "$tern_library" | grep -q 'GCC: .* 12[.]' || ! grep -q '^CXXFLAGS = .*-O2' "$build/Makefile" ||
    grep -q 'TERN_ENABLE_ASSERT=1' "$build/Makefile"; then
    skip "Tern's figures are the expected ones" 'not built by GCC 12 with -O2 and without --enable-debug'
else
    grep -v '^#' "$srcdir/bench/sim/expected.txt" | paste -d'|' - "$tmp/figures" |
        awk -F'|' '
            $1 $2 $3 $4 != $6 $7 $8 $9 { print "other figures: " $0; next }
            $5 == $10 { next }
            { worse = $4 == "ns" || $4 == "us" ? $10 > $5 : $10 < $5
              print (worse ? "worse: " : "better: ") $1 ", " $2 ", " $3 " bytes: " $10 " " $4 ", was " $5 }' >"$tmp/changes"
    [ ! -s "$tmp/changes" ]
    result $? "Tern's figures are the expected ones" "$tmp/changes"
    exact=1
fi

# Notified writes. "TEST|NAME|BYTES|VALUE" of each time, throughput and count.
check 'notified writes' "$tern_bench" sim --rwapi --profile $profile --sizes 8,4K
awk '
    / +8 B +4 KiB$/ { title = $0; sub(/ *8 B +4 KiB$/, "", title); next }
    title == "" || title ~ /^ratios of / || NF < 3 { next }
    { name = substr($0, 3); sub(/ +[0-9.]+ +[0-9.]+$/, "", name)
      print title "|" name "|8|" $(NF - 1); print title "|" name "|4096|" $NF }' "$tmp/output" >"$tmp/figures"
grep -v "UCP's\|OpenSHMEM's" "$tmp/figures" >"$tmp/rwapi"
if [ -n "${RWAPI_SIM_KEEP:-}" ]; then cp "$tmp/rwapi" "$RWAPI_SIM_KEEP"; fi
if [ -z "${exact:-}" ]; then
    skip "the figures of librwapi are the expected ones" 'as above'
else
    grep -v '^#' "$srcdir/bench/sim/rwapi.txt" | diff - "$tmp/rwapi" >"$tmp/changes"
    result $? "the figures of librwapi are the expected ones" "$tmp/changes"
fi
# ratio TEST NAME OTHER BYTES: holds, as "at most" or "at least" says.
ratio() { # test name other bytes comparison limit
    awk -F'|' -v test="$1" -v name="$2" -v other="$3" -v bytes="$4" -v least="$5" -v limit="$6" '
        $1 == test && $3 == bytes && $2 == name { one = $4 }
        $1 == test && $3 == bytes && $2 == other { two = $4 }
        END { if (one <= 0 || two <= 0) exit 1
              printf "%s / %s, %s bytes: %.3f\n", name, other, bytes, one / two
              exit !(least == "at-least" ? one / two >= limit : one / two <= limit) }' "$tmp/figures" >"$tmp/values"
    result $? "$1, $4 bytes: $2 has $5 $6 of $3" "$tmp/values"
}
ratio 'ping-pong, us' rwapi_write 'RDMA write' 8 at-most 1.1
ratio 'ping-pong, us' notified 'RDMA write' 8 at-most 1.22
ratio 'ping-pong, us' signal "OpenSHMEM's calls, tern" 8 at-most 0.97
ratio 'burst, MB/s' notified 'RDMA write' 8 at-least 0.97
ratio 'burst, MB/s' notified 'RDMA write' 4096 at-least 0.97
ratio 'ping-pong, us' 'polled, behind the data' "OpenSHMEM's calls, tern" 8 at-most 0.9
ratio 'burst, MB/s' rwapi_write 'RDMA write' 4096 at-least 0.97
ratio 'burst, MB/s' 'polled, behind the data' 'RDMA write' 4096 at-least 0.97

# A ping-pong of 8 bytes by hand, in ns. The processor: the send, the post of one request; the time until the next poll
# begins, which is half of a poll if all take the same; that poll, and the message. In Tern four of five polls look only
# at memory; the fifth polls its completion queue. Tern returns credit with its messages. A message of rc_verbs is found
# by its completion.
cost() { # key
    grep -o "\"$1\":[0-9.]*" "$tmp/line" | head -1 | cut -d: -f2
}
ping_pong() { # profile network-ns transport column
    local measured
    measured=$(figures_of "$tmp/$1" "$4" | awk -F'|' '$2 == "half round trip" && $3 == 8 { print $5 }')
    grep '^costs' "$tmp/$1" >"$tmp/line"
    local post request poll completion rate
    post=$(cost post) request=$(cost request) poll=$(cost poll) completion=$(cost completion)
    rate=$(cost instructions_per_ns)
    sed -i "s/.*\"$3\"://" "$tmp/line"
    awk -v measured="$measured" -v post="$post" -v request="$request" -v poll="$poll" -v completion="$completion" \
        -v rate="$rate" -v send="$(cost send)" -v receive="$(cost receive)" -v empty="$(cost poll)" \
        -v full="$(cost full_poll)" -v network="$2" -v transport="$3" '
        BEGIN {
            short = empty / rate
            long = full / rate + poll
            until = (4 * short * short + long * long) / (2 * (4 * short + long))
            finding = short
            if (transport == "rc_verbs") {
                finding = short + 2 * poll
                until = finding / 2
                finding += completion - poll  # it does not look at the queue of sends
            }
            model = send / rate + post + request + network + until + finding + receive / rate
            printf "measured %.1f ns, by hand %.1f ns: %+.2f %%\n", measured, model, (measured / model - 1) * 100
            exit !(measured > 0.99 * model && measured < 1.01 * model)
        }' >"$tmp/values"
    result $? "a ping-pong of $3 with $1 is the model to 1 %: $(cat "$tmp/values")" "$tmp/values"
}
for profile in graphene hdr200; do
    check "a ping-pong with $profile" "$tern_bench" sim --profile $profile --ranks 2 --patterns ping-pong
    cp "$tmp/output" "$tmp/$profile"
done
cp "$tmp/first" "$tmp/cx5-edr"
# The latency, and the bytes; with cx5-edr, also their way to the adapter and its first packet.
ping_pong graphene 2312 tern 2
ping_pong hdr200 1001 tern 2
ping_pong cx5-edr 962 tern 2
ping_pong graphene 2505 rc_verbs 1
ping_pong hdr200 1101 rc_verbs 1

# The inputs of the processor. A send of 64 bytes is two blocks and one of 8 bytes is one, so that of a half round trip a
# second block takes what --block says, and nothing. Twice as many instructions in a ns make it shorter.
for input in 'block 0' 'block 40' 'instructions 3' 'instructions 6'; do
    # shellcheck disable=SC2086 # an option and its value
    check "a ping-pong with --$input" "$tern_bench" sim --profile cx5-edr --ranks 2 --patterns ping-pong --$input
    figures_of "$tmp/output" 1 | awk -F'|' -v input="$input" '{ print input, $3, $5 }' >>"$tmp/inputs"
done
awk '
    { took[$1, $2, $3] = $4; print }
    function between(least, value, most) { if (value < least || value > most) exit failed = 1 }
    END {
        between(38, took["block", 40, 64] - took["block", 0, 64], 42)
        between(0, took["block", 40, 8] - took["block", 0, 8], 0)
        between(30, took["instructions", 3, 8] - took["instructions", 6, 8], 100)
        exit failed }' "$tmp/inputs" >"$tmp/values"
result $? 'the inputs of the processor count' "$tmp/values"
refuses 'options: a block that takes longer than a doorbell' 2 'block' "$tern_bench" sim --block 41

# A crowd of 64 ranks that send 8 KiB without end does not stop a hot pair: each message of Tern's finds a receive. The
# median half round trip of the pair takes no longer than what the crowd may have under way, 1 MiB (docs/tern/protocol.md,
# "Allowances"), and the 99th percentile is at most three times the median.
check 'a crowd' "$tern_bench" sim --profile $profile --ranks 66 --patterns crowd
figures_of "$tmp/output" 2 >"$tmp/figures"
awk -F'|' '
    $2 == "half trip in a crowd" { median = $5 }
    $2 == "its 99th percentile" { most = $5 }
    $2 == "its RNR NAKs" { naks = $5 }
    $2 == "the crowd" { allowed = 1048.576 / $5 }
    { print }
    END { exit !(median > 0 && median <= allowed && most <= 3 * median && naks == "0.000") }' "$tmp/figures" >"$tmp/values"
result $? "a crowd does not stop a hot pair" "$tmp/values"

check '64 ranks' "$tern_bench" sim --profile hdr200 --ranks 64 --patterns storm,random
check_match 'options: help' 'virtual time' "$tern_bench" sim --help
refuses 'options: a profile that does not exist' 2 'profile' "$tern_bench" sim --profile fast
refuses 'options: one rank' 2 'ranks' "$tern_bench" sim --ranks 1
refuses 'options: an unknown pattern' 2 'patterns' "$tern_bench" sim --patterns ring
leaves_no_fabric 'no fabric is left' tern-sim "$tern_bench" sim --patterns ping-pong
finish
