#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the result of a benchmark: plot.py RESULT.json PICTURE.svg|png

RESULT.json is what tern-bench or paper-tables writes with --json, or softhca-bench prints. Each test has a panel, each
configuration a line with its 10th and 90th percentile. Ratios, and figures without a size, are left out. The tests of
tern-bench rwapi have two panels each: the time between messages L = t / n, and the throughput T = n s / t.
"""
import json
import sys


def die(text):
    sys.exit(f"plot.py: {text}")


TIME, THROUGHPUT = "time between messages, us", "throughput, MB/s"


def as_unit(figure, unit):
    """The figure of messages of one size as a time or as a throughput."""
    if unit.endswith(figure["unit"]):
        return dict(figure, unit=unit)
    swapped = {"median": "median", "p10": "p90", "p90": "p10"}
    values = {key: figure["x"] / figure[other] for key, other in swapped.items() if other in figure}
    return dict(figure, unit=unit, **values)


def read_figures(name):
    try:
        with open(name, encoding="utf-8") as file:
            result = json.load(file)
        figures = [one for one in result["figures"]
                   if one["unit"] != "x" and one["x"] > 0 and "median" in one]
        if result.get("command") == "rwapi":
            figures = [as_unit(one, unit) for one in figures for unit in (TIME, THROUGHPUT)]
    except OSError as error:
        die(f"{name}: {error.strerror}")
    except (ValueError, KeyError, TypeError):
        die(f"{name} is not the result of a benchmark")
    if not figures:
        die(f"{name} has no figures that can be drawn")
    return figures


def group(figures, key):
    groups = {}
    for figure in figures:
        groups.setdefault(key(figure), []).append(figure)
    return groups


def x_label(x_text):
    if x_text.endswith(("peer", "peers")):
        return "peers"
    return "longest burst, messages" if x_text.startswith("bursts") else "message size, bytes"


def draw_line(axes, name, figures, sampled):
    x = [one["x"] for one in figures]
    y = [one["median"] for one in figures]
    # What is calculated has no percentiles.
    if not all("p10" in one for one in figures):
        axes.plot(x, y, "--" if sampled else ".-", label=name)
        return
    below = [one["median"] - one["p10"] for one in figures]
    above = [one["p90"] - one["median"] for one in figures]
    axes.errorbar(x, y, yerr=[below, above], marker=".", capsize=2, label=name)


def draw(plots, figures, picture):
    panels = group(figures, lambda one: (one["test"], one["unit"]))
    columns = 2 if any(unit == THROUGHPUT for _, unit in panels) else 1
    rows = (len(panels) + columns - 1) // columns
    canvas, all_axes = plots.subplots(rows, columns, figsize=(10 * columns, 4.5 * rows), squeeze=False,
                                      constrained_layout=True)
    for axes, ((test, unit), panel) in zip(all_axes.flat, panels.items()):
        sampled = any("p10" in one for one in panel)
        for name, line in group(panel, lambda one: one["name"]).items():
            draw_line(axes, name, line, sampled)
        axes.set_title(test)
        axes.set_xlabel(x_label(panel[0]["x_text"]))
        axes.set_ylabel(unit)
        axes.set_xscale("log", base=2)
        # Times and sizes differ by orders of magnitude; rates and shares do not.
        if unit in ("us", "KiB", TIME, THROUGHPUT) and all(one.get("p10", one["median"]) > 0 for one in panel):
            axes.set_yscale("log")
        axes.grid(True)
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    canvas.savefig(picture, bbox_inches="tight")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    result, picture = sys.argv[1:]
    if not picture.endswith((".svg", ".png")):
        die(f"'{picture}' ends neither in .svg nor in .png")
    figures = read_figures(result)
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        die("the module matplotlib is missing: install python3-matplotlib")
    try:
        draw(pyplot, figures, picture)
    except OSError as error:
        die(f"{picture}: {error.strerror}")


if __name__ == "__main__":
    main()
