#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the documents with the tree: docs.py links|files|names|includes|seams|counters|tables|figures|commits [SOURCE]. Prints what is wrong.

links    every relative link and its anchor lead somewhere
files    every source file that a document names exists
names    every `Class::method` occurs in one file of src, and every `name` (file.cc) occurs in that file
includes the table of architecture.md has the include relations of the folders of src, taken from the #include lines
seams    another table there has the headers that a product includes of others
counters the tables with the column "Counter" have the counters of the transport, and no others
tables   no row of a table begins with an empty cell, and all have as many cells as the first
figures  every measured value in the text of README.md and performance.md comes from a file of results, or has a link
         to its source in the same paragraph
commits  every commit that a document names is in the history
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".").resolve()
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "src").glob("*/README.md"))]
NOTES = ROOT / "docs" / "bench" / "notes"  # history: they may name what is gone
SOURCE = re.compile(r"(?<![\w/.<-])(?:[\w-]+/)*[\w-]+\.(?:cc|h|hpp|c|am|sh|py|txt)\b(?!\.)")
# Files of UCX, of examples and of the user, which are not in this tree.
FOREIGN = re.compile(r"^(uct|ucp)/(uct_test|test_\w+|ucp_test)\.\w+$|^(src/ucp/)?rndv/|^rndv_(get|put)\.c$|^(first|program)\.c$")
problems = []


def problem(document, text):
    problems.append(f"{document.relative_to(ROOT)}: {text}")


