"""The report of a fitted mixture: a self-contained HTML file without scripts."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.evaluate.intervals import beta_interval, normal_interval
from simplex_jax._src.models.dpm.clusters import Clusters
from simplex_jax._src.models.dpm.fitting import Fit
from simplex_jax._src.models.dpm.variables import Variables
from simplex_jax._src.report import charts, display, page
from simplex_jax._src.report.display import counted

# The most distinctive features of the clusters, for tables and reports.

_LEVEL = 0.95


class Estimate(NamedTuple):
    """One feature of a cluster, in the units of its column."""

    name: str  # of the column, with the value of a category
    measure: str  # "probability", "mean" or "rate"
    mean: float  # posterior mean
    lower: float  # bounds of the 95% interval
    upper: float
    known: bool  # whether there are enough samples for the bounds
    within: float | None  # standard deviation of the numbers within the cluster
    overall: float  # the estimate for all rows
    spread: float | None  # standard deviation of the numbers in all rows

    @property
    def lift(self) -> float | None:
        """Its ratio to the estimate for all rows; None for means."""
        return None if self.measure == "mean" else self.mean / self.overall

    @property
    def sure(self) -> bool:
        """Whether the bounds exclude the estimate for all rows."""
        return not self.lower <= self.overall <= self.upper

    def place(self, x: float) -> float:
        """Map a value of the estimate to [0, 1], for a bar.

        A mean maps to the share of all rows below it, if these are normal, and a rate to its share
        in the sum with the rate of all rows: at 1/2 the cluster is like all rows.
        """
        if self.measure == "mean":
            return float(special.ndtr((x - self.overall) / (self.spread or 1.0)))
        if self.measure == "rate":
            return 1.0 if math.isinf(x) else x / (x + self.overall)
        return x

    def text(self) -> str:
        """Return a short description."""
        if self.measure == "probability":
            return self.name
        if self.within is None:
            return f"{self.name} {self.mean:.3g}"
        return f"{self.name} {rounded(self.mean, self.within)} (sd {self.within:.2g})"


def rounded(x: float, sd: float) -> str:
    """Return a number rounded to the precision of its standard deviation.

    Example:
        >>> rounded(10002.9634, 0.92), rounded(31.62, 4.9), rounded(5.03e-20, 1.2e-21)
        ('10002.96', '31.6', '5.03e-20')
    """
    if not (0 < sd < math.inf and math.isfinite(x)):  # bounds that are unknown are infinite
        return f"{x:.6g}"
    decimals = max(0, 1 - math.floor(math.log10(sd)))
    if decimals <= 12 and abs(x) < 1e15:
        return f"{x:.{decimals}f}"
    return f"{x:.{digits(x, sd)}g}"


def digits(x: float, sd: float) -> int:
    """Return how many significant digits a number has down to two of its standard deviation."""
    most, last = (math.floor(math.log10(size)) for size in (max(abs(x), sd), sd))
    return min(most - last + 2, 17)


def estimates(
    variables: Variables,
    profiles: np.ndarray,
    profiles_sd: np.ndarray,
    overall: np.ndarray,
    count: int,
) -> list[list[Estimate]]:
    """Return the most distinctive features of each cluster, at most `count`, best first.

    Profiles are flat, [C, V], and `overall` is [V]. Features are ranked by their contribution to
    the divergence of the cluster from all rows, see `gains`: the ratio of probabilities alone would
    rank rare values first, and the difference frequent ones.
    """
    measures, items = np.array(variables.measures), variables.items
    gain = gains(measures, profiles, overall)
    chosen = np.argsort(-gain, axis=1, kind="stable")[:, :count]
    mean, whole = variables.in_units(profiles), variables.in_units(overall)
    sd = variables.in_units(profiles_sd, deviations=True)
    taken = (np.take_along_axis(array, chosen, axis=1) for array in (mean, sd))
    lower, upper = _bounds(measures[chosen], *taken)

    def one(cluster: int, rank: int) -> Estimate:
        item = int(chosen[cluster, rank])
        number = measures[item] == "mean"
        return Estimate(
            name=items[item],
            measure=str(measures[item]),
            mean=float(mean[cluster, item]),
            lower=float(lower[cluster, rank]),
            upper=float(upper[cluster, rank]),
            known=not math.isnan(sd[cluster, item]),
            within=float(mean[cluster, item + 1]) if number else None,
            overall=float(whole[item]),
            spread=float(whole[item + 1]) if number else None,
        )

    return [
        [one(cluster, rank) for rank, item in enumerate(entries) if gain[cluster, item] > 0]
        for cluster, entries in enumerate(chosen)
    ]


def gains(measures: np.ndarray, profiles: np.ndarray, overall: np.ndarray) -> np.ndarray:
    r"""Return the contribution of each item to the KL divergence of clusters from all rows.

    Profiles are [C, V], and `overall` is [V]. A value of a category contributes
    :math:`p \log(p / q)`, and a column of numbers or counts the divergence of its normal or
    Poisson distribution. All are in nats. The standard deviation is counted with its mean.
    """
    tiny = np.finfo(np.float64).tiny
    p, q = (np.asarray(x, np.float64) for x in (profiles, overall))
    result = np.zeros(p.shape)
    with np.errstate(divide="ignore"):
        log_ratio = np.log(np.maximum(p, tiny)) - np.log(np.maximum(q, tiny))
    values, rates, means, sds = (measures == name for name in ("probability", "rate", "mean", "sd"))
    result[:, values] = p[:, values] * log_ratio[:, values]
    result[:, rates] = p[:, rates] * log_ratio[:, rates] - p[:, rates] + q[rates]
    width = 2 * q[sds] ** 2
    apart = (p[:, sds] ** 2 + (p[:, means] - q[means]) ** 2) / width
    result[:, means] = apart - 0.5 - log_ratio[:, sds]
    return result


def _bounds(
    measures: np.ndarray, mean: np.ndarray, sd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of items, from beta, gamma and normal distributions with these moments."""
    lower, upper = normal_interval(mean, sd, _LEVEL)
    values, rates = measures == "probability", measures == "rate"
    lower[values], upper[values] = beta_interval(np.clip(mean[values], 0, 1), sd[values], _LEVEL)
    m, s = mean[rates], sd[rates]
    known = s > 0
    shape = np.where(known, (m / np.where(known, s, 1)) ** 2, 1.0)
    for bounds, tail in ((lower, (1 - _LEVEL) / 2), (upper, (1 + _LEVEL) / 2)):
        ends = special.gammaincinv(shape, tail) / shape * m
        bounds[rates] = np.where(known, ends, bounds[rates])
    lower[rates] = np.maximum(lower[rates], 0)
    return lower, upper


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
    ("certainty", "Certainty"),
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


