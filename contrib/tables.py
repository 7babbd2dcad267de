#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the tables of the documents from the results of the benchmarks.

    tables.py [DOCUMENT...]           writes the tables anew
    tables.py --check [DOCUMENT...]   changes nothing; fails if a table and its file differ, or a chart (charts.py)
    tables.py --trim FOLDER           leaves in the results of the folder the tests and sizes of which documents quote a
                                      figure, a line for each figure
    tables.py --list RESULT.json      what a file has: its tests, and their names and sizes

Without documents: README.md, and all of docs. A RESULT.json is what tern-bench and paper-tables write. Its name
is relative to the folder of the document. What a document takes from results stands between two comments, each on a
line of its own; blank lines beside them are kept.

    <!-- table: results/latency.json test="UCT active messages, half round trip" names="tern; rc_verbs" -->
    <!-- end -->

The options of a table; a list is separated by "; ", and has "TEXT = LABEL" where the table shows another text:

    test=LIST      the tests                                                        [all]
    names=LIST     the names of figures, in the order of the columns; also "A minus B" and "A over B"
                                                                                    [all, in the order of the file]
    x=LIST         the sizes, as in "8 B; 64 KiB"                                   [all]
    unit=LIST      the units; that of a ratio is x                                  [all]
    rows=LIST      what differs from row to row: x, name, test, file, unit          [x]
    columns=...    what differs from column to column: one of them                  [name]
    files=LIST     labels of the files, in the order of the names before            [the names]
    show=...       median; spread: and from the 10th to the 90th percentile; range: and from the least to the most
                                                                                    [ratios: spread, others: median]
    digits=N       significant digits                                               [3]
    corner=TEXT    the title of the first column                                    [the unit, if there is one only]
    below=NUMBER   only the rows that have a figure below it                        [all rows]

Exactly one figure must be in each cell; a cell of a size that was not measured is empty ("-"). A table fails that finds
nothing for one of the texts that it lists.

    <!-- source: results/latency.json results/rate.json -->
    <!-- end -->

writes a sentence for each file: command, commit, date, machine, rounds. And a single figure within a text, with the
options of a table that lead to one cell:

    a ratio of <!-- value: results/latency.json test="..." names="tern / rc_verbs" x="8 B" -->0.67<!-- end -->

What papers measured, and what is measured here, is in a file of rows, docs/bench/papers.json:

    <!-- papers: papers.json tupleq -->     the rows of a paper
    <!-- papers: papers.json -->            how many rows have which verdict
    <!-- end -->

