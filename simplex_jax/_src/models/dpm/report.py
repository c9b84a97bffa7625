"""The report of a fitted mixture: a self-contained HTML file without scripts."""

from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.models.dpm.clusters import Clusters
from simplex_jax._src.models.dpm.estimates import Estimate, estimates, rounded
from simplex_jax._src.models.dpm.fitting import Fit
from simplex_jax._src.models.dpm.variables import Variables
from simplex_jax._src.report import charts, display, page
from simplex_jax._src.report.display import counted

_TRACES = (
    ("alpha", "concentration alpha"),
    ("num_clusters", "number of clusters"),
    ("largest", "share of the largest cluster"),
)
_MOST_CONFUSED = 16
"""Maximum number of clusters in the table of shares."""
_SECTIONS = (
    ("clusters", "Clusters"),
    ("number", "Number of clusters"),
    ("predictive", "Log predictive"),
    ("certainty", "Certainty"),
    ("sampling", "Sampling"),
)


def variables_of(fitted: Fit) -> Variables:
    """Return the variables of the rows of a fit, or raise a ValueError if it has none."""
    if fitted.variables is None:
        raise ValueError(
            "a fit with a custom family has neither files nor a report: give dpm.fit a "
            "corpus, a data frame or Variables, or save a "
            "sklearn.DirichletProcessMixture"
        )
    return fitted.variables


def _range(fitted: Fit) -> str:
    """Return the numbers of clusters that hold 95% of the posterior."""
    numbers = sorted(fitted.num_clusters_posterior)
    below = np.cumsum([fitted.num_clusters_posterior[number] for number in numbers])
    low, high = (numbers[int(np.searchsorted(below, level - 1e-9))] for level in (0.025, 0.975))
    return f"{low}" if low == high else f"{low}–{high}"


def number_of_clusters(fitted: Fit) -> str:
    """Say how many clusters there are, in the point partition and in the samples."""
    most = max(
        fitted.num_clusters_posterior, key=lambda number: fitted.num_clusters_posterior[number]
    )
    return (
        f"{counted(fitted.num_clusters, 'cluster')} in the partition of least expected loss; in "
        f"the samples {_range(fitted)} (95%), most often {most}"
    )


def estimates_of(variables: Variables, clusters: Clusters, count: int) -> list[list[Estimate]]:
    """Return the most distinctive features of each cluster, at most `count`, best first."""
    mean, sd, overall = map(
        variables.flat, (clusters.profiles, clusters.profiles_sd, clusters.overall)
    )
    return estimates(variables, mean, sd, overall, count)


def describe_clusters(variables: Variables, clusters: Clusters, count: int) -> list[list[str]]:
    """Return the same in words."""
    return [[one.text() for one in those] for those in estimates_of(variables, clusters, count)]


def context(fitted: Fit, top_values: int) -> dict[str, Any]:
    """Return the context of the template, with `top_values` values per cluster."""
    rows = _rows(fitted, top_values)
    settings, point, traces = fitted.settings, fitted.point, _traces(fitted)
    last, predictive = page.latest(fitted.metrics, "log_predictive")
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    return {
        "title": f"{counted(fitted.num_clusters, 'cluster')} of {len(fitted.names):,} rows",
        "lead": f"Dirichlet-process mixture, {settings.sampler} slice sampler with "
        f"{settings.counts} counts{chains}, seed {settings.seed}.",
        "sections": _SECTIONS,
        "tiles": [
            ("rows", display.count(len(fitted.names))),
            ("clusters in the samples", _range(fitted)),
            ("concentration alpha", display.number(fitted.alpha)),
            (
                "held-out log predictive",
                f"{predictive:.3f}" if display.finite(predictive) else "–",
            ),
            ("time of training", display.duration(last.get("seconds"))),
            ("rows a second", display.count(last.get("rows_per_second"))),
        ],
        "charts": page.curves(fitted.metrics, "log_predictive", "held-out log predictive"),
        "traces": traces,
        "trace": traces[1:2],
        "clusters": rows,
        "mixed": set(variables_of(fitted).measures) != {"probability"},
        "confusion": fitted.clusters.confusion[:_MOST_CONFUSED, :_MOST_CONFUSED].tolist(),
        "alpha": {
            "mean": fitted.alpha,
            "sd": fitted.alpha_sd,
            "enough": diagnostics.enough(fitted.diagnostics, "alpha"),
            "lower": fitted.alpha_interval[0],
            "upper": fitted.alpha_interval[1],
        },
        "number": [
            {
                "number": number,
                "share": share,
                "bar": 100 * share / max(fitted.num_clusters_posterior.values()),
            }
            for number, share in sorted(fitted.num_clusters_posterior.items())
        ],
        "partition": {
            "loss": "loss of Binder's" if settings.loss == "binder" else "variation of information",
            "expected": point.loss,
            "clusters": fitted.num_clusters,
            "rows_used": point.rows_used,
            "rows": len(point.labels),
        },
    }


