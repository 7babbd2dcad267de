#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""process_page.py PAGE STOCK TERN: compares what processes said (test/tern/ucp/process.c) with the tables of docs/tern/process.md.

What the process over Tern has more than the one over the stock transport must be in the tables, and what the tables
say of every process ("always") must be there.
"""
import re
import sys
from collections import Counter

# Of the software HCA and of UCX itself; a transport's queues decide how many there are of some.
OTHERS = {"fd": re.compile(r"^/(dev/(shm|null|pts|zero)|memfd:)|^(pipe|socket):|^/proc/|^/tmp/|^/$"),
          "mapping": re.compile(r"^/(memfd:|dev/shm|SYSV)")}
errors = []


def lines(path):
    stages = {}
    for line in open(path):
        stage, kind, rest = line.rstrip("\n").split(" ", 2)
        stages.setdefault((stage, kind), []).append(rest)
    return stages


def table(page, name):
    """The first columns of a table without their backquotes, with the rows."""
    text = re.search(rf"^<!-- test: {name} -->\n(.*?)\n\n", page, re.S | re.M)
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in text[1].splitlines()[2:]]
    return {row[0].strip("`"): row[1:] for row in rows}


def expect(what, right):
    if not right:
        errors.append(what)


def name_of(thread):
    return re.match(r"Name: (\S+)", thread)[1]


def file_of(path):
    path = path.replace(" (deleted)", "")
    return re.sub(r"\.so\b.*", ".so", path.rsplit("/", 1)[-1]) if ".so" in path else path


page = open(sys.argv[1]).read()
stock, tern = lines(sys.argv[2]), lines(sys.argv[3])

threads = table(page, "threads")
more = Counter(map(name_of, tern["used", "thread"])) - Counter(map(name_of, stock["used", "thread"]))
expect(f"threads that the page does not name: {set(more) - set(threads)}", set(more) <= set(threads))
for name, row in threads.items():
    expect(f"{name} is missing", row[0] != "the first pinned memory" or more[name] > 0)
for thread in tern["used", "thread"]:
    if name_of(thread) in threads:
        # All but what the kernel and the C library keep for themselves.
        blocked = int(re.search(r"SigBlk: (\S+)", thread)[1], 16)
        kept = sum(1 << (signal - 1) for signal in (9, 19, 32, 33))
        expect(f"takes signals: {thread}", blocked | kept == (1 << 64) - 1)

for kind in ("fd", "mapping"):
    rows = table(page, "descriptors" if kind == "fd" else "mappings")
    more = Counter(map(file_of, tern["used", kind])) - Counter(map(file_of, stock["used", kind]))
    names = {name for name in more if not OTHERS[kind].search(name)}
    expect(f"{kind}: the page does not name {names - set(rows)}", names <= set(rows))
    for name, row in rows.items():
        expect(f"{kind} {name} is missing", "always" not in row[0] or more[name] > 0)

for stage in ("start", "used", "ended"):
    expect(f"signals differ, {stage}: {tern[stage, 'signals']} {stock[stage, 'signals']}",
           tern[stage, "signals"] == stock[stage, "signals"])
expect(f"memory is locked: {tern['used', 'locked']}", tern["used", "locked"] == stock["used", "locked"])
expect("the environment has changed", sorted(tern["used", "environ"]) == sorted(tern["start", "environ"]))
left = {name_of(thread) for thread in tern["ended", "thread"]} & set(threads)
expect(f"threads that stay when all is closed: {left}", not left)
left = Counter(tern["ended", "fd"]) - Counter(stock["ended", "fd"])
expect(f"descriptors that stay when all is closed: {dict(left)}", not left)

print("\n".join(errors))
sys.exit(bool(errors))
