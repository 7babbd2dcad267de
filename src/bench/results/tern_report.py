#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the page of HTML that `tern-bench report` makes, for tern_results.py, whose results it gets.

Their texts and numbers are those of files that anybody may have written. The page loads nothing and runs no script, and
the same results make the same page.
"""
import base64
import io
import itertools
import logging
import math
import os
import re
import sys

SYSTEM_PYTHON = "/usr/bin/python3"
# A font without some glyph, or a folder for settings that cannot be written, is not worth a word.
logging.captureWarnings(True)
logging.disable()
try:
    import jinja2
    import matplotlib
    from matplotlib.colors import TABLEAU_COLORS
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, MaxNLocator
except ImportError as missing:
    # Packages of the distribution are for its own interpreter, which may not be the first in PATH.
    if sys.executable != SYSTEM_PYTHON and os.access(SYSTEM_PYTHON, os.X_OK):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, "-B", *sys.argv])
    sys.exit(f"tern-bench report: no module {missing.name}: install Debian's python3-jinja2 and python3-matplotlib")

from tern_results import TOO_LATE, short

PARTS = {
    "programs": "Whole programs, run in turns over each transport.",
    "latency": "The time of one message, put or get at a time. Below 1, a ratio is a gain.",
    "bandwidth": "Long messages, and many at once. Above 1, a ratio is a gain.",
    "overlap": "What a processor can compute while its message travels. Availability is that share of the time.",
    "memory": "What a process registers, what its queues take, and its queue pairs, by number of peers.",
    "scale": "Patterns of many ranks, in virtual time. In a storm only Tern connects within the time: no ratio.",
    "other": "What belongs to none of the above.",
}
FEW_ROUNDS = "few rounds"
WIDE = 15  # greatest to least value, from which on the scale is logarithmic
EVEN = 0.01  # of a ratio that is neither a gain nor a loss, from 1
DRAWABLE = 1e100  # beyond it, a coordinate may be infinite

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>Tern: results</title><style>
body { margin: 0 auto; max-width: 70em; padding: 1em; font: 15px/1.5 sans-serif }
h2 { border-top: 2px solid #ccc; margin-top: 2em } nav a, .legend span { margin-right: 1em; white-space: nowrap }
.source, .legend, small { color: #5d6875; font-size: 12.5px }
.card { border: 1px solid #ccc; padding: 0 1em; margin: 1em 0; overflow-x: auto; break-inside: avoid }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25em), 1fr)) }
img { width: 100%; max-width: 36em } table { border-collapse: collapse; font-size: 13px }
th, td { padding: 2px 1em 2px 0; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child, .runs td { text-align: left }
em { font-style: normal } .gain { color: #1d7a4c } .loss, em { color: #b4480e }
</style></head><body>
<h1>Tern and stock UCX, compared</h1>
<p>Ratios first. Stock UCX is <code>rc_verbs</code> (UCT) or <code>rc_v</code> (UCP).</p>
{% if software %}<p><b>No figure of the software HCA or of a simulation is a measurement of a network.</b> They compare
transports on a device in software; a profile is the timing model of an adapter.</p>{% endif %}
{% for text in left_out %}<p><em>Left out:</em> {{ text }}</p>
{% endfor %}<nav>{% for part in parts %}<a href="#{{ part }}">{{ part | title }}</a>{% endfor %}<a href="#runs">Runs</a>
</nav>
<p>Ratios compare the same kind of memory where a result has both (<i>private</i>): in <b class="gain">green</b>, Tern
gains and loses at no size; in <b class="loss">red</b>, it loses and gains at none. In charts, points are medians, and
bars go from the 10th to the 90th percentile of the rounds. A hollow point, and <em>?</em> in a table, is doubtful or
calculated; the cell says why when the pointer is over it. <em>late</em>: the software HCA could not keep up with its
timing model, so there is no value.</p>
{% for part, groups in parts.items() %}<h2 id="{{ part }}">{{ part | title }}</h2><p>{{ about[part] }}</p>
<table>{% for group in groups if group.headlines %}<tr><td colspan="3"><small>{{ group.title }}</small></td></tr>
{% for line in group.headlines %}<tr><td>{{ line.test }}</td><td>{{ line.name }}</td><td class="{{ line.kind }}">
{{- line.text }}{% if line.late %} <em>{{ line.late }} late</em>{% endif %}</td></tr>
{% endfor %}{% endfor %}</table>
{% for group in groups %}<h3>{{ group.title }}</h3><p class="source">
{%- for key, fact in group.run.items() if fact %}{{ " · " if not loop.first }}{{ key }} {{ fact }}{% endfor %}</p>
{% for test in group.tests %}<div class="card"><h4>{{ test.title }}</h4><div class="charts">
{% for chart in test.charts if chart.image %}<div><small>{{ chart.axis }}</small>
<img alt="" src="data:image/svg+xml;base64,{{ chart.image }}"><p class="legend">
{%- for name, (color, dash) in chart.lines.items() %}<span><b style="color: {{ color }}">
{{- "╌╌" if dash == "--" else "━━" }}</b> {{ name }}</span> {% endfor %}</p></div>
{% endfor %}</div>{% for chart in test.charts %}<details{% if not chart.image %} open{% endif %}><summary>
{{- chart.axis or "figures" }}</summary><table><tr><td></td>{% for name in chart.lines %}<th>{{ name }}</th>
{%- endfor %}</tr>
{% for size in chart.sizes %}<tr><td>{{ size }}</td>{% for name in chart.lines %}
{%- set cell = chart.cells[size, name] %}{% if not cell %}<td></td>{% else %}<td title="{{ cell.doubt }}">
{%- if cell.late %}<em>late</em>{% else %}{{ short(cell.median, cell.exact) }}{% if cell.doubt %}<em>?</em>{% endif %}
<small>
{%- if cell.unit == "x" and cell.p10 is not none %}{{ short(cell.p10) }}–{{ short(cell.p90) }}{% endif %}</small>
{%- endif %}</td>{% endif %}{% endfor %}</tr>
{% endfor %}</table></details>{% endfor %}</div>
{% endfor %}{% endfor %}{% endfor %}<h2 id="runs">Runs</h2>
<p>Where each figure is from. <i>few</i>: all figures of the run are doubtful, because it has fewer than 5 rounds.</p>
<table class="runs"><tr>{% for title in results[0].run %}<th>{{ title }}</th>{% endfor %}</tr>
{% for result in results %}<tr>{% for fact in result.run.values() %}<td>{{ fact }}</td>{% endfor %}</tr>
{% for gap in result.incomplete %}<tr><td></td><td colspan="10"><em>incomplete: {{ gap }}</em></td></tr>
{% endfor %}{% endfor %}</table></body></html>
"""


