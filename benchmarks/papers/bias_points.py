"""Summaries of measured biases: the order of a method, and the cost of an accurate sample.

`bias` and `sggmc_order` measure them; `tables` makes tables of kept ones.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SIGNIFICANT = 3.0  # times the noise


class Point(NamedTuple):
    """A measured bias at one step size.

    Attributes:
        step_size: The step size.
        bias: The bias, in standard deviations.
        noise: Its standard error.
        worst: The largest |mean - exact mean| of a statistic, in its own standard errors.
        steps: Steps of one chain for an effective sample.
        seconds: Processor time of a step of one chain.
    """

    step_size: float
    bias: float
    noise: float
    worst: float
    steps: float
    seconds: float


def clear(point: Point) -> bool:
    """Return whether a bias differs significantly from 0."""
    return point.bias >= SIGNIFICANT * point.noise


def slope_of(points: Sequence[Point]) -> tuple[float, float]:
    """Return the slope of log bias on log step, and its standard error; NaN if no bias is seen."""
    seen = [point for point in points if clear(point)][-3:]
    if len(seen) < 2:
        return np.nan, np.nan
    h, bias, noise = np.array([(point.step_size, point.bias, point.noise) for point in seen]).T
    x, y, weight = np.log(h), np.log(bias), (bias / noise) ** 2
    x = x - np.average(x, weights=weight)
    spread = (weight * x**2).sum()
    return float((weight * x * y).sum() / spread), float(spread**-0.5)


def told_slope(points: Sequence[Point]) -> str:
    """Return the slope as a table cell, or how many steps have a visible bias."""
    seen = sum(map(clear, points))
    if seen < 2:
        return "at one step" if seen else "none seen"
    slope, error = slope_of(points)
    return f"{slope:.2f} ± {error:.2f}"


def step_time(points: Sequence[Point]) -> float:
    """Return the minimum processor time of a step, since other work can only add to it."""
    return min(point.seconds for point in points)


def costs(points: Sequence[Point]) -> np.ndarray:
    """Return the processor time per effective sample at each step size, in microseconds."""
    return 1e6 * step_time(points) * np.array([point.steps for point in points])


def cheapest(points: Sequence[Point], allowed: float) -> float:
    """Return the minimum cost at a bias of at most `allowed`; NaN if no step size has that.

    The bias includes its noise, which must be below half of `allowed`.
    """
    good = [
        np.hypot(point.bias, point.noise) <= allowed and point.noise <= allowed / 2
        for point in points
    ]
    return float(costs(points)[good].min()) if any(good) else np.nan
