#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A recorded MPI job in virtual time with the contenders of a paper: rows of docs/papers.md.

    contenders.py TERN-BENCH SET --name NAME [--profile NAME] [--compute FACTOR] --json FILE TRACE...

`tern-bench replay` runs the job once for each pair of settings of the SET: exact, and the same on every machine. The
traces are those of all ranks, in their order (libtern_record.so). NAME is what the result calls the job. Besides the
time of the job with each contender the result has what the traces say of the job: its messages, how many peers a rank
sends to, and the longest computation of a rank.

SET:

    overlap         TupleQ, figure 6: direct messages, rendezvous by RDMA reads (RGET) and by RDMA writes (RPUT)
    channels        Veloblock, figures 5 and 6: most senders that have a block; with blocks of the paper's size
    registration    Superpipeline, sections 2 and 5: with a registration cache, without, and Tern
    pinning         Pinning, table 2: buffers pinned for each message, before it or meanwhile, or kept pinned
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

LONG = 16384  # the rendezvous of every contender begins there

# Settings of UCX without UCX_, the transport of the replay that is taken, and its name in the result.
RENDEZVOUS = {"RNDV_THRESH": str(LONG)}
PLACED = {**RENDEZVOUS, "TERN_RNDV_SCHEME": "zcopy"}
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
                      for count in (0, 8, 32, 128)),
    "registration": (
        (RENDEZVOUS, "rc_verbs", "rc_v with its cache"),
        ({**RENDEZVOUS, "IB_REG_METHODS": "direct"}, "rc_verbs", "rc_v without a cache"),
        (RENDEZVOUS, "tern", "tern"),
        ({**RENDEZVOUS, "TERN_RNDV_SCHEME": "superpipeline", "TERN_PIN_MONITOR": "none"}, "tern", "tern, all staged"),
    ),
    "pinning": (
        ({**PLACED, "TERN_PIN_MONITOR": "none", "TERN_RNDV_PIN_OVERLAP": "n"}, "tern", "pinned first"),
        ({**PLACED, "TERN_PIN_MONITOR": "none"}, "tern", "pinned meanwhile"),
        (PLACED, "tern", "kept"),
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


def replay(options, settings, transport):
    """The JSON of a replay, the ms of the job over that transport, and its registrations."""
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "replay.json")
        words = [options.bench, "replay", "--profile", options.profile, "--compute", str(options.compute), "--over", transport,
                 "--json", result]
        for key, value in settings.items():
            words += ["--set", f"UCX_{key}={value}"]
        run = subprocess.run(words + options.traces, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if run.returncode != 0:
            sys.exit("contenders.py: " + run.stdout.decode(errors="replace"))
        with open(result, encoding="utf-8") as file:
            read = json.load(file)
    found = {figure["test"]: figure["median"] for figure in read["figures"] if figure["name"] == transport}
    return read, found["job"] / 1000, found["registrations of the job"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", metavar="TERN-BENCH")
    parser.add_argument("contenders", metavar="SET", choices=SETS)
    parser.add_argument("traces", metavar="TRACE", nargs="+")
    parser.add_argument("--name", required=True)
    parser.add_argument("--profile", default="graphene")
    parser.add_argument("--compute", type=float, default=1)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    figures = []

    def add(test, name, unit, value):
        figures.append({"test": test, "x": len(options.traces), "x_text": options.name, "name": name, "unit": unit,
                        "median": value})

    job = Job(options.traces)
    add("messages of the job", "all", "", job.sends)
    add("messages of the job", "of 16 KiB and more", "", job.long)
    add("peers that a rank sends to, mean", "all", "", job.peers / job.ranks)
    add("time of the job", "computed, at most", "ms", job.computed * options.compute / 1e6)
    read = {}
    for settings, transport, name in SETS[options.contenders]:
        read, time, registrations = replay(options, settings, transport)
        add("time of the job", name, "ms", time)
        add("registrations of the job", name, "", registrations)
        print(f"{options.name}, {name}: {time:.3f} ms, {registrations} registrations", flush=True)
    result = {key: value for key, value in read.items() if key not in ("environment", "figures", "sizes")}
    result.update(command=f"contenders {options.contenders}", figures=figures)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
