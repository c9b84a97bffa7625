"""What the reports of all models share: templates, bars with intervals, tables of mixing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np

from simplex_jax.evaluate import display
from simplex_jax.evaluate.checks import FEW_DRAWS, LARGE_RHAT

MOST_DIAGNOSTICS = 12
AXES = (("passes", "passes over the corpus"), ("seconds", "seconds of training"))
"""Columns of the metrics that curves are drawn against, and their names."""


class Document(NamedTuple):
    """A document that stands for a topic: its name, its share of the topic, some of its words."""

    name: str
    share: float
    words: Sequence[str]


def environment() -> jinja2.Environment:
    """Return templates in which every value is escaped: words and file names may hold markup."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= display.FILTERS
    return environment


def bars(
    mean: np.ndarray, lower: np.ndarray, upper: np.ndarray, sd: np.ndarray, scale: float
) -> list[dict[str, Any]]:
    """Return bars with intervals, in per cent of the scale; none where the sd is NaN."""
    return [
        {
            "mean": float(m),
            "bar": 100 * float(m) / scale,
            "interval": None if np.isnan(s) else (float(low), float(high)),
            "low": 100 * float(low) / scale,
            "width": 100 * float(high - low) / scale,
        }
        for m, low, high, s in zip(mean, lower, upper, sd, strict=True)
    ]


def mixing(
    diagnostics: Mapping[str, Mapping[str, float | None]] | None,
) -> dict[str, Any]:
    """Return what the template `mixing.html` wants: the quantities that have mixed least."""
    return {
        "diagnostics": worst(diagnostics or {})[:MOST_DIAGNOSTICS],
        "more_diagnostics": max(0, len(diagnostics or {}) - MOST_DIAGNOSTICS),
        "few_draws": FEW_DRAWS,
        "large_rhat": LARGE_RHAT,
    }


def worst(
    diagnostics: Mapping[str, Mapping[str, float | None]],
) -> list[tuple[str, float | None, float | None]]:
    """Return name, R-hat and effective size, what has mixed least first; None where unknown."""
    rows = [
        (name, known(entry.get("rhat")), known(entry.get("ess")))
        for name, entry in diagnostics.items()
    ]
    return sorted(rows, key=lambda row: -1.0 if row[2] is None else row[2])


def known(value: float | None) -> float | None:
    """Return a measurement, or None where it is missing or no number."""
    return value if display.finite(value) else None