def unique(items):
    return list(dict.fromkeys(items))


def complete(result):
    """Adds what the page says of a result and of each figure."""
    rounds = [figure["doubts"] for figure in result["figures"] if figure["rounds"]]
    few = bool(rounds) and all(FEW_ROUNDS in doubts for doubts in rounds)  # said once, and not of each figure
    for figure in result["figures"]:
        doubts = [doubt for doubt in figure["doubts"] if not few or doubt != FEW_ROUNDS]
        if (figure["late_share"] or 0) > TOO_LATE and not any("late" in doubt for doubt in doubts):
            doubts.append(f"late {100 * figure['late_share']:.0f}%")
        name, calculated, rest = figure["name"].partition(", calculated")  # continues the line of what is measured
        figure.update(name=name + rest, doubt=", ".join(doubts + ["calculated"] * bool(calculated)))
    # Adapters first, then simulations, then the software HCA.
    result["rank"] = 2 if result["device"].startswith("softhca") else 0 if result["device"] else 1
    profile, slow = result["profile"], result["slow"]
    texts = [result["command"], profile and f"profile {profile}", slow and f"network slowed {slow} times"]
    result["title"] = ", ".join(filter(None, texts))
    result["run"] = {"file": result["file"], "what": result["title"], "UCX": result["ucx"],
                     **{key: result[key] for key in ("commit", "date", "machine", "device")},
                     "rounds": result["rounds"] + (" (few)" if few else ""), "figures": len(result["figures"]),
                     "doubtful": sum(bool(figure["doubt"]) and not figure["late"] for figure in result["figures"]),
                     "late": sum(figure["late"] for figure in result["figures"])}


