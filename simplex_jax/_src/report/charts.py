"""Charts of the report as SVG elements, coloured by the style sheet of the page."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from simplex_jax._src.evaluate.diagnostics import finite

_STYLES = (("var(--faint)", 1.4), ("var(--accent)", 2.2), ("var(--soft)", 1.0))
SAMPLES = (("", "one sample"), ("_average", "average of samples"))
"""Curves of a measure: suffixes of the names in the metrics, and legends."""

_WIDTH, _HEIGHT = 403.0, 223.0
_ROW, _LETTER = 14.0, 5.6  # of type: the distance of lines, and the width of a letter
_MARGIN = 0.05  # of the extent of the data, on each side
_MOST_TICKS, _MOST_MARKS = 6, 24


class _Curve(NamedTuple):
    legend: str
    colour: str
    width: float
    x: np.ndarray
    y: np.ndarray


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

    Returns an `<svg>` element.
    """
    drawn = []
    for number, (ending, legend) in enumerate(endings):
        points = [
            (record[key], record[measure + ending])
            for record in metrics
            if finite(record.get(measure + ending))
        ]
        if points:
            x, y = np.array(points, np.float64).T
            drawn.append(_Curve(legend, *_STYLES[number % len(_STYLES)], x, y))
    return _drawing(drawn, label, name, level)


def _drawing(drawn: Sequence[_Curve], label: str, name: str, level: float | None) -> str:
    """Draw curves with their axes, and a legend above if there are several."""
    everything = [curve.y for curve in drawn] + ([] if level is None else [np.array([level])])
    x_ends, y_ends = _extent([curve.x for curve in drawn]), _extent(everything)
    legends, top = _legends(drawn) if len(drawn) > 1 else ([], 8.0)
    y_ticks = _ticks(*y_ends)
    left = _ROW + 10 + _LETTER * max(len(f"{y:,.12g}") for y in y_ticks)
    right, bottom = _WIDTH - 10, _HEIGHT - 2 * _ROW - 8

    def across(x: float) -> float:
        return left + (right - left) * (x - x_ends[0]) / (x_ends[1] - x_ends[0])

    def up(y: float) -> float:
        return bottom + (top - bottom) * (y - y_ends[0]) / (y_ends[1] - y_ends[0])

    parts = [f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" font-size="10">']
    line = 'style="stroke: var(--line); stroke-width: .8; fill: none"'
    for y in y_ticks:
        parts.append(f'<path d="M{left:.1f} {up(y):.1f}H{right:.1f}" {line}/>')
        parts.append(_text(left - 5, up(y) + 3.5, f"{y:,.12g}", "end"))
    parts.append(f'<path d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}" {line}/>')
    for x in _ticks(*x_ends):
        parts.append(f'<path d="M{across(x):.1f} {bottom:.1f}v3.5" {line}/>')
        parts.append(_text(across(x), bottom + _ROW, f"{x:,.12g}", "middle"))
    parts.append(_text((left + right) / 2, bottom + 2 * _ROW + 2, label, "middle"))
    middle = (top + bottom) / 2
    turn = f' transform="rotate(-90 10 {middle:.1f})"'
    parts.append(_text(10, middle, name, "middle", turn))
    if level is not None:
        dashes = "stroke: var(--soft); stroke-dasharray: 4 3"
        parts.append(f'<path d="M{left:.1f} {up(level):.1f}H{right:.1f}" style="{dashes}"/>')
    for curve in drawn:
        places = [(across(x), up(y)) for x, y in zip(curve.x, curve.y, strict=True)]
        style = f"fill: none; stroke: {curve.colour}; stroke-width: {curve.width}"
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{joined}" style="{style}; stroke-linejoin: round"/>')
        for x, y in places if len(places) <= _MOST_MARKS else ():
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" style="fill: {curve.colour}"/>')
    for x, y, curve in legends:
        style = f"stroke: {curve.colour}; stroke-width: {curve.width}"
        parts.append(f'<path d="M{x:.1f} {y - 3.5:.1f}h16" style="{style}"/>')
        parts.append(_text(x + 20, y, curve.legend, "start"))
    return "\n".join([*parts, "</svg>"])


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}'
    return f'<text {place} style="fill: var(--soft)">{html.escape(text)}</text>'


def _extent(values: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the ends of an axis that has room for all values."""
    every = np.concatenate([np.zeros(0), *values])
    low, high = (float(every.min()), float(every.max())) if every.size else (0.0, 1.0)
    room = _MARGIN * ((high - low) or abs(high) or 1.0)
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    """Return a few round numbers between two."""
    rough = (high - low) / _MOST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(n * power for n in (1, 2, 2.5, 5, 10) if n * power >= 0.999 * rough)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _legends(drawn: Sequence[_Curve]) -> tuple[list[tuple[float, float, _Curve]], float]:
    """Return the places of the legends, from left to right in rows, and the end of the last."""
    places: list[tuple[float, float, _Curve]] = []
    x, y = 34.0, _ROW
    for curve in drawn:
        width = 34 + _LETTER * len(curve.legend)
        if places and x + width > _WIDTH:
            x, y = 34.0, y + _ROW
        places.append((x, y, curve))
        x += width
    return places, y + 8


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
