#!/usr/bin/env python3
"""Draws curves of several runs into one SVG file, in the style of `ingot report`.

    plot.py OUT.svg ARM=RUN[,RUN...] [ARM=...] -- TITLE:METRIC[,METRIC...] [TITLE:...]

ARM names runs (folders with metrics.jsonl) that differ only in their seed. Each TITLE is a chart. For each arm and
metric, it has a thin line for each run and a thick one, the mean of the runs that have a value at that step.

    examples/families/plot.py vault.svg prune=runs/vault-1,runs/vault-2 -- reward:reward/mean prunes:signal/vault/prunes
"""
import html
import json
import math
import pathlib
import sys

COLORS = ["#c2571a", "#2f74b5", "#3a8a54", "#8a5ab5", "#b5852f", "#b53a5c", "#3a9aa0", "#7a7a7a"]
WIDTH, HEIGHT, LEFT, TOP, CHART, ROW = 300, 140, 44, 24, 360, 216  # of the axes, their place, and a chart with its key


def curve(run, metric):
    """The finite values of a metric by step."""
    lines = pathlib.Path(run, "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if "step" in row and isinstance(row.get(metric), (int, float))]
    return {row["step"]: row[metric] for row in rows if math.isfinite(row[metric])}


def mean(curves):
    steps = sorted({step for one in curves for step in one})
    values = {step: [one[step] for one in curves if step in one] for step in steps}
    return {step: sum(of_step) / len(of_step) for step, of_step in values.items()}


def series_of(arms, metrics):
    """(name, curves of the runs) for each arm and metric that has values."""
    for arm, runs in arms.items():
        for metric in metrics:
            curves = [one for one in (curve(run, metric) for run in runs) if one]
            if curves:
                yield ", ".join(([arm] if len(arms) > 1 else []) + ([metric] if len(metrics) > 1 else [])) or arm, curves


def text(x, y, words, anchor="start", size=10):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}">{html.escape(words)}</text>'


def path(values, place, color, width, opacity):
    points = "L".join("{:.0f} {:.0f}".format(*place(step, value)) for step, value in values.items())
    return f'<path d="M{points}" stroke="{color}" stroke-width="{width}" opacity="{opacity}"/>'


def chart(title, series):
    """A chart as SVG, with its upper left corner at 0, 0."""
    every = [(step, value) for _, curves in series for one in curves for step, value in one.items()]
    if not every:
        raise SystemExit(f"plot.py: no run has a value for the chart '{title}'")
    low, high = min(value for _, value in every), max(value for _, value in every)
    last = max(step for step, _ in every) or 1

    def place(step, value):
        return LEFT + WIDTH * step / last, TOP + HEIGHT * (1 - ((value - low) / (high - low) if high > low else 0.5))

    svg = [text(LEFT, 14, title, size=12)]
    for share in (0, 0.5, 1):
        at = TOP + HEIGHT * (1 - share)
        svg += [f'<path d="M{LEFT} {at:.0f}h{WIDTH}" stroke="#8886"/>', text(LEFT - 4, at + 4, f"{low + share * (high - low):.3g}", "end"),
                text(LEFT + WIDTH * share, TOP + HEIGHT + 13, f"{last * share:.0f}", "middle")]
    for (name, curves), color in zip(series, COLORS * len(series)):
        svg += [path(one, place, color, 0.6, 0.5) for one in curves] + [path(mean(curves), place, color, 2, 1)]
    for i, ((name, _), color) in enumerate(zip(series, COLORS * len(series))):
        x, y = LEFT + i % 2 * 150, TOP + HEIGHT + 28 + i // 2 * 13
        svg += [f'<path d="M{x} {y - 3}h10" stroke="{color}" stroke-width="3"/>', text(x + 14, y, name)]
    return "".join(svg)


def picture(charts):
    """Charts, two in a row."""
    rows = (len(charts) + 1) // 2
    placed = [f'<g transform="translate({i % 2 * CHART} {i // 2 * ROW})">{svg}</g>' for i, svg in enumerate(charts)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * CHART} {rows * ROW}" font-family="system-ui,sans-serif" '
            'fill="none"><style>text{fill:#888}</style>\n' + "\n".join(placed) + "\n</svg>\n")


def main(arguments):
    if "--" not in arguments or arguments.index("--") < 2 or arguments[-1] == "--":
        raise SystemExit(__doc__)
    middle = arguments.index("--")
    arms = {arm: runs.split(",") for arm, _, runs in (one.partition("=") for one in arguments[1:middle])}
    charts = [(title, metrics.split(",")) for title, _, metrics in (one.partition(":") for one in arguments[middle + 1:])]
    svg = picture([chart(title, list(series_of(arms, metrics))) for title, metrics in charts])
    pathlib.Path(arguments[0]).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
