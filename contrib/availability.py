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
import os
import tempfile

from replays import Replay, Result

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


class Messages:
    """Replays of two ranks, and the time of a message."""

    def __init__(self, options, folder):
        self.options = options
        self.names = [os.path.join(folder, f"trace.{rank}") for rank in (0, 1)]
        self.last = None  # replay

    def job(self, settings, transport, role, messages, size, work):
        for rank, name in enumerate(self.names):
            with open(name, "w", encoding="ascii") as file:
                file.write(trace(rank, role, messages, size, work))
        self.last = Replay(self.options.bench, transport, {"RNDV_THRESH": RENDEZVOUS, **settings}, self.names,
                           self.options.profile)
        return self.last.time

    def time(self, settings, transport, role, size, work):
        """us, without the messages of the first half."""
        half = self.options.messages // 2
        early, whole = (self.job(settings, transport, role, count, size, work) for count in (half, 2 * half))
        return (whole - early) / half


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
    result = Result()

    def add(test, size, name, unit, value):
        result.add(test, size, text_of(size), name, unit, value)

    with tempfile.TemporaryDirectory() as folder:
        messages = Messages(options, folder)
        for size in map(size_of, options.sizes.split(",")):
            idle = [messages.time(settings, transport, ROLES[0], size, 0) for settings, transport, _ in KINDS]
            work = int(2000 * max(idle)) + 1
            for (_, _, name), alone in zip(KINDS, idle):
                add("message without work", size, name, "us", alone)
            for role in ROLES:
                for (settings, transport, name), alone in zip(KINDS, idle):
                    overhead = messages.time(settings, transport, role, size, work) - work / 1000
                    add(f"availability of the {role}", size, name, "", 1 - overhead / alone)
                    add(f"overhead of the {role}", size, name, "us", overhead)
    result.write(options.json, "availability", messages.last.result, messages=str(options.messages))


if __name__ == "__main__":
    main()
