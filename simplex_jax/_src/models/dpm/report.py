"""The report of a fitted mixture: a self-contained HTML file without scripts."""

from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.evaluate.intervals import beta_interval
from simplex_jax._src.models.dpm.clusters import Clusters
from simplex_jax._src.models.dpm.columns import Columns
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


def variables_of(fitted: Fit) -> Variables | Columns:
    """Return the variables of the rows of a fit, or raise a ValueError if it has none."""
    if fitted.variables is None:
        raise ValueError(
            "a fit with a custom family has neither files nor a report: give dpm.fit a "
            "corpus, a table of categories, a data frame or Variables, or save a "
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


def profiles(
    variables: Variables | Columns, clusters: Clusters
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return profiles [C, V], their standard deviations and the profile of all rows [V]."""
    mean, sd, overall = (
        variables.flat(tree) for tree in (clusters.profiles, clusters.profiles_sd, clusters.overall)
    )
    return mean, sd, overall


def describe_clusters(
    variables: Variables | Columns, clusters: Clusters, count: int
) -> list[list[str]]:
    """Return the most distinctive features of each cluster in words, best first."""
    mean, sd, overall = profiles(variables, clusters)
    if isinstance(variables, Columns):
        features = estimates(variables, mean, sd, overall, count)
        return [[one.text() for one in those] for those in features]
    items = variables.items
    return [[items[value] for value in values] for values in over_represented(mean, overall, count)]


def over_represented(profiles: np.ndarray, overall: np.ndarray, count: int) -> list[np.ndarray]:
    r"""Return the most over-represented values of each cluster, at most `count`, best first.

    They are ranked by :math:`p \log(p / q)`, their contribution to the divergence of the cluster's
    distribution p, `profiles` [C, V], from that of all rows, q, `overall` [V]. The ratio alone
    would rank rare values first, the difference frequent ones.
    """
    p = np.maximum(profiles.astype(np.float64), np.finfo(np.float64).tiny)
    gain = p * np.log(p / overall)
    order = np.argsort(-gain, axis=1, kind="stable")[:, :count]
    more = np.take_along_axis(gain, order, axis=1) > 0
    return [values[chosen] for values, chosen in zip(order, more, strict=True)]


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
        "mixed": variables_of(fitted).kind == "mixed",
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
    shown = _shown(variables, clusters, top_values)
    return [
        {
            "number": cluster,
            "size": bars[cluster],
            "present": float(clusters.present[cluster]),
            "certain": float(clusters.confusion[cluster, cluster]),
            "top": top,
            "examples": fitted.examples[cluster],
        }
        for cluster, top in enumerate(shown)
    ]


def _shown(
    variables: Variables | Columns, clusters: Clusters, top_values: int
) -> list[list[dict[str, Any]]]:
    """Return the values of each cluster that are shown, at most `top_values`."""
    mean, sd, overall = profiles(variables, clusters)
    if isinstance(variables, Columns):
        features = estimates(variables, mean, sd, overall, top_values)
        return [[_estimate(one) for one in those] for those in features]
    items = variables.items
    return [
        _values(
            [items[value] for value in values],
            mean[cluster, values],
            sd[cluster, values],
            overall[values],
        )
        for cluster, values in enumerate(over_represented(mean, overall, top_values))
    ]


def _estimate(one: Estimate) -> dict[str, Any]:
    """Return the entry of a value, a mean or a rate, with bar and interval."""
    low, high = one.place(one.lower), one.place(one.upper)
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
        "bar": 100 * one.place(one.mean),
        "interval": (one.lower, one.upper) if one.known else None,
        "over_chains": False,
        "low": 100 * low,
        "width": 100 * (high - low),
    }


def _times(lift: float) -> str:
    return f"×{lift:.1f}" if lift < 10 else f"×{display.count(lift)}"


def _values(
    names: list[str], mean: np.ndarray, sd: np.ndarray, overall: np.ndarray
) -> list[dict[str, Any]]:
    """Return the entries of values: probability, bar, interval, and ratio to all rows."""
    mean = np.clip(mean.astype(np.float64), 0, 1)
    lower, upper = beta_interval(mean, sd)
    scale = float(np.where(np.isnan(sd), mean, upper).max(initial=0)) or 1.0
    bars = page.bars(mean, np.where(np.isnan(sd), np.nan, lower), upper, scale)
    return [
        {
            "value": name,
            "shown": f"{display.percent(p)}% {_times(p / q)}",
            "title": f"{display.percent(low)} to {display.percent(high)}%; of all rows "
            f"{display.percent(q)}%",
            "sure": bool(low > q),
        }
        | bar
        for name, p, q, low, high, bar in zip(names, mean, overall, lower, upper, bars, strict=True)
    ]


REPORT = page.Report(Path(__file__).with_suffix(".html"), context, items="values", most=12)