def part_of(result, figure):
    command, test = result["command"], figure["test"]
    if command == "overlap" or test.startswith("availability"):
        return "overlap"
    if command == "sim" and not test.startswith(("half round trip", "stream", "puts", "gets")):
        return "scale"
    by_command = {"program": "programs", "memory": "memory", "tune": "other", "softhca-bench": "other",
                  "replay": "scale", "scale": "scale"}
    return by_command.get(command) or {"less": "latency", "more": "bandwidth"}.get(figure["better"], "other")


def tests_of(result, part):
    """The figures of a part by test and unit, in the order of the file. A ratio is of the values before it."""
    tests, units = {}, {}
    for figure in result["figures"]:
        if part_of(result, figure) != part:
            continue
        title, is_ratio = figure["test"], figure["unit"] == "x"
        unit = units[title] = units.get(title, "") if is_ratio else figure["unit"]
        test = tests.setdefault((title, unit), {"title": title, "unit": unit, "better": "", "ratios": [], "values": []})
        test["better"] = test["better"] or figure["better"]
        test["ratios" if is_ratio else "values"].append(figure)
    for test in tests.values():
        if test["title"] == "storm":  # only Tern connects within the time
            test["ratios"] = []
        elif not test["ratios"]:
            test["ratios"] = list(ratios_of(test["values"]))
        test["charts"] = [chart_of(test, figures) for figures in (test["ratios"], test["values"]) if figures]
    return list(tests.values())


def ratios_of(values):
    """Ratios of registered memory, which the file does not have."""
    cells = {(figure["name"], figure["x_text"]): figure["median"] for figure in values}
    for figure in values:
        stock = figure["name"].replace("tern", "rc_verbs", 1)
        yardstick = cells.get((stock, figure["x_text"])) if figure["name"].startswith("tern") else None
        if (yardstick or 0) > 0:
            ratio = figure["median"] and figure["median"] / yardstick
            yield {**figure, "name": f"tern / {stock}", "unit": "x", "median": ratio, "p10": None, "p90": None}


def headlines_of(test):
    """A line for each ratio of Tern to stock UCX, in the same kind of memory if there is one such."""
    names = unique(figure["name"] for figure in test["ratios"])
    for name in names if test["better"] else []:
        item, _, over = name.partition(" / ")
        is_headline = over.startswith("rc_") or over and item.startswith("matcher")
        alike = name.replace("tern / ", "tern, private / ", 1)
        ratios = [figure["median"] or 0 for figure in test["ratios"] if figure["name"] == name]
        known = [ratio for ratio in ratios if ratio > 0]
        if not is_headline or item.startswith("rc_") or not known or alike != name and alike in names:
            continue
        gains = {(ratio < 1) == (test["better"] == "less") for ratio in known if abs(ratio - 1) > EVEN}
        yield {"test": test["title"], "name": name, "late": len(ratios) - len(known),
               "kind": "gain" if gains == {True} else "loss" if gains == {False} else "",
               "text": " to ".join(unique([short(min(known)), short(max(known))]))}