def prose(document):
    """The text without blocks of code."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.M | re.S)
    return re.sub(r"^    \S.*$", "", text, flags=re.M)


def anchors(document):
    found = {}
    for title in re.findall(r"^#+ (.*)$", prose(document), flags=re.M):
        title = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
        name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
    return {n if i == 0 else f"{n}-{i}" for n, count in found.items() for i in range(count + 1)}


def links():
    for document in DOCS:
        text = re.sub(r"`[^`]*`", "", prose(document))
        targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^]]+\]: (\S+)$", text, flags=re.M)
        for target in targets:
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (document.parent / path).resolve() if path else document
            if not file.exists():
                problem(document, f"no file {path}")
            elif anchor and anchor not in anchors(file):
                problem(document, f"no heading #{anchor} in {file.relative_to(ROOT)}")


def tree():
    return [p.relative_to(ROOT).as_posix() for top in ("src", "test", "contrib", "examples", ".ci")
            for p in (ROOT / top).rglob("*") if p.is_file()]


def files():
    known = tree() + ["Makefile.am"]
    for document in DOCS:
        if NOTES in document.parents:
            continue
        for name in set(SOURCE.findall(re.sub(r"(\[[^]]*\]\()?https?://\S+", "", document.read_text()))):
            name = name.removeprefix("SRC/").replace("FOLDER", "tern/engine")
            if FOREIGN.match(name) or (ROOT / name).exists() or (ROOT / "build" / name).exists():
                continue
            if not any(path.endswith("/" + name) for path in known):
                problem(document, f"no file {name}")


def names():
    sources = {p: (ROOT / p).read_text() for p in tree() if p.startswith("src/") and p.endswith((".cc", ".h", ".hpp", ".c"))}
    words = {p: set(re.findall(r"\w+", text)) for p, text in sources.items()}
    for document in DOCS:
        if NOTES in document.parents:
            continue
        text = prose(document)
        for name in set(re.findall(r"`((?:\w+::)+~?\w+)`", text)):
            parts = [part for part in name.split("::") if part not in ("tern", "softhca", "rwapi")]
            if not any(have.issuperset(parts) for have in words.values()):
                problem(document, f"nothing in src is called {name}")
        for group, file in re.findall(r"((?:`[\w:]+`(?:,\s+|\s+and\s+|\s+or\s+)?)+)\s+\(([\w/]+\.(?:cc|h))[),;:]", text):
            at = [p for p in words if p == "src/" + file or p.endswith("/" + file)]
            for name in re.findall(r"`([\w:]+)`", group):
                if at and not any(name.split("::")[-1] in words[p] for p in at):
                    problem(document, f"{file} has no {name}")


def includes():
    document = ROOT / "docs" / "architecture.md"
    rows = re.findall(r"^\| `([\w/-]+)` \| ([^|]*) \|$", document.read_text(), flags=re.M)
    said = {folder: re.findall(r"`([\w/.-]+)`", cell) for folder, cell in rows if (ROOT / "src" / folder).is_dir()}

    def folder_of(path):
        return next((f for f in sorted(said, key=len, reverse=True) if path.startswith(f + "/") or path == f), None)

    true = {folder: set() for folder in said}
    for path in tree():
        if not path.startswith("src/") or not path.endswith((".cc", ".h", ".c")):
            continue
        folder = folder_of(path[4:])
        if folder is None:
            problem(document, f"no row for {path}")
            continue
        for name in re.findall(r'^#include "([^"]+)"', (ROOT / path).read_text(), flags=re.M):
            other = folder_of(name)
            if other not in (None, folder, "common", "tern/base"):
                true[folder].add(other)
    for folder, others in true.items():
        listed = {folder_of(other) for other in said[folder]}
        for other in others ^ listed:
            problem(document, f"{folder} {'includes' if other in others else 'does not include'} {other}")


def seams():
    document = ROOT / "docs" / "architecture.md"
    table = re.search(r"<!-- test: seams -->\n((?:\|.*\n)+)", document.read_text()).group(1)
    said = set()
    for row in table.split("\n")[2:-1]:
        headers, of, by = [re.findall(r"`([^`]+)`", cell) for cell in row.split("|")[1:-1]]
        said |= {(by[0].split("/")[0], f"{of[0]}/{header}") for header in headers}
    true = set()
    for path in tree():
        if path.startswith("src/") and path.endswith((".cc", ".h", ".c")):
            product = path.split("/")[1]
            for name in re.findall(r'^#include "([^"]+)"', (ROOT / path).read_text(), flags=re.M):
                if "/" in name and name.split("/")[0] not in (product, "common"):
                    true.add((product, name))
                elif product == "common" and not name.startswith(("common/", "tern_config")):
                    true.add((product, name))
    for product, name in said ^ true:
        problem(document, f"{product} {'includes' if (product, name) in true else 'does not include'} {name}")


def counters():
    source = ROOT / "src" / "tern" / "uct" / "counters.cc"
    true = set(re.findall(r'\{"(\w+)",', source.read_text()))
    said = set()
    for document in DOCS:
        for table in re.findall(r"^\| Counter .*\n((?:\|.*\n)+)", document.read_text(), flags=re.M):
            for row in table.split("\n")[1:-1]:
                named = set(re.findall(r"`(\w+)`", row.split("|")[1]))
                for name in named - true:
                    problem(document, f"no counter {name}")
                said |= named
    for name in true - said:
        problem(source, f"no document has the counter {name}")


def tables():
    for document in DOCS:
        width = 0
        block = False
        for number, line in enumerate(document.read_text().split("\n"), 1):
            row = line.strip()
            block ^= row.startswith("```")
            if block or line.startswith("    ") or not row.startswith("|"):
                width = 0
                continue
            cells = re.split(r"(?<!\\)\|", row)[1:-1]
            if width == 0:
                width, body = len(cells), -1
            body += 1
            if len(cells) != width:
                problem(document, f"line {number}: {len(cells)} cells, not {width}")
            if body > 1 and not cells[0].strip():
                problem(document, f"line {number}: the first cell is empty")


def figures():
    measured = re.compile(r"(?<![\w.])\d[\d.]*(?: to \d[\d.]*)? (?:%|per cent|[num]?s|[GM]B/s|[GM]b/s|M/s|times)\b|"
                          r"(?<![\w.])(?<!UCX )(?<!UCX 1.13 to )\d+\.\d+(?![.\w])")
    sources = ("](http", "src/softhca/models)")
    for document in (ROOT / "README.md", ROOT / "docs" / "bench" / "performance.md"):
        text = re.sub(r"<!-- (table|source|papers): .*?<!-- end -->", "", prose(document), flags=re.S)
        text = re.sub(r"<!-- (value|range): [^>]*-->[^<]*<!-- end -->", "", text)
        for paragraph in re.split(r"\n\s*\n|\n(?=- |\|)", re.sub(r"`[^`]*`", "", text)):
            if not any(source in paragraph for source in sources):
                for value in measured.findall(paragraph):
                    problem(document, f"{value}: from no file of results, in: {' '.join(paragraph.split())[:80]}")


def commits():
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True)
    if shallow.stdout.strip() != "false":
        return
    for document in DOCS:
        for commit in set(re.findall(r"`([0-9a-f]{7,12})`", document.read_text())):
            if subprocess.run([*git, "cat-file", "-e", commit + "^{commit}"], capture_output=True).returncode:
                problem(document, f"no commit {commit}")


checks = [links, files, names, includes, seams, counters, tables, figures, commits]
{check.__name__: check for check in checks}[sys.argv[1]]()
print("\n".join(sorted(problems)), end="\n" if problems else "")
sys.exit(1 if problems else 0)
