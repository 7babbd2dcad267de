#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Judges the rows of `tern-bench gate`, lines "profile|test|bytes|peer|ratio", by those of a kept file, which has the
reason why Tern loses a row behind a #: tern-bench gate | contrib/gate.py --expected FILE

Prints the rows of each profile and peer from the least to the greatest. Exit status 1: a row that stood at 0.98 or
above falls below it, a row below it falls by more than 1 %, or a row is missing, or new."""
import argparse
import math
import pathlib
import sys

EVEN = 0.98  # from here on, Tern counts as fast as a peer
TOLERANCE = 0.01  # what a row below may lose, as a share
BEST = "the best peer"  # the fastest one of a row, of which stock UCX chooses one by its settings


def rows_of(lines):
    """{(profile, test, bytes, peer): (ratio, reason)}"""
    rows = {}
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        text, _, reason = line.partition("#")
        try:
            profile, test, size, peer, ratio = (part.strip() for part in text.split("|"))
            key, value = (profile, test, int(size), peer), round(float(ratio), 4)
            if not (profile and test and peer and 0 < value < math.inf) or key in rows:
                raise ValueError
        except ValueError:
            sys.exit(f"no row of ratios, or one that is there twice: {line.strip()}")
        rows[key] = value, reason.strip()
    return rows


def text_of(key):
    profile, test, size, peer = key
    return f"{profile}, {test}{f', {size} bytes' if size else ''}, over {peer}"


def show(rows):
    groups = {}
    best = {}
    for (profile, test, size, peer), (ratio, _) in rows.items():
        groups.setdefault((profile, peer), []).append((ratio, test, size))
        best[profile, test, size] = min(ratio, best.get((profile, test, size), math.inf))
    for (profile, test, size), ratio in best.items():
        groups.setdefault((profile, BEST), []).append((ratio, test, size))
    for (profile, peer), members in sorted(groups.items()):
        ratios = [ratio for ratio, _, _ in members]
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
        print(f"{profile}, tern over {peer}: {len(ratios)} rows, {sum(ratio < EVEN for ratio in ratios)} below {EVEN},"
              f" geometric mean {mean:.3f}")
        for ratio, test, size in sorted(members, key=lambda member: member[0]):
            print(f"  {ratio:8.4f}  {test:<44} {size:9}")
        print()


def judge(kept, measured):
    failures, faster = [], 0
    for key, (ratio, _) in measured.items():
        text = f"{text_of(key)}: {ratio:.4f}"
        if key not in kept:
            failures.append(f"new: {text}")
            continue
        was, reason = kept[key]
        if ratio < (EVEN if was >= EVEN else was * (1 - TOLERANCE)):
            failures.append(f"slower: {text}, was {was:.4f}")
        faster += ratio > was * (1 + TOLERANCE)
        if ratio < EVEN and not reason:
            print(f"no reason: {text}")
    if faster:
        print(f"{faster} rows are faster by more than 1 %")
    return failures + [f"missing: {text_of(key)}: was {was:.4f}" for key, (was, _) in kept.items() if key not in measured]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=argparse.FileType(), default=sys.stdin, help="[standard input]")
    parser.add_argument("--expected", metavar="FILE", help="the kept file")
    parser.add_argument("--keep", metavar="FILE", help="gets the rows, with the reasons and other rows of --expected")
    options = parser.parse_args()
    lines = options.rows.read().splitlines()
    chosen = [line.removeprefix("# simulated: ").split("|") for line in lines if line.startswith("# simulated: ")]
    if not chosen:
        sys.exit("these are no rows of tern-bench gate")
    measured = rows_of(lines)
    kept_lines = pathlib.Path(options.expected).read_text().splitlines() if options.expected else []
    kept = rows_of(kept_lines)
    others = {key: row for key, row in kept.items() if [key[0], key[1].partition(":")[0]] not in chosen}
    show(measured)
    if options.keep:
        rows = {key: (ratio, kept.get(key, (0, ""))[1] if ratio < EVEN else "") for key, (ratio, _) in measured.items()}
        comments = [line for line in kept_lines if line.startswith("#")]
        pathlib.Path(options.keep).write_text("\n".join(comments + [
            "|".join(map(str, key)) + f"|{ratio:.4f}" + (f"  # {reason}" if reason else "")
            for key, (ratio, reason) in sorted((rows | others).items())]) + "\n")
    if options.expected:
        failures = judge({key: row for key, row in kept.items() if key not in others}, measured)
        print("\n".join(failures), file=sys.stderr)
        print(f"{len(measured)} rows, {len(failures)} failures")
        sys.exit(bool(failures))


if __name__ == "__main__":
    main()
