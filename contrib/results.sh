#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Measures all that the documents quote, into docs/bench/results, and makes the documents' tables of it. It takes some
# forty minutes on two processors, which nothing else should use.
#
#   results.sh BUILD-FOLDER [RESULT...]     a result is the name of a file without .json; default: all of them
set -eu
if [ ! -x "${1:-}/src/tools/tern-bench" ]; then
    sed -n '4,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
tools=$(cd "$1/src/tools" && pwd)
shift
wanted=" ${*:-all} "
cd "$(dirname "$0")/.."
mkdir -p docs/bench/results

# measure NAME command...: the command gets the name of the file as its last argument.
measure() {
    local name=$1 start=$SECONDS
    shift
    case $wanted in *" all "* | *" $name "*) ;; *) return 0 ;; esac
    echo "$name: $*"
    (PATH=$tools:$PATH && "$@" "docs/bench/results/$name.json" >/dev/null)
    echo "$name: $((SECONDS - start)) s"
}

measure rwapi tern-bench rwapi --sizes 8:1M --step 16 --rounds 9 --json
for profile in cx3-fdr cx5-edr cx6-hdr; do
    measure sim-$profile tern-bench sim --profile $profile --json
done
for profile in muse cx3-fdr cx5-edr cx6-hdr; do
    measure sim-rwapi-$profile tern-bench sim --rwapi --profile $profile --sizes 8,1K,2K,4K,8K,16K,64K,1M --json
done
measure gate-graphene tern-bench gate --profile graphene --subset ci --json
for profile in cx3-fdr cx5-edr cx6-hdr cx7-ndr; do
    measure gate-$profile tern-bench gate --profile $profile --jobs test/bench/traces/*.tar.xz --json
done
measure rwapi-muse tern-bench rwapi --profile muse --sizes 1:1M --json
# On some processors UCX registers each page twice otherwise. And with as long a receive queue as Tern's.
export UCX_IB_PCI_RELAXED_ORDERING=no
UCX_RC_VERBS_RX_QUEUE_LEN=512 measure memory-512 tern-bench memory --peers 1,16,64,256,1000 --hot 64 --json
# The peers and the channels of AMG2006 in the Veloblock paper (docs/bench/papers.md).
export UCX_TERN_HOT_MAX=128 UCX_TERN_HOT_MEMORY=inf
measure memory-amg tern-bench memory --peers 104 --json
UCX_TERN_BLOCK_MAX=32k measure memory-amg-32k tern-bench memory --peers 104 --json
unset UCX_TERN_HOT_MAX UCX_TERN_HOT_MEMORY
for channels in 0 8 32 128; do
    measure scale-amg-hot-$channels tern-bench scale --patterns amg --ranks 128 --limits inf --hot-max $channels --json
done
measure sim-muse tern-bench sim --profile muse --ranks 2 --patterns ping-pong,stream --json
measure availability contrib/availability.py "$tools/tern-bench" --json
for profile in cx3-fdr cx5-edr cx6-hdr; do
    measure availability-$profile contrib/availability.py "$tools/tern-bench" --profile $profile --json
done
# Whole programs, from the traces that are kept.
for profile in cx5-edr cx6-hdr; do
    measure replays-$profile contrib/contenders.py "$tools/tern-bench" peers --profile $profile --jobs 2 \
        test/bench/traces/*.tar.xz --json
done
measure pinning-patterns contrib/patterns.py "$tools" --json
measure pinning-overload contrib/patterns.py "$tools" --patterns PingPong --slower 1,10,100 --json
measure scale tern-bench scale --json
measure superpipeline paper-tables superpipeline
measure pinning-costs paper-tables pinning
contrib/tables.py --trim docs/bench/results
