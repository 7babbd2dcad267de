#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Recorded MPI jobs in virtual time with contenders: those of a paper (rows of docs/bench/papers.md), or Tern's peers.

    contenders.py TERN-BENCH SET [--profile NAME] [--compute FACTOR] [--jobs N] --json FILE JOB.tar.xz...

`tern-bench replay` runs the job once for each pair of settings of the SET: exact, and the same on every machine. A
JOB.tar.xz has the traces of all ranks of a job with that name (test/bench/traces). Besides the time of the job with each
contender the result has what the traces say of the job: its messages, how many peers a rank sends to, and the longest
computation of a rank. --jobs: so many replays run at the same time. FILE is written after each.

SET:

    overlap         TupleQ, figure 6: direct messages, rendezvous by RDMA reads (RGET) and by RDMA writes (RPUT)
    channels        Veloblock, figures 5 and 6: how many senders may have a block; with blocks of the paper's size
    registration    Superpipeline, sections 2 and 5: with a registration cache, without, and Tern
    peers           Tern and what clusters run, by default settings; stock UCX also without rendezvous; the ratios; and
                    all of it also without computations, as if processors were infinitely fast
"""
import argparse
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

from replays import KEPT, Replay, Result, unpack

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
                      for count in (0, 2, 8)),
    "registration": (
        (RENDEZVOUS, "rc_verbs", "rc_v with its cache"),
        ({**RENDEZVOUS, "IB_REG_METHODS": "direct"}, "rc_verbs", "rc_v without a cache"),
        (RENDEZVOUS, "tern", "tern"),
        ({**RENDEZVOUS, "TERN_RNDV_SCHEME": "superpipeline", "TERN_PIN_MONITOR": "none"}, "tern", "tern, all staged"),
    ),
    "peers": (
        ({}, "tern", "tern"),
        ({}, "rc_verbs", "rc_verbs"),
        ({"RNDV_THRESH": "inf"}, "rc_verbs", "rc_verbs, RNDV_THRESH=inf"),
        ({}, "rc_mlx5", "rc_mlx5, modelled"),
    ),
}


class Job:
    """What the traces of all ranks say."""

    def __init__(self, name, traces):
        self.name, self.traces = name, traces
        self.sends, self.long, self.bytes, self.computed, self.peers = 0, 0, 0, 0, 0
        for trace in traces:
            computed, peers = 0, set()
            with open(trace, encoding="ascii") as file:
                for line in file:
                    words = line.split()
                    if words[0] == "c":
                        computed += int(words[1])
                    elif words[0] == "s":
                        self.sends += 1
                        self.bytes += int(words[4])
                        self.long += int(words[4]) >= LONG
                        peers.add(words[2])
            self.computed = max(self.computed, computed)
            self.peers += len(peers)


def jobs_of(archives, folder):
    jobs = []
    for archive in archives:
        name = os.path.basename(archive).removesuffix(KEPT)
        place = os.path.join(folder, name)
        os.mkdir(place)
        jobs.append(Job(name, unpack(archive, place)))
    return jobs


class Contest:
    def __init__(self, options, pool):
        self.options, self.pool, self.result = options, pool, Result()

    def add(self, job, test, name, unit, value):
        self.result.add(test, len(job.traces), job.name, name, unit, value)

    def describe(self, job):
        self.add(job, "messages of the job", "all", "", job.sends)
        self.add(job, "messages of the job", "of 16 KiB and more", "", job.long)
        self.add(job, "bytes of the job", "all", "", job.bytes)
        self.add(job, "peers that a rank sends to, mean", "all", "", job.peers / len(job.traces))
        self.add(job, "time of the job", "computed, at most", "ms", job.computed * self.options.compute / 1e6)

    def run(self, job, test, compute):
        options, contenders, times = self.options, SETS[self.options.contenders], {}

        def replay(contender):
            settings, transport, _ = contender
            return Replay(options.bench, transport, settings, job.traces, options.profile, compute=compute)

        for (_, _, name), done in zip(contenders, self.pool.map(replay, contenders)):
            times[name] = done.time
            self.add(job, test, name, "ms", done.time / 1000)
            if compute != 0 or options.compute == 0:
                self.add(job, "registrations of the job", name, "", done.registrations)
            if options.contenders == "peers" and name != "tern":
                self.add(job, test, f"tern / {name}", "x", times["tern"] / done.time)
            print(f"{job.name}, {name}: {done.time / 1000:.3f} ms, {done.registrations} registrations", flush=True)
            self.result.write(options.json, f"contenders {options.contenders}", done.result)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", metavar="TERN-BENCH")
    parser.add_argument("contenders", metavar="SET", choices=SETS)
    parser.add_argument("traces", metavar=f"JOB{KEPT}", nargs="+")
    parser.add_argument("--profile", default="graphene")
    parser.add_argument("--compute", type=float, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        contest = Contest(options, pool)
        for job in jobs_of(options.traces, folder):
            contest.describe(job)
            contest.run(job, "time of the job", options.compute)
            if options.contenders == "peers" and options.compute != 0:
                contest.run(job, "time of the job without computations", 0)


if __name__ == "__main__":
    main()