def chart_of(test, figures):
    """A chart and its table. A chart of one size has no image."""
    is_ratio = figures[0]["unit"] == "x"
    names = unique(figure["name"] for figure in figures)
    # Lines of stock UCX are dashed, in the color of Tern's.
    kinds = [re.sub(r"(^|: )rc_\w+", r"\1tern", name) for name in names]
    colors = dict(zip(unique(kinds), itertools.cycle(TABLEAU_COLORS.values())))
    chart = {
        "axis": ("ratio" if is_ratio else test["unit"]) + (test["better"] and f", {test['better']} is better"),
        "lines": {name: (colors[kind], "-" if kind == name else "--") for name, kind in zip(names, kinds)},
        "sizes": unique(figure["x_text"] for figure in sorted(figures, key=lambda figure: figure["x"])),
        "cells": {(figure["x_text"], figure["name"]): figure for figure in figures},
    }
    chart["image"] = draw(chart, is_ratio) if len(chart["sizes"]) > 1 else ""
    return chart


def draw(chart, is_ratio):
    """An image of SVG."""
    figure = Figure(figsize=(5.6, 2.8))
    axes = figure.add_axes((0.12, 0.1, 0.87, 0.8))
    for name, (color, dash) in chart["lines"].items():
        cells = [(x, chart["cells"].get((size, name))) for x, size in enumerate(chart["sizes"])]
        points = [(x, cell) for x, cell in cells if cell and not cell["late"] and abs(cell["median"]) < DRAWABLE]
        doubtful = [point for point in points if point[1]["doubt"]]
        for some, look in ((points, {"ls": dash}), (doubtful, {"ls": "", "mfc": "white"})):
            axes.plot([x for x, _ in some], [cell["median"] for _, cell in some], "o", ms=4, lw=1, color=color, **look)
        bars = [(x, cell["p10"], cell["p90"]) for x, cell in points if cell["p10"] is not None]
        bars = [(x, low, high) for x, low, high in bars if max(abs(low), abs(high)) < DRAWABLE]
        axes.vlines([x for x, *_ in bars], [low for _, low, _ in bars], [high for *_, high in bars], color, alpha=0.5)
    if is_ratio:
        axes.axhline(1, color="gray", ls=":")
    low, high = axes.dataLim.intervaly
    if low > 1 / DRAWABLE and (is_ratio or high > WIDE * low):
        axes.set_yscale("log")
        digits = (1, 2, 5) if high < 300 * low else (1,)
        axes.yaxis.set_major_locator(LogLocator(subs=digits) if high > 9 * low else MaxNLocator(6))
        axes.minorticks_off()
    else:
        axes.set_ylim(bottom=min(low, 0))
    axes.yaxis.set_major_formatter("{x:.6g}")
    sizes = [size.partition(" peer")[0][:20].replace("$", r"\$") for size in chart["sizes"]]  # no formulas
    step = math.ceil(len(sizes) * (max(map(len, sizes)) + 2) / 80)  # as many as have room
    axes.set_xlim(-0.5, len(sizes) - 0.5)
    axes.set_xticks(range(0, len(sizes), step))
    axes.set_xticklabels(sizes[::step])
    axes.grid(axis="y", color="#ddd")
    image = io.BytesIO()
    figure.savefig(image, format="svg", metadata={"Date": None, "Creator": None})
    return base64.b64encode(image.getvalue()).decode()


def page_of(results, left_out):
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({"font.size": 8, "font.family": "DejaVu Sans", "svg.fonttype": "none",
                                "svg.hashsalt": "tern"})
    for result in results:
        complete(result)
    results = sorted(results, key=lambda result: result["rank"])
    parts = {part: [] for part in PARTS}
    for result in results:
        for part, groups in parts.items():
            if tests := tests_of(result, part):
                headlines = [line for test in tests for line in headlines_of(test)]
                groups.append({**result, "tests": tests, "headlines": headlines})
    return jinja2.Environment(autoescape=True).from_string(PAGE).render(
        results=results, left_out=left_out, short=short, about=PARTS, software=results[-1]["rank"] > 0,
        parts={part: groups for part, groups in parts.items() if groups}).encode()
