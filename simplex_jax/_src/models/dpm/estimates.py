"""The most distinctive features of the clusters, for tables and reports."""

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from simplex_jax._src.evaluate.intervals import beta_interval, normal_interval
from simplex_jax._src.models.dpm.variables import Variables

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
