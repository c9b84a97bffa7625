"""What sets the clusters of a table of several kinds apart, as tables and reports show it."""

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from simplex_jax.evaluate.intervals import beta_interval, normal_interval
from simplex_jax.models.dpm.columns import Columns

_LEVEL = 0.95


class Estimate(NamedTuple):
    """One thing about a cluster, in the units of its column."""

    name: str  # of the column, with the value of a category
    measure: str  # "probability", "mean" or "rate"
    mean: float  # posterior mean
    lower: float  # bounds that hold 95% of the posterior
    upper: float
    known: bool  # whether there are samples enough for the bounds
    within: float | None  # standard deviation of the numbers within the cluster
    overall: float  # the same of all rows
    spread: float | None  # standard deviation of the numbers in all rows

    @property
    def lift(self) -> float | None:
        """How many times that of all rows it is; None of means."""
        return None if self.measure == "mean" else self.mean / self.overall

    @property
    def sure(self) -> bool:
        """Whether the bounds exclude that of all rows."""
        return not self.lower <= self.overall <= self.upper

    def place(self, x: float) -> float:
        """Return where a value of it is between 0 and 1, for a bar.

        Of a mean it is the share of all rows below, if these are normal, and of a rate its share in
        the sum with that of all rows: at 1/2 the cluster is like all rows.
        """
        if self.measure == "mean":
            return float(special.ndtr((x - self.overall) / (self.spread or 1.0)))
        if self.measure == "rate":
            return 1.0 if math.isinf(x) else x / (x + self.overall)
        return x

    def text(self) -> str:
        """Return it in a few words."""
        if self.measure == "probability":
            return self.name
        if self.within is None:
            return f"{self.name} {self.mean:.3g}"
        return f"{self.name} {rounded(self.mean, self.within)} (sd {self.within:.2g})"


def rounded(x: float, sd: float) -> str:
    """Return a number with the decimals that a standard deviation leaves it.

    Example:
        >>> rounded(10002.9634, 0.92), rounded(31.62, 4.9), rounded(52417.3, 1210.0)
        ('10002.96', '31.6', '52417')
    """
    if not (0 < sd < math.inf and abs(x) < 1e15):
        return f"{x:.6g}"
    return f"{x:.{min(max(0, 1 - math.floor(math.log10(sd))), 12)}f}"


def estimates(
    columns: Columns,
    profiles: np.ndarray,
    profiles_sd: np.ndarray,
    overall: np.ndarray,
    count: int,
) -> list[list[Estimate]]:
    """Return what sets each cluster apart most from all rows, at most `count` things, best first.

    Profiles are flat, [C, V], and `overall` is [V]. They are ranked by what they add to the
    divergence of the cluster from all rows, see `Columns.gains`.
    """
    gains = columns.gains(profiles, overall)
    order = np.argsort(-gains, axis=1, kind="stable")[:, :count]
    mean, whole = columns.in_units(profiles), columns.in_units(overall)
    sd = columns.in_units(profiles_sd, deviations=True)
    lower, upper = _bounds(columns, mean, sd)

    def one(cluster: int, item: int) -> Estimate:
        numbers = columns.measures[item] == "mean"
        return Estimate(
            name=columns.items[item],
            measure=columns.measures[item],
            mean=float(mean[cluster, item]),
            lower=float(lower[cluster, item]),
            upper=float(upper[cluster, item]),
            known=not math.isnan(sd[cluster, item]),
            within=float(mean[cluster, item + 1]) if numbers else None,
            overall=float(whole[item]),
            spread=float(whole[item + 1]) if numbers else None,
        )

    return [
        [one(cluster, int(item)) for item in items if gains[cluster, item] > 0]
        for cluster, items in enumerate(order)
    ]


def _bounds(columns: Columns, mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of all items: of beta, gamma and normal laws with these moments."""
    measures = np.array(columns.measures)
    lower, upper = normal_interval(mean, sd, _LEVEL)
    values, rates = measures == "probability", measures == "rate"
    pair = beta_interval(np.clip(mean[:, values], 0, 1), sd[:, values], _LEVEL)
    lower[:, values], upper[:, values] = pair
    m, s = mean[:, rates], sd[:, rates]
    known = s > 0
    shape = np.where(known, (m / np.where(known, s, 1)) ** 2, 1.0)
    for bounds, tail in ((lower, (1 - _LEVEL) / 2), (upper, (1 + _LEVEL) / 2)):
        ends = special.gammaincinv(shape, tail) / shape * m
        bounds[:, rates] = np.where(known, ends, bounds[:, rates])
    lower[:, rates] = np.maximum(lower[:, rates], 0)
    return lower, upper
