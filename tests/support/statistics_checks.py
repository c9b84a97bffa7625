"""Statistical checks for samplers, with stated false-alarm rates.

Every check maps samples to a p-value which, for a correct sampler, is below `t` with probability at
most `t` (exactly, or up to the error in its docstring). No check decides by itself: collect the
p-values of all settings in a dictionary and pass it to `family`, which bounds the chance that a
correct sampler fails *anywhere* by `level` (1e-3 by default).

`resolution` is the allowance for floating point: how far a value may lie from the exact variate it
represents (for a correctly rounded one, half a unit in the last place). A check with a resolution
asks whether *some* displacement of at most that size explains the samples, so a nonzero resolution
only lowers the false-alarm rate.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy import special, stats

Cdf = Callable[[np.ndarray], np.ndarray]


def float_resolution(
    samples: np.ndarray, dtype: type = np.float32, ulps: float = 1.0
) -> np.ndarray:
    """`ulps` units in the last place of `dtype` at each sample, and at least those of 1."""
    magnitude = np.where(np.isfinite(samples), np.maximum(np.abs(samples), 1.0), 1.0)
    return ulps * np.spacing(magnitude.astype(dtype)).astype(np.float64)


def dkwm(
    samples: np.ndarray, cdf: Cdf, left_cdf: Cdf | None = None, resolution: np.ndarray | float = 0.0
) -> float:
    """Dvoretzky-Kiefer-Wolfowitz-Massart test of the distribution function.

    The p-value is `min(1, 2 exp(-2 n D^2))`, Massart's bound with the exact constant, which holds
    at every n: the false-alarm rate at threshold t is at most t. `left_cdf` is P(X < x), for
    distributions with atoms.
    """
    samples = np.asarray(samples, np.float64).ravel()
    order = np.argsort(samples)
    values = samples[order]
    width = np.broadcast_to(resolution, samples.shape)[order]
    n = values.size
    above = np.arange(1, n + 1) / n - cdf(values + width)
    below = (left_cdf or cdf)(values - width) - np.arange(n) / n
    if left_cdf is not None:
        # Within a tie only the last rank is F_n(x), and only the first is F_n(x-).
        last = np.append(values[1:] != values[:-1], True)
        above, below = above[last], below[np.append(True, last[:-1])]
    distance = max(float(above.max()), float(below.max()), 0.0)
    return float(min(1.0, 2.0 * np.exp(-2.0 * n * distance**2)))


def mean_z(samples: np.ndarray, mean: float, variance: float, resolution: float = 0.0) -> float:
    """Two-sided normal test of the mean against its exact value and standard error.

    Nominal up to the Edgeworth term: at |z| = 5 the rate is inflated by about
    `exp(|skewness| 21 / sqrt(n))`, so below 1.2 for n = 1e5 and skewness 2.
    """
    samples = np.asarray(samples, np.float64)
    excess = max(abs(float(samples.mean()) - mean) - resolution, 0.0)
    return _two_sided(excess / np.sqrt(variance / samples.size))


def variance_z(
    samples: np.ndarray,
    mean: float,
    variance: float,
    fourth: float | None = None,
    resolution: float = 0.0,
) -> float:
    """Two-sided normal test of the mean square deviation from the exact `mean`.

    Its standard error is `sqrt((fourth - variance^2) / n)`, where `fourth` is the exact fourth
    central moment. By default it is the sample's, which is right for light tails only: use that for
    a kurtosis known to be below about 10. Nominal up to the Edgeworth term (see `mean_z`, with the
    skewness of the square: 2.8 for a normal).
    """
    deviation = np.asarray(samples, np.float64) - mean
    squares = deviation**2
    if fourth is None:
        fourth = float(np.mean(squares**2))
    slack = resolution * (2.0 * np.sqrt(variance) + resolution)
    excess = max(abs(float(squares.mean()) - variance) - slack, 0.0)
    return _two_sided(excess / np.sqrt((fourth - variance**2) / samples.size))


def chi_square(observed: np.ndarray, probabilities: np.ndarray, minimum: float = 10.0) -> float:
    """Pearson's chi-square over bins, neighbours merged until each expects at least `minimum`.

    Asymptotic; with expected counts of 10 and more the rate at a threshold of 1e-6 is within a
    factor of about 3 of nominal for 20 bins and closer for more (or for larger counts).
    """
    observed = np.asarray(observed, np.float64)
    expected = np.asarray(probabilities, np.float64) * observed.sum()
    if np.any((expected == 0) & (observed > 0)):
        return 0.0
    # Walk the cumulative expectation: a group closes when it has reached the minimum.
    group = np.zeros(expected.size, np.int64)
    total, index = 0.0, 0
    for i, value in enumerate(expected):
        if total >= minimum:
            total, index = 0.0, index + 1
        group[i] = index
        total += value
    if total < minimum and index > 0:
        group[group == index] = index - 1
    expected = np.bincount(group, expected)
    observed = np.bincount(group, observed)
    if expected.size < 2:
        return 1.0
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    return float(stats.chi2.sf(statistic, expected.size - 1))


def family(p_values: Mapping[object, float], level: float = 1e-3) -> dict[object, float]:
    """The hypotheses rejected by Holm's procedure: empty for a correct sampler.

    The chance that a correct sampler has any rejection is at most `level`, whatever the dependence
    between the checks. A p-value that is not a number counts as zero.
    """
    ordered = sorted(
        ((0.0 if np.isnan(p) else float(p), name) for name, p in p_values.items()),
        key=lambda pair: pair[0],
    )
    rejected: dict[object, float] = {}
    for rank, (p, name) in enumerate(ordered):
        if p > level / (len(ordered) - rank):
            break
        rejected[name] = p
    return rejected


def prefixed(name: object, p_values: Mapping[str, float]) -> dict[object, float]:
    """Prefix the names of checks with the name of their setting."""
    return {(name, check): p for check, p in p_values.items()}


class Law(NamedTuple):
    """A continuous distribution tabulated as normal scores, `ndtri(F(x))`, on increasing nodes.

    Scores keep both tails and make linear interpolation accurate: `tabulate` halves an interval
    until it spans at most `SCORE_STEP` and its middle was within `SCORE_ERROR` of the chord, which
    the last halving divides by about 4; so the distribution function is off by about 1e-5.
    """

    nodes: np.ndarray
    scores: np.ndarray

    def score(self, x: np.ndarray) -> np.ndarray:
        return np.interp(x, self.nodes, self.scores)

    def cdf(self, x: np.ndarray) -> np.ndarray:
        return special.ndtr(self.score(x))

    def shifted(self, by: float) -> "Law":
        """The distribution of the variate plus a constant."""
        return self._replace(nodes=self.nodes + by)


SCORE_STEP = 0.04
SCORE_ERROR = 1e-4
SCORE_LIMIT = 6.5  # beyond it lies 1e-10: out of reach of every sample size used here


def tabulate(
    cdf_and_sf: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], start: np.ndarray
) -> Law:
    """Tabulate a distribution by bisection, from a few `start` nodes that span its support.

    `cdf_and_sf(x)` returns P(X <= x) and P(X > x), each accurate where it is the smaller one.
    """

    def scores_at(x: np.ndarray) -> np.ndarray:
        cdf, sf = cdf_and_sf(x)
        with np.errstate(divide="ignore"):
            scores = np.where(cdf < 0.5, special.ndtri(cdf), -special.ndtri(sf))
        return np.clip(scores, -SCORE_LIMIT, SCORE_LIMIT)

    nodes = np.unique(np.asarray(start, np.float64))
    scores = scores_at(nodes)
    active = np.diff(scores) > 0
    for _ in range(60):
        middle = (nodes[1:] + nodes[:-1]) / 2
        active &= (middle > nodes[:-1]) & (middle < nodes[1:])
        if not active.any():
            break
        (split,) = np.nonzero(active)
        result = scores_at(middle[split])
        bend = np.abs(result - (scores[split] + scores[split + 1]) / 2)
        wide = scores[split + 1] - scores[split] > SCORE_STEP
        again = (bend > SCORE_ERROR) | wide
        active[split] = again
        active = np.insert(active, split + 1, again)
        nodes = np.insert(nodes, split + 1, middle[split])
        scores = np.insert(scores, split + 1, result)
    return Law(nodes, np.maximum.accumulate(scores))


def check_law(
    samples: np.ndarray, law: Law, bins: int = 200, dtype: type = np.float32, ulps: float = 1.0
) -> dict[str, float]:
    """DKWM, z of mean and variance, and chi-square, against a tabulated continuous distribution.

    Mean and variance are those of the samples' normal scores: exactly standard normal for a correct
    sampler, however skewed the distribution, so `sqrt(n) mean` is standard normal and `sum of
    squares` is chi-square with n degrees of freedom, and both rates are exact. The bins of the
    chi-square are equiprobable, with edges moved to midpoints between neighbouring floats of
    `dtype`; it is omitted if the central bins would be narrower than 16 resolutions, since it would
    then test the rounding.
    """
    samples = np.sort(np.asarray(samples, np.float64).ravel())  # sorted, interpolation is fast
    if np.isnan(samples).any():
        return {"no NaN": 0.0}
    width = float_resolution(samples, dtype, ulps)
    n = samples.size
    scores = law.score(samples)
    slack = float(np.mean(law.score(samples + width) - law.score(samples - width))) / 2
    p_values = {
        "dkwm": dkwm(samples, law.cdf, resolution=width),
        "mean": _two_sided(np.sqrt(n) * max(abs(float(scores.mean())) - slack, 0.0)),
    }
    # An error of relative size `slack` in every score changes the mean square by 2 slack + slack^2.
    square = float(np.mean(scores**2))
    excess = max(abs(square - 1.0) - slack * (2.0 + slack), 0.0)
    side = stats.chi2.sf if square > 1.0 else stats.chi2.cdf
    nearest = 1.0 + np.copysign(excess, square - 1.0)
    p_values["variance"] = float(min(1.0, 2.0 * side(n * nearest, n)))
    if slack < 16.0**-1 * 2.5 / bins:
        edges = np.interp(special.ndtri(np.arange(1, bins) / bins), law.scores, law.nodes)
        edges = np.unique(between_floats(edges, dtype))
        probabilities = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
        observed = np.bincount(np.searchsorted(edges, samples), minlength=edges.size + 1)
        p_values["chi_square"] = chi_square(observed, probabilities)
    return p_values


def between_floats(x: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    """Midpoints (float64) between each x rounded to `dtype` and the next larger float."""
    rounded = np.asarray(x).astype(dtype)
    following = np.nextafter(rounded, np.asarray(np.inf, dtype))
    return (rounded.astype(np.float64) + following.astype(np.float64)) / 2


def _two_sided(z: float) -> float:
    return float(min(1.0, 2.0 * special.ndtr(-abs(z))))
