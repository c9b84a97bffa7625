"""The table and the plot of `lda_peers.py`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

Record = dict[str, Any]

CHECKPOINTS = (2, 5, 10, 20, 40)
"""Seconds at which tools are compared."""

FAMILIES = {
    "ours": "Reds",
    "tomotopy": "Blues",
    "topica": "YlOrBr",
    "pyrmallet": "Purples",
    "sklearn": "Oranges",
    "gensim": "Greens",
}


def tools(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Records of one corpus by tool, one per seed."""
    return {
        name: [record for record in records if record["tool"] == name]
        for name in dict.fromkeys(record["tool"] for record in records)
    }


def middle(values: Sequence[float]) -> float:
    """The median; a mark that was not reached, NaN, counts as later than any."""
    median = np.median(np.where(np.isnan(values), np.inf, values))
    return float(median) if np.isfinite(median) else np.nan


def spread(values: Sequence[float]) -> str:
    """The median of perplexities, and their range if there are several."""
    finite = [value for value in values if not np.isnan(value)]
    if not finite:
        return number(np.nan)
    text = number(float(np.median(finite)))
    return f"{text} ({number(min(finite))}–{number(max(finite))})" if len(finite) > 1 else text


def best(point: dict[str, float]) -> float:
    """The better of the single and the averaged topics at a point."""
    return min(point.get(kind, np.inf) for kind in ("single", "averaged"))


def at(record: Record, seconds: float) -> float | None:
    """The perplexity of the last point until then, of averaged topics if it has them."""
    points = [point for point in record["points"] if point["seconds"] <= seconds]
    ended = record["points"][-1]["seconds"] < 0.8 * seconds
    return None if ended or not points else points[-1].get("averaged", points[-1].get("single"))


def reach(record: Record, mark: float, clock: str = "seconds") -> float:
    """Seconds to the first point at or below a perplexity; NaN if it was not reached."""
    times = [point[clock] for point in record["points"] if best(point) <= mark]
    return min(times, default=np.nan)


def final(record: Record, kind: str) -> float:
    """The last perplexity of its kind; NaN if there is none."""
    values = [point[kind] for point in record["points"] if kind in point]
    return values[-1] if values else np.nan


def marks_of(records: Sequence[Record]) -> list[int]:
    """Perplexities to tabulate: the corpus's own, or multiples of the lowest final one."""
    if records[0]["marks"]:
        return list(records[0]["marks"])
    lowest = min(best(record["points"][-1]) for record in records)
    return [round(lowest * factor) for factor in (1.5, 1.3, 1.2, 1.1, 1.05, 1.02)]


def table(records: Sequence[Record]) -> str:
    """Results on one corpus, in Markdown."""
    first = records[0]
    marks = marks_of(records)
    head = ["tool", "passes", "s", "CPU s", "M tokens/s", "single", "averaged", "peak GiB"]
    head += [f"<= {mark}" for mark in marks]
    lines = [
        f"## {first['corpus']}{' (quick: a part of it)' if first['quick'] else ''}",
        "",
        f"K = {first['num_topics']}, {first['documents']:,} documents, {first['tokens']:,} tokens, "
        f"V = {first['words']:,}. Seconds of training, wall / CPU. Tokens are those visited. Under "
        "the marks: when single or averaged topics first got there.",
        "",
        row(head),
        row(["---"] * len(head)),
    ]
    for tool, runs in tools(records).items():
        lasts = [run["points"][-1] for run in runs]
        rates = [
            run["tokens"] * run["points"][-1]["work"] / last["seconds"] / 1e6
            for run, last in zip(runs, lasts, strict=True)
        ]
        cells = [
            tool,
            f"{np.median([last['work'] for last in lasts]):.3g}",
            f"{np.median([last['seconds'] for last in lasts]):.1f}",
            f"{np.median([last['cpu_seconds'] for last in lasts]):.1f}",
            f"{np.median(rates):.2f}",
            *(spread([final(run, kind) for run in runs]) for kind in ("single", "averaged")),
            f"{max(run['peak_memory'] for run in runs) / 2**30:.2f}",
        ]
        for mark in marks:
            wall, cpu = (
                middle([reach(run, mark, clock) for run in runs])
                for clock in ("seconds", "cpu_seconds")
            )
            cells.append("–" if np.isnan(wall) else f"{wall:.1f} / {cpu:.1f}")
        lines.append(row(cells))
    compiled = {record["tool"]: record["compilation"]["seconds"] for record in records}
    times = ", ".join(f"{tool} {seconds:.1f} s" for tool, seconds in compiled.items() if seconds)
    if times:
        lines += ["", f"Compilation, apart: {times}."]
    busy = ", ".join(f"{record['tool']} {record['load_average']:.1f}" for record in records)
    lines += ["", f"Load average at the end of each run: {busy}."]
    return "\n".join([*lines, *ahead(records)])