def _traces(fitted: Fit) -> list[dict[str, str]]:
    """Return a chart of each trace against the passes, with one curve per chain."""
    chains = fitted.settings.chains
    every = [(f"_chain_{chain}", f"chain {chain}") for chain in range(chains)]
    key, label = page.AXES[0]
    return [
        {
            "svg": charts.curves(
                fitted.metrics,
                key,
                label,
                measure,
                name,
                endings=every if chains > 1 else [("", name)],
            ),
            "label": f"{name.capitalize()} against {label}",
        }
        for measure, name in _TRACES
    ]


def _rows(fitted: Fit, top_values: int) -> list[dict[str, Any]]:
    """Return the entries of the clusters in the report, the largest first."""
    variables, clusters = variables_of(fitted), fitted.clusters
    scale = float(clusters.upper.max())
    bars = page.bars(clusters.sizes, clusters.lower, clusters.upper, scale)
    shown = estimates_of(variables, clusters, top_values)
    whole = variables.kind == "table"  # the share of a word in all words is small
    return [
        {
            "number": cluster,
            "size": bars[cluster],
            "present": float(clusters.present[cluster]),
            "certain": float(clusters.confusion[cluster, cluster]),
            "top": [_estimate(one, 1.0 if whole else _largest(top)) for one in top],
            "examples": fitted.examples[cluster],
        }
        for cluster, top in enumerate(shown)
    ]


def _largest(features: list[Estimate]) -> float:
    return max((one.upper if one.known else one.mean for one in features), default=0.0) or 1.0


def _estimate(one: Estimate, scale: float = 1.0) -> dict[str, Any]:
    """Return the entry of a value, a mean or a rate, with bar and interval."""
    place, low, high = (one.place(x) / scale for x in (one.mean, one.lower, one.upper))
    if one.measure == "probability":
        shown, *ends, overall = (
            f"{display.percent(x)}%" for x in (one.mean, one.lower, one.upper, one.overall)
        )
    else:
        width = one.within or 0.0
        shown, *ends, overall = (
            rounded(x, width) if width else f"{x:.3g}"
            for x in (one.mean, one.lower, one.upper, one.overall)
        )
    if one.lift is None:
        shown = f"{shown}, sd {one.within:.2g}; all rows {overall}"
    else:
        shown = f"{shown} {_times(one.lift)}"
    return {
        "value": one.name,
        "shown": shown,
        "title": f"{ends[0]} to {ends[1]}; of all rows {overall}",
        "sure": one.sure,
        "bar": 100 * place,
        "interval": (one.lower, one.upper) if one.known else None,
        "over_chains": False,
        "low": 100 * low,
        "width": 100 * (high - low),
    }


def _times(lift: float) -> str:
    return f"×{lift:.1f}" if lift < 10 else f"×{display.count(lift)}"


REPORT = page.Report(Path(__file__).with_suffix(".html"), context, items="values", most=12)
