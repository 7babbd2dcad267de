#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What `tern-bench compare` executes: reads two results that benchmarks wrote to files, and compares them. What a file
says is not trusted.

    tern_results.py A B
"""
import bisect
import functools
import itertools
import json
import math
import os
import re
import stat
import sys

SCHEMA = 1
MOST_BYTES = 64 << 20  # of a file
MOST_TEXT = 400  # characters of a text
TOO_LATE = 0.05  # of the operations
EXIT_CHANGED = 4

CHANCE = 0.01
MOST_EXACT = 20  # rounds, with which the chance is counted exactly


class Failure(Exception):
    """A file cannot be read, written or compared; the text says why."""


def harmless(text):
    """Without control characters, which a terminal would obey."""
    if not isinstance(text, str):
        raise Failure(f"{json.dumps(text)[:MOST_TEXT]} is not a text")
    text = text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "..."
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text.encode(errors="replace").decode())


def number(value):
    """None is a missing number."""
    if value is not None and (type(value) not in (int, float) or not math.isfinite(value)):
        raise Failure(f"{json.dumps(value)[:MOST_TEXT]} is not a number")
    return None if value is None else float(value)


def texts(values):
    return [harmless(text) for text in values]


def figure_of(entry):
    figure = {key: harmless(entry[key]) for key in ("test", "name", "unit", "x_text")}
    figure["x"] = number(entry.get("x")) or 0.0
    for key in ("median", "p10", "p90", "at_most", "at_least", "late_share"):
        figure[key] = number(entry.get(key))
    figure["rounds"] = [number(value) for value in entry.get("rounds", [])]
    figure["doubts"] = texts(entry.get("doubts", []))
    if None in figure["rounds"]:
        raise Failure("a round is missing")
    refused = entry.get("refused", False)
    if not isinstance(refused, bool):
        raise Failure("'refused' is neither true nor false")
    if refused:
        if (figure["late_share"] or 0) <= TOO_LATE and not figure["doubts"]:
            figure["doubts"].append("late")
        figure.update(median=None, p10=None, p90=None, rounds=[])
    elif figure["median"] is None:
        raise Failure("it has no median")
    if (figure["p10"] is None) != (figure["p90"] is None):
        raise Failure("it has one percentile only")
    figure["late"] = figure["median"] is None
    figure["exact"] = not figure["rounds"] and figure["p10"] is None
    return figure


def key_of(figure):
    return tuple(figure[key] for key in ("test", "x_text", "name", "unit"))


def variable_of(environment, name):
    """The value of a variable of the environment that a file lists."""
    found = re.search(rf"(?:^| ){name}=(\S*)", environment)
    return found.group(1) if found else ""


def better_of(unit, test):
    """Whether "less" or "more" is better; empty: nobody knows."""
    if unit.endswith("/s") or unit == "%" or unit == "" and test.startswith("availability"):
        return "more"
    is_cost = unit in ("ns", "us", "ms", "s", "B", "KiB", "MiB", "GiB") or unit == "" and test.startswith("queue pairs")
    return "less" if is_cost else ""


def add_better(figures):
    """A ratio is one of what its test measures."""
    units = {}
    for figure in figures:
        if figure["unit"] != "x":
            units.setdefault((figure["test"], figure["x_text"]), figure["unit"])
    for figure in figures:
        unit = figure["unit"] if figure["unit"] != "x" else units.get((figure["test"], figure["x_text"]), "x")
        limited = "less" if figure["at_most"] is not None else "more" if figure["at_least"] is not None else ""
        figure["better"] = limited or better_of(unit, figure["test"])


def result_of(root):
    if type(root["schema"]) is not int or root["schema"] != SCHEMA:
        raise Failure(f"it has schema {json.dumps(root['schema'])[:MOST_TEXT]}; this program reads {SCHEMA}")
    result = {key: harmless(root.get(key, "")) for key in ("command", "commit", "date", "device", "ucx", "rounds")}
    result["command"] = result["command"] or "softhca-bench"
    result["date"] = result["date"][:10]
    machine = root["machine"]
    result["machine"] = f"{harmless(machine['cpu'])}, {number(machine['cores']):.0f} cores" + (
        ", virtual" if machine["virtual"] else "")
    environment = harmless(root.get("environment", ""))
    result["profile"] = harmless(root.get("profile", "")) or variable_of(environment, "SOFTHCA_PROFILE")
    slow = harmless(root.get("slow", "")) or variable_of(environment, "SOFTHCA_SLOW")
    result["slow"] = "" if slow == "1" else slow
    result["incomplete"] = texts(root.get("incomplete", []))
    result["figures"] = [figure_of(entry) for entry in root["figures"]]
    if not result["figures"]:
        raise Failure("it has no figures")
    if len({key_of(figure) for figure in result["figures"]}) != len(result["figures"]):
        raise Failure("two figures have the same test, size, name and unit")
    add_better(result["figures"])
    return result


def parse(name, data):
    """A result. Raises Failure, which names the file and what is wrong with it."""
    try:
        return {"file": harmless(os.path.basename(name)), **result_of(json.loads(data.decode()))}
    except (Failure, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = f"there is no {error}" if isinstance(error, KeyError) else error
        raise Failure(f"{harmless(name)} is not the result of a benchmark: {harmless(str(why))}") from error


def read(path):
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for a writer
            raise Failure(f"{harmless(path)} is not a file")
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Failure(f"{harmless(path)}: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise Failure(f"{harmless(path)} is longer than 64 MiB")
    return parse(path, data)


def short(value, exact=False):
    """Three significant digits at least; exact numbers are written in full."""
    decimal = abs(value) < 1e15 and (abs(value) > 99.9 or exact and value.is_integer())
    return f"{value:.0f}" if decimal else f"{value:#.3g}"


@functools.lru_cache(maxsize=None)
def orders(one, other):
    """By rank sum, how many orders of so many values there are: the greatest one is of either set."""
    if one == 0 or other == 0:
        return [1]
    greatest = [0] * other + orders(one - 1, other)
    return [a + b for a, b in itertools.zip_longest(greatest, orders(one, other - 1), fillvalue=0)]


def chance_of(one, other):
    """The chance that two sets of rounds differ in rank as much as these, or more, if nothing but chance makes them
    differ: the test of Mann and Whitney, for both directions. It assumes nothing about how values are distributed."""
    if not one or not other:
        return 1
    count, most = len(one) * len(other), max(len(one), len(other))
    other = sorted(other)
    # In how many of the other's values each value is greater; equal ones count half.
    rank_sum = sum(bisect.bisect_left(other, value) + bisect.bisect_right(other, value) for value in one) / 2
    low = min(rank_sum, count - rank_sum)
    if most <= MOST_EXACT:
        ways = orders(len(one), len(other))
        return min(1, 2 * sum(ways[:int(low) + 1]) / sum(ways))
    deviation = math.sqrt(count * (len(one) + len(other) + 1) / 12)
    return min(1, math.erfc((count / 2 - low - 0.5) / deviation / math.sqrt(2)))


def range_of(figure):
    """Of the rounds; of the samples if the file has no rounds."""
    if figure["rounds"]:
        return min(figure["rounds"]), max(figure["rounds"])
    return (figure["median"],) * 2 if figure["p10"] is None else (figure["p10"], figure["p90"])


def is_outside(value, figure):
    """Whether it is not between the 10th and the 90th percentile of the figure's rounds."""
    rounds = sorted(figure["rounds"])
    if not rounds:
        return not range_of(figure)[0] <= value <= range_of(figure)[1]
    low, high = (rounds[math.floor(share * (len(rounds) - 1) + 0.5)] for share in (0.1, 0.9))
    return not low <= value <= high