def ahead(records: Sequence[Record]) -> list[str]:
    """When memoised SCIR reached the final perplexity of each other tool."""
    runs = tools(records)
    ours = runs.get("ours")
    peers = {tool: theirs for tool, theirs in runs.items() if not tool.startswith("ours")}
    if not ours or not peers:
        return []
    lines = ["", "Seconds to the final perplexity of each, its own and ours (wall / CPU):", ""]
    lines += [row(["tool", "its lowest final", "it", "ours"]), row(["---"] * 4)]
    for tool, theirs in peers.items():
        mark = float(np.median([best(run["points"][-1]) for run in theirs]))
        cells = [tool, number(mark)]
        for one in (theirs, ours):
            wall, cpu = (
                middle([reach(run, mark, clock) for run in one])
                for clock in ("seconds", "cpu_seconds")
            )
            cells.append("not reached" if np.isnan(wall) else f"{wall:.1f} / {cpu:.1f}")
        lines.append(row(cells))
    return lines


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.0f}"


def plot(records: Sequence[Record], path: Path) -> None:
    """Perplexity over wall and over CPU seconds; averaged topics solid, single ones dashed."""
    figure = Figure(figsize=(12, 5.5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    colours = colours_of(list(tools(records)))
    for panel, clock in zip(panels, ("seconds", "cpu_seconds"), strict=True):
        for record in records:  # one line per seed
            colour = colours[record["tool"]]
            ours = record["tool"].startswith("ours")
            width = 2.4 if ours else 1.3
            shown = False
            for kind, style in (
                ("averaged", "-"),
                ("single", "--" if has_average(record) else "-"),
            ):
                points = [(p[clock], p[kind]) for p in record["points"] if kind in p]
                if points:
                    panel.plot(
                        *zip(*points, strict=True),
                        style,
                        color=colour,
                        lw=width,
                        marker="o" if ours else "s",
                        ms=2.5,
                        label=None if shown or record["seed"] else record["tool"],
                    )
                    shown = True
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_xlabel("seconds of training" if clock == "seconds" else "CPU seconds of training")
        panel.grid(color="#e4e8ea", lw=0.8)
    panels[0].set_ylabel("held-out perplexity (dashed: one sample)")
    panels[1].legend(frameon=False, fontsize=8)
    first = records[0]
    figure.suptitle(f"{first['corpus']}, K = {first['num_topics']}, {first['tokens']:,} tokens")
    FigureCanvasAgg(figure).print_png(path)


def colours_of(tools: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """A hue for each family of tools, lighter from member to member."""
    colours = {}
    for family, name in FAMILIES.items():
        members = [tool for tool in tools if tool.startswith(family)]
        shades = np.linspace(0.9, 0.45, len(members))
        colours |= dict(zip(members, matplotlib.colormaps[name](shades), strict=True))
    return colours


def has_average(record: Record) -> bool:
    return any("averaged" in point for point in record["points"])
