"""Exact references for the draws in float64: distribution functions and moments in log space.

With s = 1 - exp(-h), the CIR transition is theta' = s y, y ~ Gamma(a + N), N ~ Poisson(r),
r = theta exp(-h) / s; equivalently 2 y is noncentral chi-square with 2a degrees of freedom and
noncentrality 2r. All functions here use `log y`, a `shape` a and a `rate` r; r = 0 is the
gamma law. `tests/tables/cir.csv` holds 40-digit values that `test_reference_laws.py` compares with.
"""

from typing import NamedTuple

import numpy as np
from scipy import special, stats

from support.statistics_checks import Law, tabulate

MAX_NCX2_SHAPE = 1e3  # scipy.stats.ncx2 was checked for 2a in 2e-4..2e3
MAX_NCX2_RATE = 2e3  # beyond it ncx2 is as exact but slow
SUM_WINDOW = 12.0  # standard deviations of the Poisson weights that are summed: 1e-32 is left out
TINY = 1e-13  # relative error at which the leading term of the series replaces everything


class Moments(NamedTuple):
    mean: float
    variance: float
    fourth: float  # central

    @property
    def kurtosis(self) -> float:
        return self.fourth / self.variance**2


def cir_rate(log_theta: float, step_size: float) -> tuple[float, float]:
    """The Poisson rate r and log(1 - exp(-h)) of a transition; the inputs are exact."""
    s = -np.expm1(-np.float64(step_size))
    return float(np.exp(np.float64(log_theta) - step_size) / s), float(np.log(s))


def cir_log_cdf(log_y: np.ndarray, shape: float, rate: float) -> np.ndarray:
    """log P(log Y <= log_y), for log_y down to -1e6 and below where P is far below 1e-308.

    Below y (1 + r) = 1e-13 the leading term exp(-r) y^a / Gamma(a + 1) has relative error 1e-13 and
    is computed in logs. Above that point the result is -inf if the probability underflows float64.
    """
    log_y = np.asarray(log_y, np.float64)
    leading = shape * log_y - special.gammaln(shape + 1) - rate
    with np.errstate(divide="ignore"):
        body = np.log(_cdf_and_sf(np.exp(np.minimum(log_y, 700.0)), shape, rate)[0])
    return np.where(log_y < np.log(TINY / (1 + rate)), leading, body)


def cir_cdf_and_sf(log_y: np.ndarray, shape: float, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """P(log Y <= log_y) and P(log Y > log_y), each accurate where it is the smaller one."""
    log_y = np.asarray(log_y, np.float64)
    cdf, sf = _cdf_and_sf(np.exp(np.minimum(log_y, 700.0)), shape, rate)
    tiny = log_y < np.log(TINY / (1 + rate))
    leading = np.minimum(shape * log_y - special.gammaln(shape + 1) - rate, 0.0)
    return np.where(tiny, np.exp(leading), cdf), np.where(tiny, -np.expm1(leading), sf)


def _cdf_and_sf(y: np.ndarray, shape: float, rate: float) -> tuple[np.ndarray, np.ndarray]:
    if rate == 0.0:
        return _gamma_cdf_and_sf(y, shape)
    if shape <= MAX_NCX2_SHAPE and rate <= MAX_NCX2_RATE:
        law = stats.ncx2(2 * shape, 2 * rate)
        cdf = law.cdf(2 * y)
        sf = 1 - cdf
        upper = cdf > 0.5  # elsewhere sf is not needed, and overflows for y near 0
        sf[upper] = law.sf(2 * y[upper])
        return cdf, sf
    counts, weights = _poisson_weights(rate)
    cdf = np.zeros_like(y)
    sf = np.zeros_like(y)
    for count, weight in zip(counts, weights, strict=True):
        lower, upper = _gamma_cdf_and_sf(y, shape + count)
        cdf += weight * lower
        sf += weight * upper
    return cdf, sf


def _gamma_cdf_and_sf(y: np.ndarray, shape: float) -> tuple[np.ndarray, np.ndarray]:
    """The regularised incomplete gamma functions P(shape, y) and Q(shape, y).

    SciPy truncates a series too early at large shapes and 4.5 or more standard deviations out;
    there we use Temme's uniform expansion (DLMF 8.12), whose first omitted term is below 1e-3 /
    shape^1.5.
    """
    if shape < 1e6:
        return special.gammainc(shape, y), special.gammaincc(shape, y)
    mu = (y - shape) / shape
    near = np.abs(mu) < 0.1
    with np.errstate(divide="ignore"):
        half_square = np.where(near, _minus_log1p(np.where(near, mu, 0.0)), mu - np.log1p(mu))
    eta = np.copysign(np.sqrt(2 * half_square), mu)
    c0 = -1 / 3 + eta * (1 / 12 - eta * (2 / 135 - eta / 864))
    remainder = np.exp(-shape * half_square) / np.sqrt(2 * np.pi * shape) * np.where(near, c0, 0.0)
    z = eta * np.sqrt(shape)
    return special.ndtr(z) - remainder, special.ndtr(-z) + remainder


def _poisson_weights(rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Counts and weights that represent Poisson(rate) in sums of smooth functions of the count.

    Up to a rate of 1,000, every count in the window; above, every k-th, with k at most an eighth of
    the standard deviation. The trapezoidal rule for a near-Gaussian summand has an error of about
    exp(-2 pi^2 64), so only the rounding of the weights remains (checked against the table).
    """
    sd = np.sqrt(rate)
    low = max(0.0, np.floor(rate - SUM_WINDOW * sd - 5))
    high = np.ceil(rate + SUM_WINDOW * sd + 40)
    stride = 1.0 if rate < 1e3 else max(1.0, np.floor(sd / 8))
    counts = np.arange(low, high, stride)
    weights = np.exp(poisson_log_pmf(counts, rate))
    return counts, weights / weights.sum()


def poisson_log_pmf(counts: np.ndarray, rate: float) -> np.ndarray:
    """log P(N = n) in Loader's saddle-point form, which does not cancel at large rates."""
    counts = np.asarray(counts, np.float64)
    if rate == 0.0:
        return np.where(counts == 0, 0.0, -np.inf)
    n = np.maximum(counts, 1.0)
    error = special.gammaln(np.minimum(n, 16) + 1) - _stirling(np.minimum(n, 16))
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / n**2) / n**2) / n**2) / n
    error = np.where(n < 16, error, series)
    # n log(n / r) - n + r, without cancellation: with d = (r - n) / n it is n (d - log1p(d)).
    d = (rate - n) / n
    deviance = np.where(np.abs(d) < 0.1, n * _minus_log1p(d), n * np.log(n / rate) + (rate - n))
    positive = -deviance - 0.5 * np.log(2 * np.pi * n) - error
    return np.where(counts == 0, -rate, positive)


