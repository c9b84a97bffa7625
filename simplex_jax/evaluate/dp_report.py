"""The report of a Dirichlet-process mixture: one HTML file without network and scripts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplex_jax.evaluate import charts, display, page
from simplex_jax.evaluate.intervals import beta_interval
from simplex_jax.runtime import output

_TRACES = (
    ("alpha", "concentration alpha"),
    ("occupied", "occupied clusters"),
    ("largest", "share of the largest cluster"),
)
_MOST_CONFUSED = 16
"""Clusters whose table of shares is shown."""


class Clusters(NamedTuple):
    """Fitted clusters, C of them, the largest first.

    Attributes:
        sizes: posterior mean of the number of rows of each, [C].
        lower: lower bound of its interval, [C].
        upper: upper bound, [C].
        present: share of the samples that have it, [C].
        confusion: mean shares of the rows of each cluster in all of them, [C, C].
        profiles: posterior mean probabilities of the values, [C, V].
        profiles_sd: their standard deviation, [C, V]; NaN where unknown.
        overall: probabilities of the values in all rows, [V].
        values: names of the values, V.
        examples: rows that stand for each cluster, C sequences.
    """

    sizes: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    present: np.ndarray
    confusion: np.ndarray
    profiles: np.ndarray
    profiles_sd: np.ndarray
    overall: np.ndarray
    values: Sequence[str]
    examples: Sequence[Sequence[page.Document]]


def over_represented(profiles: np.ndarray, overall: np.ndarray, count: int) -> list[np.ndarray]:
    r"""Return the values that each cluster has most more of than all rows have, best first.

    They are ranked by :math:`p \log(p / q)`, what a value adds to the divergence of the cluster's
    law p from that of all rows, q: the ratio alone would put rare values first, the difference
    frequent ones.

    Args:
        profiles: Probabilities of the values, [C, V].
        overall: Those in all rows, [V], positive.
        count: How many values, at most; none that is not over-represented.

    Example:
        >>> profiles = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
        >>> [values.tolist() for values in over_represented(profiles, np.array([0.3, 0.2, 0.5]), 9)]
        [[0, 1], [2]]
    """
    p = np.maximum(profiles.astype(np.float64), np.finfo(np.float64).tiny)
    gain = p * np.log(p / overall)
    order = np.argsort(-gain, axis=1, kind="stable")[:, :count]
    more = np.take_along_axis(gain, order, axis=1) > 0
    return [values[there] for values, there in zip(order, more, strict=True)]


def write(
    path: str | Path,
    *,
    settings: Mapping[str, object],
    corpus: Mapping[str, Any],
    versions: Mapping[str, str],
    metrics: Sequence[Mapping[str, float | None]],
    clusters: Clusters,
    alpha: Mapping[str, float | None],
    occupied: Mapping[str, float],
    partition: Mapping[str, Any],
    diagnostics: Mapping[str, Mapping[str, float | None]] | None = None,
    warnings: Sequence[str] = (),
    top_values: int = 12,
) -> None:
    """Write the report, atomically.

    Args:
        path: the HTML file to make or replace.
        settings: name -> value, as resolved for the run; shown in the order given.
        corpus: name -> value; `rows` is a count and has to be there.
        versions: package -> version.
        metrics: the evaluations in order, each with `passes` and `seconds` so far, `alpha`,
            `occupied` and `largest`, and `log_predictive` and `log_predictive_average` where
            measured; of several chains also each with the ending `_chain_0` and so on.
        clusters: the fitted clusters.
        alpha: `mean`, `sd`, `lower` and `upper` of the concentration.
        occupied: number of clusters with rows -> posterior probability.
        partition: of the point partition: `loss` and what is `expected` of it, number of
            `clusters`, and `rows_used` out of `rows`.
        diagnostics: quantity -> `rhat` and `ess`, over the chains.
        warnings: sentences to show first.
        top_values: values shown of each cluster, at least 1.

    Raises:
        ValueError: clusters whose shapes do not agree, or no value to show.
    """
    chains = int(settings.get("chains", 1))  # type: ignore[call-overload]
    html = (
        page.environment()
        .get_template("dp_report.html")
        .render(
            settings=settings,
            corpus=corpus,
            versions=versions,
            last=metrics[-1] if metrics else {},
            charts=_curves(metrics),
            traces=_traces(metrics, chains),
            clusters=_rows(clusters, top_values),
            confusion=clusters.confusion[:_MOST_CONFUSED, :_MOST_CONFUSED].tolist(),
            alpha=alpha,
            occupied=_numbers(occupied),
            partition=partition,
            warnings=warnings,
            **page.mixing(diagnostics),
        )
    )
    output.write_text(path, html)


def _curves(metrics: Sequence[Mapping[str, float | None]]) -> list[dict[str, str]]:
    measure, name = "log_predictive", "held-out log predictive"
    if not any(display.finite(record.get(measure)) for record in metrics):
        return []
    return [
        {
            "svg": charts.curves(metrics, key, label, measure, name),
            "label": f"{name.capitalize()} against {label}",
        }
        for key, label in page.AXES
    ]


def _traces(metrics: Sequence[Mapping[str, float | None]], chains: int) -> list[dict[str, str]]:
    """A chart of each traced number against the passes, with a curve for every chain."""
    every = [(f"_chain_{chain}", f"chain {chain}") for chain in range(chains)]
    key, label = page.AXES[0]
    return [
        {
            "svg": charts.curves(
                metrics, key, label, measure, name, endings=every if chains > 1 else [("", name)]
            ),
            "label": f"{name.capitalize()} against {label}",
        }
        for measure, name in _TRACES
    ]


def _numbers(occupied: Mapping[str, float]) -> list[dict[str, Any]]:
    """The posterior of the number of clusters as bars, in order."""
    largest = max(occupied.values())
    return [
        {"number": number, "share": share, "bar": 100 * share / largest}
        for number, share in sorted((int(number), share) for number, share in occupied.items())
    ]


def _rows(clusters: Clusters, top_values: int) -> list[dict[str, Any]]:
    """What is shown of each cluster, the largest first."""
    expected = (len(clusters.sizes), len(clusters.values))
    if clusters.profiles.shape != expected or clusters.profiles_sd.shape != expected:
        raise ValueError(
            f"clusters: profiles {clusters.profiles.shape} and profiles_sd "
            f"{clusters.profiles_sd.shape} must both have the shape {expected}"
        )
    if top_values < 1:
        raise ValueError(f"top_values must be at least 1, got {top_values}")
    chosen = over_represented(clusters.profiles, clusters.overall, top_values)
    known = np.zeros(len(clusters.sizes))
    bars = page.bars(
        clusters.sizes, clusters.lower, clusters.upper, known, float(clusters.upper.max())
    )
    return [
        {
            "number": cluster,
            "size": bars[cluster],
            "present": float(clusters.present[cluster]),
            "certain": float(clusters.confusion[cluster, cluster]),
            "top": _values(clusters, cluster, chosen[cluster]),
            "examples": clusters.examples[cluster],
        }
        for cluster in range(len(clusters.sizes))
    ]


def _values(clusters: Clusters, cluster: int, chosen: np.ndarray) -> list[dict[str, Any]]:
    """Values with their probability, a bar, an interval, and how many times that of all rows."""
    mean = np.clip(clusters.profiles[cluster, chosen].astype(np.float64), 0, 1)
    sd, overall = clusters.profiles_sd[cluster, chosen], clusters.overall[chosen]
    lower, upper = beta_interval(mean, sd)
    scale = float(np.where(np.isnan(sd), mean, upper).max(initial=0)) or 1.0
    return [
        {
            "value": clusters.values[value],
            "lift": float(bar["mean"] / all_),
            "overall": float(all_),
            "sure": bool(low > all_),
        }
        | bar
        for value, all_, low, bar in zip(
            chosen, overall, lower, page.bars(mean, lower, upper, sd, scale), strict=True
        )
    ]