def partitioned_rows(fitted: Fit) -> int:
    """Return the number of rows that `point.rows_used` is a part of, as often as they count."""
    return fitted.corpus.get("weighted_train", len(fitted.point.labels))


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


def without_held_out(fitted: Fit) -> str:
    """Return, to end a sentence, how many rows the sizes of clusters leave out; "" if none."""
    count = int(fitted.held_out.sum())
    return f"; sizes are without {counted(count, 'held-out row')}" if count else ""


def context(fitted: Fit, top_values: int) -> dict[str, Any]:
    """Return the context of the template, with `top_values` values per cluster."""
    rows = _rows(fitted, top_values)
    settings, point, traces = fitted.settings, fitted.point, _traces(fitted)
    _, predictive = page.latest(fitted.metrics, "log_predictive")
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    return {
        "title": f"{counted(fitted.num_clusters, 'cluster')} of {len(fitted.names):,} rows",
        "lead": f"Dirichlet-process mixture, {settings.sampler} slice sampler with "
        f"{settings.counts} counts{chains}, seed {settings.seed}{without_held_out(fitted)}.",
        "sections": _SECTIONS,
        "tiles": [
            ("clusters in the samples", _range(fitted)),
            ("concentration alpha", display.number(fitted.alpha)),
            (
                "held-out log predictive",
                f"{predictive:.3f}" if display.finite(predictive) else "–",
            ),
        ],
        "speed": page.speed(fitted.metrics, "rows"),
        "notes": diagnostics.chain_notes(fitted.diagnostics, np.ones((1, 0), bool)),
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
            "loss": "Binder's loss" if settings.loss == "binder" else "variation of information",
            "expected": point.loss,
            "clusters": fitted.num_clusters,
            "rows_used": point.rows_used,
            "rows": partitioned_rows(fitted),
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
