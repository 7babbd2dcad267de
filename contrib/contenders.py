#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A recorded MPI job in virtual time with the contenders of a paper: rows of docs/bench/papers.md.

    contenders.py TERN-BENCH SET --name NAME [--profile NAME] [--compute FACTOR] [--jobs N] --json FILE TRACE...

`tern-bench replay` runs the job once for each pair of settings of the SET: exact, and the same on every machine. The
traces are those of all ranks, in their order (libtern_record.so). NAME is what the result calls the job. Besides the
time of the job with each contender the result has what the traces say of the job: its messages, how many peers a rank
sends to, and the longest computation of a rank. --jobs: so many replays run at the same time; one of 128 ranks takes
minutes, and 3 GB. FILE is written after each.

SET:

    overlap         TupleQ, figure 6: direct messages, rendezvous by RDMA reads (RGET) and by RDMA writes (RPUT)
    channels        Veloblock, figures 5 and 6: most senders that have a block; with blocks of the paper's size
    registration    Superpipeline, sections 2 and 5: with a registration cache, without, and Tern
"""
import argparse
from concurrent.futures import ThreadPoolExecutor

from replays import Replay, Result

LONG = 16384  # the rendezvous of every contender begins there

# Settings of UCX without UCX_, the transport of the replay that is taken, and its name in the result.
RENDEZVOUS = {"RNDV_THRESH": str(LONG)}
MATCHING = {**RENDEZVOUS, "TERN_TM_ENABLE": "y"}
EVERY = {**MATCHING, "TERN_TM_TUPLE_MIN": "8", "TM_THRESH": "8"}
CHANNELS = {"TERN_HOT_MEMORY": "inf", "TERN_BLOCK_MAX": "32k"}
SETS = {
    "overlap": (
        (EVERY, "tern", "matcher, all sizes"),
        ({**EVERY, "ZCOPY_THRESH": "8"}, "tern", "matcher, all sizes, no copies"),
        (MATCHING, "tern", "matcher"),
        (RENDEZVOUS, "tern", "tern"),
        ({**RENDEZVOUS, "RNDV_SCHEME": "get_zcopy"}, "rc_verbs", "rc_v get"),
        ({**RENDEZVOUS, "RNDV_SCHEME": "put_zcopy"}, "rc_verbs", "rc_v put"),
    ),
    "channels": tuple(({**CHANNELS, "TERN_HOT_MAX": str(count)}, "tern", f"{count} channels")
                      for count in (0, 128, 32, 8)),
    "registration": (
        (RENDEZVOUS, "rc_verbs", "rc_v with its cache"),
        ({**RENDEZVOUS, "IB_REG_METHODS": "direct"}, "rc_verbs", "rc_v without a cache"),
        (RENDEZVOUS, "tern", "tern"),
        ({**RENDEZVOUS, "TERN_RNDV_SCHEME": "superpipeline", "TERN_PIN_MONITOR": "none"}, "tern", "tern, all staged"),
    ),
}


class Job:
    """What the traces of all ranks say."""

    def __init__(self, names):
        self.ranks, self.sends, self.long, self.computed = len(names), 0, 0, 0
        self.peers = 0
        for name in names:
            computed, peers = 0, set()
            with open(name, encoding="ascii") as file:
                for line in file:
                    words = line.split()
                    if words[0] == "c":
                        computed += int(words[1])
                    elif words[0] == "s":
                        self.sends += 1
                        self.long += int(words[4]) >= LONG
                        peers.add(words[2])
            self.computed = max(self.computed, computed)
            self.peers += len(peers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", metavar="TERN-BENCH")
    parser.add_argument("contenders", metavar="SET", choices=SETS)
    parser.add_argument("traces", metavar="TRACE", nargs="+")
    parser.add_argument("--name", required=True)
    parser.add_argument("--profile", default="graphene")
    parser.add_argument("--compute", type=float, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    result = Result()

    def add(test, name, unit, value):
        result.add(test, len(options.traces), options.name, name, unit, value)

    job = Job(options.traces)
    add("messages of the job", "all", "", job.sends)
    add("messages of the job", "of 16 KiB and more", "", job.long)
    add("peers that a rank sends to, mean", "all", "", job.peers / job.ranks)
    add("time of the job", "computed, at most", "ms", job.computed * options.compute / 1e6)

    def replay(contender):
        settings, transport, _ = contender
        return Replay(options.bench, transport, settings, options.traces, options.profile, compute=options.compute)

    contenders = SETS[options.contenders]
    with ThreadPoolExecutor(options.jobs) as pool:
        for (_, _, name), done in zip(contenders, pool.map(replay, contenders)):
            add("time of the job", name, "ms", done.time / 1000)
            add("registrations of the job", name, "", done.registrations)
            print(f"{options.name}, {name}: {done.time / 1000:.3f} ms, {done.registrations} registrations", flush=True)
            result.write(options.json, f"contenders {options.contenders}", done.result)


if __name__ == "__main__":
    main()