def change_of(before, after):
    """Of two figures of the same measurement: "" (within the spread), "changed", "perhaps" (too few rounds to exclude
    chance) or "late" (one has no value). Without rounds, any difference is a change."""
    if before["late"] or after["late"]:
        return "" if before["late"] == after["late"] else "late"
    if before["exact"] and after["exact"]:
        return "" if before["median"] == after["median"] else "changed"
    if not is_outside(before["median"], after) or not is_outside(after["median"], before):
        return ""
    if chance_of(before["rounds"], after["rounds"]) < CHANCE:
        return "changed"
    (low, high), (other_low, other_high) = range_of(before), range_of(after)
    return "perhaps" if high < other_low or other_high < low else ""


def cells_of(before, after):
    def value(figure):
        if figure["late"]:
            return "late"
        spread = f" ({short(range_of(figure)[0])}..{short(range_of(figure)[1])})" if figure["rounds"] else ""
        return short(figure["median"], not figure["rounds"]) + spread

    change = verdict = ""
    if not before["late"] and not after["late"]:
        if before["median"] != 0:
            change = f"{100 * (after['median'] / before['median'] - 1):+.1f} %"
        if after["better"]:
            verdict = "better" if (after["median"] < before["median"]) == (after["better"] == "less") else "worse"
    unit = "ratio" if after["unit"] == "x" else after["unit"]
    return [after["test"], after["x_text"], after["name"], unit, f"{value(before)} -> {value(after)}", change, verdict]