def _stirling(n: np.ndarray) -> np.ndarray:
    return n * np.log(n) - n + 0.5 * np.log(2 * np.pi * n)


def _minus_log1p(d: np.ndarray) -> np.ndarray:
    """d - log1p(d) for small |d|, by log1p(d) = 2 artanh(d / (2 + d))."""
    v = d / (2 + d)
    total = sum(v ** (2 * k) / (2 * k + 1) for k in range(1, 12))
    return v * d - 2 * v * total


def cir_log_moments(shape: float, rate: float) -> Moments:
    """Exact mean, variance and fourth central moment of log y (a Poisson mixture of log-gammas)."""
    counts, weights = _poisson_weights(rate) if rate > 0 else (np.zeros(1), np.ones(1))
    index = shape + counts
    means = special.digamma(index)
    mean = float(weights @ means)
    d = means - mean
    k2, k3, k4 = (special.polygamma(order, index) for order in (1, 2, 3))
    variance = float(weights @ (k2 + d**2))
    fourth = float(weights @ (k4 + 3 * k2**2 + 4 * k3 * d + 6 * k2 * d**2 + d**4))
    return Moments(mean, variance, fourth)


def cir_moments(shape: float, rate: float) -> Moments:
    """Exact moments of y: its cumulants are (n - 1)! (a + n r)."""
    variance = shape + 2 * rate
    return Moments(shape + rate, variance, 6 * (shape + 4 * rate) + 3 * variance**2)


def cir_law(shape: float, rate: float) -> Law:
    """The distribution of log y, tabulated."""
    # The component N = 0 reaches down to log y ~ -1 / a; the others live around log(a + r).
    deep = (np.log(np.geomspace(1e-12, 1 - 1e-9, 200)) + special.gammaln(shape + 1)) / shape
    centre = np.log(shape + rate + 1)
    spread = 20 * np.sqrt(1 / (shape + rate + 1))
    body = centre + np.linspace(-min(2 * spread, 40.0), min(spread, 4.0), 201)
    start = np.concatenate([deep, body])
    return tabulate(lambda x: cir_cdf_and_sf(x, shape, rate), start[np.isfinite(start)])


def log_beta_law(a: float, b: float) -> Law:
    """The distribution of the logarithm of a Beta(a, b) variate, tabulated."""

    def cdf_and_sf(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.minimum(x, -1e-300)
        cdf = special.betainc(a, b, np.exp(x))
        sf = special.betainc(b, a, -np.expm1(x))
        leading = np.minimum(a * x - np.log(a) - special.betaln(a, b), 0.0)
        tiny = x < np.log(TINY / (1 + b))
        return np.where(tiny, np.exp(leading), cdf), np.where(tiny, -np.expm1(leading), sf)

    with np.errstate(divide="ignore"):
        deep = (np.log(np.geomspace(1e-12, 1 - 1e-9, 200)) + np.log(a) + special.betaln(a, b)) / a
    mean = a / (a + b)
    body = np.log(mean) + np.linspace(-40, 0, 200)
    near_one = -np.geomspace(1e-300, 1.0, 300)
    sd = np.sqrt(b / (a * (a + b + 1)))
    local = np.log(mean) + np.linspace(-10, 10, 201) * min(sd, 3.0)
    start = np.concatenate([np.minimum(deep, -1e-300), body, near_one, local])
    return tabulate(cdf_and_sf, start[np.isfinite(start) & (start < 0)])
