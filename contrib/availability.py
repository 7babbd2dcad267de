#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Figure 5 of the TupleQ paper in virtual time: what a processor can compute while a message is under way.

    availability.py TERN-BENCH [--profile NAME] [--sizes N,...] [--messages N] --json FILE

The method of Sandia's benchmark: post, work, wait. A trace of two ranks is made for each size, with work at the receiver
or at the sender and without, and replayed by `tern-bench replay`: exact, and the same on every machine. A receiver says
by 8 bytes that its receive is posted; only then is the message sent. Overhead is the time of a message that is not work,
availability 1 - overhead / time without work, at best 1. The work is twice the longest time without work. The times are
of the last half of the messages: what comes before is registered, and learned by the matcher.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

# Settings, the transport of the replay that is taken, and its name in the result.
KINDS = (
    ({"TERN_TM_ENABLE": "y"}, "tern", "matcher"),
    ({"TERN_TM_ENABLE": "y", "TERN_TM_TUPLE_MIN": "8", "TM_THRESH": "8"}, "tern", "matcher, all sizes"),
    ({}, "tern", "tern"),
    ({"RNDV_SCHEME": "get_zcopy"}, "rc_verbs", "rc_v get"),
    ({"RNDV_SCHEME": "put_zcopy"}, "rc_verbs", "rc_v put"),
)
RENDEZVOUS = "16k"
ROLES = ("receiver", "sender")
MESSAGE, POSTED = 1, 2  # tags
WHOLE = "f" * 16
BUFFER, WORD = 0x10000000, 0x1000


def trace(rank, role, messages, size, work):
    """Rank 0 sends, rank 1 receives; `work` in ns."""
    lines = ["tern-trace 1", f"a {rank}", f"e 0 {1 - rank}"]
    number = 0
    for _ in range(messages):
        if rank == 0:
            lines += [f"r {number} {POSTED} {WHOLE} 8 {WORD:x}", f"w {number}",
                      f"s {number + 1} 0 {MESSAGE} {size} {BUFFER:x} 0"]
            own, last = "sender", number + 1
        else:
            lines += [f"r {number} {MESSAGE} {WHOLE} {size} {BUFFER:x}", f"s {number + 1} 0 {POSTED} 8 {WORD:x} 0",
                      f"w {number + 1}"]
            own, last = "receiver", number
        if role == own and work:
            lines.append(f"c {work}")
        lines.append(f"w {last}")
        number += 2
    return "\n".join(lines) + "\n"


class Replays:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.last = None  # JSON of a replay

    def job(self, settings, role, messages, size, work):
        """us, of tern and of rc_verbs."""
        names = [os.path.join(self.folder, f"trace.{rank}") for rank in (0, 1)]
        for rank, name in enumerate(names):
            with open(name, "w", encoding="ascii") as file:
                file.write(trace(rank, role, messages, size, work))
        result = os.path.join(self.folder, "replay.json")
        words = [self.options.bench, "replay", "--profile", self.options.profile, "--json", result]
        for key, value in {"RNDV_THRESH": RENDEZVOUS, **settings}.items():
            words += ["--set", f"UCX_{key}={value}"]
        run = subprocess.run(words + names, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if run.returncode != 0:
            sys.exit("availability.py: " + run.stdout.decode(errors="replace"))
        with open(result, encoding="utf-8") as file:
            self.last = json.load(file)
        return {figure["name"]: figure["median"] for figure in self.last["figures"] if figure["test"] == "job"}

    def message(self, settings, role, size, work):
        """us of a message, without those of the first half."""
        half = self.options.messages // 2
        early, whole = (self.job(settings, role, count, size, work) for count in (half, 2 * half))
        return {name: (whole[name] - early[name]) / half for name in ("tern", "rc_verbs")}


def size_of(text):
    units = {"K": 1 << 10, "M": 1 << 20}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text)


def text_of(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", metavar="TERN-BENCH")
    parser.add_argument("--profile", default="graphene")
    parser.add_argument("--sizes", default="8,1K,8K,16K,64K,1M")
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    figures = []

    def add(test, size, name, unit, value):
        figures.append({"test": test, "x": size, "x_text": text_of(size), "name": name, "unit": unit, "median": value})

    with tempfile.TemporaryDirectory() as folder:
        replays = Replays(options, folder)
        for size in map(size_of, options.sizes.split(",")):
            idle = [replays.message(settings, ROLES[0], size, 0)[transport] for settings, transport, _ in KINDS]
            work = int(2000 * max(idle)) + 1
            for (_, _, name), alone in zip(KINDS, idle):
                add("message without work", size, name, "us", alone)
            for role in ROLES:
                for (settings, transport, name), alone in zip(KINDS, idle):
                    overhead = replays.message(settings, role, size, work)[transport] - work / 1000
                    add(f"availability of the {role}", size, name, "", 1 - overhead / alone)
                    add(f"overhead of the {role}", size, name, "us", overhead)
        result = {key: value for key, value in replays.last.items() if key not in ("environment", "figures", "sizes")}
    result.update(command="availability", messages=str(options.messages), figures=figures)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
