"""Charts of the report as SVG elements, coloured by the style sheet of the page."""

import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from simplex_jax._src.evaluate.diagnostics import finite
from simplex_jax._src.extras import needed

# Matplotlib needs numeric colours; the page has named ones, for light and dark mode.
_COLOURS = {
    "var(--soft)": "#010203",
    "var(--line)": "#010204",
    "var(--faint)": "#010205",
    "var(--accent)": "#010206",
}
_STYLES = (("var(--faint)", 1.4), ("var(--accent)", 2.2), ("var(--soft)", 1.0))
SAMPLES = (("", "one sample"), ("_average", "average of samples"))
"""Curves of a measure: suffixes of the names in the metrics, and legends."""


def curves(
    metrics: Sequence[Mapping[str, float | None]],
    key: str,
    label: str,
    measure: str = "perplexity",
    name: str = "held-out perplexity",
    level: float | None = None,
    endings: Sequence[tuple[str, str]] = SAMPLES,
) -> str:
    """Draw a measure of one sample and of the average against a column of the metrics.

    `metrics` are the evaluations in order, each with `key` and, if measured, the measure with each
    ending. The axis labels are `label` and `name`; a dashed line marks an ideal level.

    Returns an `<svg>` element; its ids begin with measure and key, so a page can have several.
    """
    with needed("the report"):  # here, so that commands that draw nothing do not wait for it
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    soft, line = _COLOURS["var(--soft)"], _COLOURS["var(--line)"]
    style: dict[Any, Any] = {
        "svg.fonttype": "none",  # text stays text, in the fonts of the page
        "svg.hashsalt": measure + key,  # the same data give the same bytes
        "axes.edgecolor": line,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "text.color": soft,
        "axes.labelcolor": soft,
        "xtick.color": soft,
        "ytick.color": soft,
        "font.size": 10,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(5.6, 3.1), layout="constrained")
        axes = figure.add_subplot()
        for number, (ending, legend) in enumerate(endings):
            points = [
                (record[key], record[measure + ending])
                for record in metrics
                if finite(record.get(measure + ending))
            ]
            if points:
                marker = "o" if len(points) < 25 else None
                x, y = zip(*points, strict=True)
                colour, width = _STYLES[number % len(_STYLES)]
                colour = _COLOURS[colour]
                axes.plot(x, y, color=colour, lw=width, marker=marker, ms=3.5, label=legend)
        axes.set(xlabel=label, ylabel=name)
        if level is not None:
            axes.axhline(level, color=soft, lw=1, ls="--")
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.12g}"))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.12g}"))
        axes.grid(axis="y", color=line, lw=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        if len(axes.get_legend_handles_labels()[1]) > 1:
            axes.legend(frameon=False)
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    for name, colour in _COLOURS.items():
        svg = svg.replace(colour, name)
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{measure}-{key}-", svg)


_MOST_LABELS = 200  # maps of more topics have no labels


class Label(NamedTuple):
    """A word beside a circle, and the height of its baseline."""

    text: str
    y: float


class Circle(NamedTuple):
    """A topic on the map, in the units of the drawing.

    The squared radius is proportional to the prevalence. `numbered` is true if the number of the
    topic fits into the circle. There is a label if one fits below or above the circle.
    """

    topic: int
    x: float
    y: float
    radius: float
    numbered: bool
    label: Label | None


class Map(NamedTuple):
    """A map of topics: its size, and the circles in drawing order."""

    width: int
    height: int
    circles: list[Circle]


def topic_map(
    positions: np.ndarray,
    prevalence: np.ndarray,
    labels: Sequence[str],
    *,
    width: int = 640,
    height: int = 460,
) -> Map:
    """Place topics as circles with areas proportional to prevalence, [K], the largest drawn first.

    The positions, [K, 2], may have any unit; both axes have the same scale. A label is shown if it
    overlaps no other circle or label.
    """
    places = np.asarray(positions, np.float64)
    shares = np.asarray(prevalence, np.float64)
    largest = min(40.0, 0.33 * math.sqrt(width * height / len(shares)))
    radii = np.maximum(largest * np.sqrt(shares / max(shares.max(), 1e-12)), 2.5)
    middle = (places.max(axis=0) + places.min(axis=0)) / 2
    room = np.array([width, height]) - 2 * (radii.max() + 14)
    extent = np.maximum(places.max(axis=0) - places.min(axis=0), 1e-12)
    centres = (places - middle) * (room / extent).min() + np.array([width, height]) / 2

    order = np.argsort(-shares, kind="stable")
    boxes = [(*(centres[k] - radii[k]), *(centres[k] + radii[k])) for k in order]
    circles = []
    for rank, k in enumerate(order):
        x, y = centres[k]
        half = 3.3 * len(labels[k])  # half the width of a label in 11 px type
        below, above = y + radii[k] + 11, y - radii[k] - 4
        label = None
        for baseline in (below, above) if len(shares) <= _MOST_LABELS else ():
            box = (x - half, baseline - 9, x + half, baseline + 3)
            inside = box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height
            others = boxes[:rank] + boxes[rank + 1 :]
            if inside and not any(_overlap(box, other) for other in others):
                boxes.append(box)
                label = Label(labels[k], float(baseline))
                break
        circles.append(Circle(int(k), float(x), float(y), float(radii[k]), radii[k] >= 9, label))
    return Map(width, height, circles)


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
