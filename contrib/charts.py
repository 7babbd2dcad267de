#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the charts of the documents, docs/bench/charts/*.svg, from docs/bench/results: charts.py [FOLDER]

FOLDER is where the charts are written; by default docs/bench/charts. Needs python3-matplotlib. Each chart has the figures
that it shows in a comment, which contrib/tables.py --check compares with those of the results.
"""
import json
import os
import sys

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
FOLDER = os.path.join(TOP, "docs", "bench", "charts")
RESULTS = os.path.join(TOP, "docs", "bench", "results")
MARK = "figures: "

# The result, its test, the names of the lines with their labels, what the axis says, and whether its scale is logarithmic.
CHARTS = {
    "rate.svg": {
        "result": "sim-cx5-edr.json", "test": "stream",
        "names": {"tern": "Tern", "rc_verbs": "rc_verbs", "rc_mlx5, modelled": "rc_mlx5, modelled"},
        "axis": "million messages a second", "log": True,
    },
    "fresh.svg": {
        "result": "gate-cx5-edr.json", "test": "pair: fresh send",
        "names": {"speed of tern / rc_verbs": "over rc_verbs",
                  "speed of tern / rc_verbs, RNDV_THRESH=inf": "over rc_verbs, RNDV_THRESH=inf",
                  "speed of tern / rc_mlx5, modelled": "over rc_mlx5, modelled"},
        "axis": "speed of Tern / that of the peer", "log": False,
    },
}


def value(figure):
    """Bandwidths of the test `stream` as rates: its figures are rates up to some size, and then bandwidths."""
    return figure["median"] * 1000 / figure["x"] if figure["unit"] == "GB/s" else figure["median"]


def lines_of(chart, figures):
    """{label: [[size, value]]}, from the figures of the result."""
    return {label: [[figure["x"], float(f"{value(figure):.4g}")] for figure in figures
                    if (figure["test"], figure["name"]) == (chart["test"], name)]
            for name, label in chart["names"].items()}


def read(chart):
    with open(os.path.join(RESULTS, chart["result"]), encoding="utf-8") as file:
        return [figure for figure in json.load(file)["figures"]
                if figure["test"] == chart["test"] and figure["name"] in chart["names"]]


def comment(lines):
    return f"<!-- {MARK}{json.dumps(lines)} -->\n"


def stale(folder=FOLDER):
    """The charts that do not show the figures of the results."""
    wrong = []
    for name, chart in CHARTS.items():
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
        except OSError:
            text = ""
        if comment(lines_of(chart, read(chart))) not in text:
            wrong.append(name)
    return wrong


def size_text(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size /= 1024
    return f"{size:g} GiB"


def draw(name, chart, folder):
    # pylint: disable=import-error,import-outside-toplevel
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 9, "font.family": "sans-serif"})
    from matplotlib import pyplot
    lines = lines_of(chart, read(chart))
    figure, axes = pyplot.subplots(figsize=(6, 3), layout="constrained")
    # A line that lies on another one leaves that one visible.
    for (label, points), width in zip(lines.items(), (5, 2.5, 1)):
        axes.plot(*zip(*points), linewidth=width, marker="o", markersize=width + 3, label=label)
    sizes = sorted({point[0] for points in lines.values() for point in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [size_text(size) for size in sizes])
    if chart["log"]:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel("message")
    axes.set_ylabel(chart["axis"])
    axes.grid(alpha=0.3)
    axes.legend()
    path = os.path.join(folder, name)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    with open(path, encoding="utf-8") as file:
        head, found, drawing = file.read().partition("<svg ")
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + comment(lines) + found + drawing)


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit(__doc__.strip())
    folder = sys.argv[1] if len(sys.argv) > 1 else FOLDER
    os.makedirs(folder, exist_ok=True)
    for name, chart in CHARTS.items():
        draw(name, chart, folder)


if __name__ == "__main__":
    main()