A row has: "where" (section, figure or table), "paper" (what the paper says), "tern" (with {0} where a figure is to
stand), "figures" (each "FILE | test | name | size", of the folder results; instead of the name also "A minus B" or "A
over B"), "verdict", "rule" (in words, what the figures must be for the paper's result to be reproduced), "holds" (that
rule, of the figures, as "{0} <= 1.05"; its numbers stand in the words too), "command" and "why". A verdict about a
result needs figures and a rule, and must be what the rule gives; "not measured" needs the command that would measure
it. Rules, reasons and files are notes below the table, whose cells have at most 30 words. No other part of "tern" and
"why" may have a number with a unit, unless the paper says it: it would come from no file.
"""
import difflib
import json
import os
import re
import shlex
import sys

import charts

SCHEMA = 1
OPTIONS = ("test", "names", "x", "unit", "rows", "columns", "files", "show", "digits", "corner", "below")
BLOCK = re.compile(r"(?P<open><!-- (?P<kind>table|source|papers): (?P<words>.*?) -->\n)(?P<body>.*?)(?P<close><!-- end -->)",
                   re.DOTALL)
VALUE = re.compile(r"(?P<open><!-- (?P<kind>value|range): (?P<words>[^>]*?) -->)(?P<body>[^<]*)(?P<close><!-- end -->)")
FENCE = re.compile(r"^(```.*?^```|(?:    [^\n]*\n)+)", re.DOTALL | re.MULTILINE)

VERDICTS = ("reproduced", "beaten", "not seen", "does not arise", "needs a cluster", "not measured")
PLACES = re.compile(r"^(abstract|sections? \d|figures? \d|tables? \d)")
MEASURED = re.compile(r"\d[\d.,]*\s*(%|us\b|ns\b|s\b|[GM]B/s|Mb/s|per cent|times\b)")

WORDS = 30  # in a cell of a paper's row

UNDOUBTED = ("README.md", "performance.md")  # have no figure that its benchmark doubts

# What the documents quote: (file, test, size). And the names of the files to which they refer.
QUOTED, NAMED = set(), set()


class Wrong(Exception):
    """The text says what is wrong with a document or a result."""


def listed(text):
    """[(text, label)] of a list."""
    parts = [part.strip() for part in text.split(";")]
    return [tuple(side.strip() for side in part.split(" = ", 1)) if " = " in part else (part, part) for part in parts]


def read_result(name):
    try:
        with open(name, encoding="utf-8") as file:
            result = json.load(file)
        schema = result["schema"]
        _ = result["figures"][0]["test"]
    except OSError as error:
        raise Wrong(f"{name}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise Wrong(f"{name} is not the result of a benchmark") from error
    if schema != SCHEMA:
        raise Wrong(f"{name} has schema {schema}; this program reads {SCHEMA}")
    path = os.path.realpath(name)
    for figure in result["figures"]:
        figure["at"] = ((path, figure["test"], figure["x_text"]),)
    if "incomplete" in result:
        raise Wrong(f"{name} is incomplete: {'; '.join(map(str, result['incomplete']))}")
    return result


def parse(words, folder):
    """The files and the options of a marker."""
    files, options = [], {}
    for word in shlex.split(words):
        key, found, value = word.partition("=")
        if not found:
            files.append(word)
        elif key in OPTIONS and key not in options:
            options[key] = value
        else:
            raise Wrong(f"wrong option, or twice: {key}")
    if not files:
        raise Wrong("no file is named")
    return files, [read_result(os.path.join(folder, file)) for file in files], options


def rounded(number, digits):
    """In decimal notation, with that many significant digits."""
    if number == 0:
        return "0"
    whole = len(str(int(abs(float(f"{number:.{digits - 1}e}")))))
    if abs(number) >= 1:
        return f"{number:.{max(0, digits - whole)}f}"
    return f"{float(f'{number:.{digits - 1}e}'):.{digits - 1 - int(f'{number:e}'.split('e')[1])}f}"


def cell(figure, options):
    QUOTED.update(figure["at"])
    digits = int(options.get("digits", 3))
    show = options.get("show", "spread" if figure["unit"] == "x" else "median")
    ends = {"median": None, "spread": ("p10", "p90"), "range": ("min", "max")}
    if show not in ends:
        raise Wrong(f"show={show}: not median, spread or range")
    if "median" not in figure:
        return "-"
    median = figure["median"]
    exact = "samples" not in figure and median == int(median)
    text = str(int(median)) if exact else rounded(median, digits)
    if ends[show] and ends[show][0] in figure:
        low, high = (rounded(figure[end], digits) for end in ends[show])
        text += f" ({low} to {high})"
    if figure.get("doubts"):
        text += "?"
    return text


KEYS = {"x": "x_text", "name": "name", "test": "test", "unit": "unit", "file": "file"}
LISTS = {"test": "test", "names": "name", "x": "x", "unit": "unit", "files": "file"}


def combined(text, figures):
    """The figure "A minus B" or "A over B", of figures that have the same test and size; None if A or B is not there
    or has no value."""
    one, how, other = re.split(r" (minus|over) ", text)
    found = [[figure for figure in figures if figure["name"] == name] for name in (one, other)]
    if any(len(same) != 1 or "median" not in same[0] for same in found):
        return None
    one, other = (same[0] for same in found)
    value = one["median"] - other["median"] if how == "minus" else one["median"] / other["median"]
    return {**{key: one[key] for key in ("test", "x", "x_text")}, "name": text, "median": value,
            "at": one["at"] + other["at"], "unit": one["unit"] if how == "minus" else "x",
            "doubts": one.get("doubts") or other.get("doubts")}


def is_combined(name):
    return len(re.split(r" (?:minus|over) ", name)) == 2


def with_combined(figures, names):
    """The figures of a file, and those of the names that are made of two of them."""
    places = dict.fromkeys((figure["test"], figure["x"], figure["x_text"]) for figure in figures)
    more = [combined(name, [figure for figure in figures if (figure["test"], figure["x"], figure["x_text"]) == place])
            for name in names if is_combined(name) and all(figure["name"] != name for figure in figures) for place in places]
    return figures + [figure for figure in more if figure]


class Selection:
    """The figures of a marker, and the texts of each dimension in their order."""

    def __init__(self, files, results, options):
        names = [text for text, _ in listed(options.get("names", ""))]
        self.figures = [dict(figure, file=name) for name, result in zip(files, results)
                        for figure in with_combined(result["figures"], names)]
        self.labels = {}
        lists = {LISTS[key]: listed(options[key]) for key in LISTS if key in options}
        if "file" in lists:
            if len(lists["file"]) != len(files):
                raise Wrong("files= has another number of labels than there are files")
            lists["file"] = [(name, label) for name, (_, label) in zip(files, lists["file"])]
        for dimension, texts in lists.items():
            present = {figure[KEYS[dimension]] for figure in self.figures}
            for text, _ in texts:
                if text not in present:
                    raise Wrong(f"there is no {dimension} '{text}'")
            wanted = {text for text, _ in texts}
            self.figures = [figure for figure in self.figures if figure[KEYS[dimension]] in wanted]
        for dimension, key in KEYS.items():
            order = sorted({(f["x"], f["x_text"]) for f in self.figures}) if dimension == "x" else \
                [(0, figure[key]) for figure in self.figures]
            self.labels[dimension] = dict(lists.get(dimension) or [(text, text) for _, text in order])
        if not self.figures:
            raise Wrong("no figure has all of these texts together")

    def find(self, place):
        """The one figure at the place {dimension: text}; None if there is none."""
        found = [figure for figure in self.figures
                 if all(figure[KEYS[dimension]] == text for dimension, text in place.items())]
        if len(found) > 1:
            raise Wrong("more than one figure for " + ", ".join(place.values()) + ": " +
                        "; ".join(", ".join(f[key] for key in KEYS.values()) for f in found[:2]))
        return found[0] if found else None


def product(selection, dimensions):
    """The places of the rows."""
    places = [{}]
    for dimension in dimensions:
        if dimension not in KEYS:
            raise Wrong(f"rows and columns are of {', '.join(KEYS)}, not of {dimension}")
        places = [dict(place, **{dimension: text}) for place in places for text in selection.labels[dimension]]
    return places


def table(files, results, options):
    selection = Selection(files, results, options)
    rows = [text for text, _ in listed(options.get("rows", "x"))]
    column = options.get("columns", "name")
    units = [unit for unit in selection.labels["unit"]]
    corner = options.get("corner", units[0] if len(units) == 1 and units[0] != "x" else "")
    titles = [""] * (len(rows) - 1)
    titles.insert(0, corner)
    columns = product(selection, [column])
    lines = [titles + [selection.labels[column][place[column]] for place in columns]]
    for row in product(selection, rows):
        found = [selection.find({**row, **place}) for place in columns]
        values = [figure["median"] for figure in found if figure and "median" in figure]
        if any(found) and ("below" not in options or min(values, default=0) < float(options["below"])):
            lines.append([selection.labels[dimension][text] for dimension, text in row.items()] +
                         [cell(figure, options) if figure else "-" for figure in found])
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def source(files, results):
    text = ""
    for name, result in zip(files, results):
        machine = result["machine"]
        what = [f"[{os.path.basename(name)}]({name}): `{result['command']}`",
                f"commit `{result['commit']}`", result["date"][:10],
                f"{machine['cpu']}, {machine['cores']} cores" + (", virtual" if machine["virtual"] else "")]
        if "ucx" in result:
            what.append(f"UCX {result['ucx']}")
        profile = re.search(r"SOFTHCA_PROFILE=(\S+)", result.get("environment", ""))
        if profile or "profile" in result:
            what.append(f"profile `{profile.group(1) if profile else result['profile']}`")
        if "rounds" in result:
            what.append(f"rounds: {result['rounds']}")
        text += "- " + ", ".join(what) + "\n"
    return text


def read_papers(name):
    try:
        with open(name, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise Wrong(f"{name}: {error.strerror}") from error
    except ValueError as error:
        raise Wrong(f"{name}: {error}") from error


def paper_figure(text, file):
    """The figure of "FILE | test | name | size"."""
    parts = [part.strip() for part in text.split(" | ")]
    if len(parts) != 4:
        raise Wrong(f"not FILE | test | name | size: {text}")
    found = [figure for figure in with_combined(read_result(file)["figures"], [parts[2]])
             if (figure["test"], figure["name"], figure["x_text"]) == (parts[1], parts[2], parts[3])]
    if len(found) != 1:
        raise Wrong(f"{len(found)} figures, not one: {text}")
    return found[0]


def paper_text(figure):
    return cell(figure, {"show": "median"}) + ("" if figure["unit"] in ("", "x") else " " + figure["unit"])


def judge(row, figures):
    """Fails if the verdict is not what the rule gives."""
    rule, holds = row.get("rule"), row.get("holds")
    if not rule or not holds:
        raise Wrong(f"'{row['verdict']}' by no rule")
    for number in re.findall(r"(?<![\w.{])\d+(?:\.\d+)?(?![\w.}])", holds):
        if number not in re.findall(r"\d+(?:\.\d+)?", rule):
            raise Wrong(f"the rule does not say {number}")
    # The expression comes from a file of this tree.
    kept = eval(holds.format(*(repr(figure["median"]) for figure in figures)),  # pylint: disable=eval-used
                {"__builtins__": {}, "max": max, "min": min, "abs": abs})
    if kept == (row["verdict"] == "not seen"):
        raise Wrong(f"'{row['verdict']}', but the rule {'holds' if kept else 'does not hold'}: {holds}")


def paper_row(row, folder):
    """The cells of a row, and its note."""
    here = f"{row.get('where')}: {row.get('paper')}"
    wrong = set(row) - {"where", "paper", "tern", "figures", "verdict", "rule", "holds", "command", "why"}
    if wrong or not PLACES.match(row.get("where", "")) or not row.get("paper"):
        raise Wrong(f"{here}: {'no such member: ' + wrong.pop() if wrong else 'no place in the paper, or nothing said'}")
    verdict, figures, tern = row.get("verdict"), row.get("figures", []), row.get("tern", "")
    if verdict not in VERDICTS:
        raise Wrong(f"{here}: a verdict is one of: {', '.join(VERDICTS)}")
    if verdict in VERDICTS[:3] and not figures:
        raise Wrong(f"{here}: '{verdict}' by no figure")
    if verdict == "not measured" and not row.get("command"):
        raise Wrong(f"{here}: not measured, and no command that would")
    for loose in MEASURED.finditer(tern + " | " + row.get("why", "")):
        if loose.group() not in row["paper"]:
            raise Wrong(f"{here}: a number that comes from no file: {loose.group()}")
    if set(re.findall(r"\{(\d+)\}", tern)) != {str(i) for i in range(len(figures))}:
        raise Wrong(f"{here}: not each figure has its place")
    files = ["results/" + figure.split(" | ")[0] for figure in figures]
    try:
        found = [paper_figure(figure, os.path.join(folder, file)) for figure, file in zip(figures, files)]
        if verdict in VERDICTS[:3]:
            judge(row, found)
    except Wrong as error:
        raise Wrong(f"{here}: {error}") from error
    told = tern.format(*map(paper_text, found))
    if row.get("command"):
        told += f"{'; ' if told else ''}`{row['command']}`"
    cells = [row["where"], row["paper"], told or "-", f"**{verdict}**"]
    for words in cells:
        if len(words.split()) > WORDS:
            raise Wrong(f"{here}: a cell of more than {WORDS} words: {words}")
    parts = [f"Rule: {row['rule']}."] if row.get("rule") else []
    parts += [row["why"] + "."] if row.get("why") else []
    parts += [", ".join(f"[{os.path.basename(file)}]({file})" for file in dict.fromkeys(files))] if files else []
    return cells, " ".join(parts)


def paper_table(rows):
    lines, notes = [], []
    for cells, note in rows:
        if note:
            notes.append(f"{len(notes) + 1}. {note}\n")
            cells[-1] += f" ({len(notes)})"
        lines.append("| " + " | ".join(cells) + " |\n")
    return "| Where | The paper | Tern | Verdict |\n| --- | --- | --- | --- |\n" + "".join(lines) + "\n" + "".join(notes)


def papers(name, wanted, folder):
    contents = read_papers(name)
    rows = {paper["key"]: [paper_row(row, folder) for row in paper["rows"]] for paper in contents}
    if wanted is None:
        text = "| Paper | " + " | ".join(VERDICTS) + " |\n| --- |" + " ---: |" * len(VERDICTS) + "\n"
        for paper in contents:
            count = [[row["verdict"] for row in paper["rows"]].count(verdict) for verdict in VERDICTS]
            text += f"| [{paper['title']}](#{paper['key']}) | " + " | ".join(map(str, count)) + " |\n"
        return text
    if wanted not in rows:
        raise Wrong(f"there is no paper {wanted}")
    return paper_table(rows[wanted])


def rewritten(name):
    """The text of a document, and what it should be."""
    folder = os.path.dirname(name)
    with open(name, encoding="utf-8") as file:
        text = file.read()

    def block(match):
        if quoted(match.start()):
            return match.group()
        if match["kind"] == "papers":
            words = match["words"].split()
            if len(words) not in (1, 2):
                raise Wrong("not a file and a paper")
            body = papers(os.path.join(folder, words[0]), words[1] if len(words) == 2 else None, folder)
        else:
            files, results, options = parse(match["words"], folder)
            body = table(files, results, options) if match["kind"] == "table" else source(files, results)
        before = re.match(r"\n*", match["body"]).group()
        after = re.search(r"\n*$", match["body"]).group() if match["body"].strip() else "\n"
        return match["open"] + before + body.rstrip("\n") + max(after, "\n", key=len) + match["close"]

    def value(match):
        if quoted(match.start()):
            return match.group()
        files, results, options = parse(match["words"], folder)
        figures = Selection(files, results, options).figures
        options = dict({"show": "median"}, **options)
        if match["kind"] == "value" and len(figures) != 1:
            raise Wrong(f"{len(figures)} figures, not one: {match['words']}")
        texts = [cell(figure, options) for figure in sorted(figures, key=lambda figure: figure["median"])]
        ends = dict.fromkeys((texts[0], texts[-1]))
        return match["open"] + " to ".join(ends) + match["close"]

    def quoted(at):
        return any(code.start() <= at < code.end() for code in FENCE.finditer(text))

    before = text
    for pattern, write in ((BLOCK, block), (VALUE, value)):
        def located(match, write=write):
            try:
                return write(match)
            except Wrong as error:
                raise Wrong(f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {error}") from error
        text = pattern.sub(located, text)
    NAMED.update(re.findall(r"results/([\w.-]+\.json)", text))
    doubted = re.search(r"^.*\d\)?\?(?= \||<!--).*$", text, re.MULTILINE)
    if doubted and name.endswith(UNDOUBTED):
        raise Wrong(f"{name}: the benchmark doubts a figure: {doubted.group()}")
    return before, text


def list_result(name):
    result = read_result(name)
    figures = result["figures"]
    for test in dict.fromkeys(figure["test"] for figure in figures):
        own = [figure for figure in figures if figure["test"] == test]
        print(f'test="{test}"')
        for unit in dict.fromkeys(figure["unit"] for figure in own):
            names = dict.fromkeys(figure["name"] for figure in own if figure["unit"] == unit)
            print(f'    unit={unit} names="' + "; ".join(names) + '"')
        print('    x="' + "; ".join(dict.fromkeys(figure["x_text"] for figure in own)) + '"')


def trim(folder):
    """Keeps what is in QUOTED; all of a file that is named, and of which nothing is quoted."""
    for name in sorted(os.listdir(folder)):
        path = os.path.realpath(os.path.join(folder, name))
        if not name.endswith(".json"):
            continue
        if name not in NAMED:
            os.remove(path)
            print(f"{path}: no document names it, removed")
            continue
        result = read_result(path)
        some = any(figure["at"][0] in QUOTED for figure in result["figures"])
        figures = [{key: value for key, value in figure.items() if key != "at" and value != []}
                   for figure in result["figures"] if figure["at"][0] in QUOTED or not some]
        def short(value):
            return json.dumps(value, separators=(",", ":"))

        head = "".join(f"{short(key)}:{short(value)},\n" for key, value in result.items() if key != "figures")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{\n" + head + '"figures":[\n' + ",\n".join(map(short, figures)) + "\n]\n}\n")


def main():
    words = sys.argv[1:]
    if words[:1] == ["--list"] and len(words) == 2:
        list_result(words[1])
        return
    check = "--check" in words
    documents = [word for word in words if word != "--check"]
    results = documents[1] if documents[:1] == ["--trim"] and len(documents) == 2 else None
    if results:
        documents = []
    if any(word.startswith("-") for word in documents):
        sys.exit(__doc__.strip())
    top = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    outdated = charts.stale() if check and not documents else []
    if not documents:
        documents = [os.path.join(top, "README.md")]
        for folder, _, names in sorted(os.walk(os.path.join(top, "docs"))):
            documents += sorted(os.path.join(folder, name) for name in names if name.endswith(".md"))
    differ = False
    for name in documents:
        before, after = rewritten(name)
        if before == after:
            continue
        if check:
            differ = True
            sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), after.splitlines(True), name,
                                                       name + " by its results", n=0))
        else:
            with open(name, "w", encoding="utf-8") as file:
                file.write(after)
            print(f"{name}: written")
    if results:
        for chart in charts.CHARTS.values():
            QUOTED.update((os.path.realpath(os.path.join(results, chart["result"])), figure["test"], figure["x_text"])
                          for figure in charts.read(chart))
        trim(results)
    if outdated:
        sys.exit(f"tables.py: {', '.join(outdated)}: run contrib/charts.py")
    if differ:
        sys.exit("tables.py: run contrib/tables.py")


if __name__ == "__main__":
    try:
        main()
    except Wrong as error:
        sys.exit(f"tables.py: {error}")
    except OSError as error:
        sys.exit(f"tables.py: {error.filename}: {error.strerror}")