def compare(before, after):
    """What differs, for the reader; how many figures have changed; how many both have."""
    lines = []
    for title, result in (("A", before), ("B", after)):
        facts = {"command": "{}", "commit": "commit {}", "date": "{}", "machine": "{}", "ucx": "UCX {}", "device": "{}",
                 "profile": "profile {}", "slow": "slowed {} times", "rounds": "rounds {}"}
        told = [text.format(result[key]) for key, text in facts.items() if result[key]]
        lines.append(f"{title}  {result['file']}: {', '.join(told)}")
        lines += [f"   incomplete: {gap}" for gap in result["incomplete"]]
    names = {"machine": "machine", "ucx": "UCX", "device": "device", "profile": "profile", "slow": "slowness"}
    if different := [name for key, name in names.items() if before[key] != after[key]]:
        lines.append(f"not the same: {', '.join(different)}. Only ratios may be comparable.")
    old = {key_of(figure): figure for figure in before["figures"]}
    pairs = [(old[key_of(figure)], figure) for figure in after["figures"] if key_of(figure) in old]
    changes = {"changed": [], "perhaps": [], "late": [], "": []}
    for pair in pairs:
        changes[change_of(*pair)].append(cells_of(*pair))
    changed = len(changes["changed"])
    lines.append(f"{changed} of {len(pairs)} figures changed beyond their spread")
    tested = sum(bool(was["rounds"] and figure["rounds"]) for was, figure in pairs)
    if tested and changed:
        lines.append(f"(chance alone would make up to {math.ceil(CHANCE * tested)} of {tested} measured ones look so)")
    for kind, title in (("changed", "changed: medians, with the range of the rounds"),
                        ("perhaps", "perhaps changed: too few rounds to exclude chance"),
                        ("late", "late in one of them")):
        table = changes[kind]
        widths = [max(map(len, column)) for column in zip(*table)]
        lines += ["", title] if table else []
        for *first, change, verdict in table:
            aligned = [*map(str.ljust, first, widths), change.rjust(widths[-2]), verdict]
            lines.append(f"  {'  '.join(aligned)}".rstrip())
    only = len(before["figures"]) - len(pairs), len(after["figures"]) - len(pairs)
    if any(only):
        lines += ["", f"not compared: {only[0]} figures only in A, {only[1]} only in B"]
    return "\n".join(lines), changed, len(pairs)


def run_compare(before, after):
    text, changed, compared = compare(read(before), read(after))
    print(text)
    if compared == 0:
        raise Failure("the files have no measurement in common")
    return EXIT_CHANGED if changed else 0


def main(before, after):
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        return run_compare(before, after)
    except Failure as failure:
        print(f"tern-bench compare: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
