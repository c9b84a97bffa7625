"""Regression of quantities that are themselves uncertain, by the method of composition."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

_ALONE = 1e-9  # below which a document has nobody beside it to tell its variance


class Estimate(NamedTuple):
    """Terms of the regressions of K quantities, given these quantities."""

    mean: np.ndarray  # float64 [K, L]
    error: np.ndarray  # standard errors, float64 [K, L]
    freedom: int  # degrees of freedom of the law, Student's, of each about its mean


class Pooled(NamedTuple):
    """The same over draws of the quantities."""

    mean: np.ndarray  # posterior means, float64 [K, L]
    sd: np.ndarray  # posterior standard deviations
    lower: np.ndarray  # ends of the central interval
    upper: np.ndarray


def regress(matrix: ArrayLike, terms: ArrayLike, values: ArrayLike) -> Estimate:
    """Regress K quantities of n documents, and tell terms of the coefficients and their errors.

    Coefficients are by least squares. Shares vary more where they are larger, so errors are those
    of White's sandwich with every residual squared over 1 - its leverage (HC2, MacKinnon and White
    1985, equation 9): for groups, the deviation of each over the root of its size. A document that
    is alone in its group has the variance of all.

    Args:
        matrix: The design, orthonormal columns [n, P]; see `covariates.design`.
        terms: What is asked, rows over the coefficients [L, P].
        values: The quantities, [n, K].

    Example:
        >>> import numpy as np
        >>> groups = np.array([[1, 0], [1, 0], [0, 1], [0, 1]]) / np.sqrt(2)
        >>> found = regress(groups, [[np.sqrt(0.5), 0.0]], np.array([[0.1], [0.3], [0.5], [0.9]]))
        >>> found.mean.round(3).tolist(), found.error.round(3).tolist(), found.freedom
        ([[0.2]], [[0.1]], 2)
    """
    basis, asked = np.asarray(matrix, np.float64), np.asarray(terms, np.float64)
    responses = np.asarray(values, np.float64)
    freedom = basis.shape[0] - basis.shape[1]
    coefficients = basis.T @ responses
    squares = (responses - basis @ coefficients) ** 2
    room = 1 - (basis**2).sum(axis=1)
    alone = room < _ALONE
    variances = squares / np.where(alone, 1, room)[:, None]
    variances[alone] = squares.sum(axis=0) / freedom
    # Of each term, the weights with which it sums the responses.
    weights = basis @ asked.T
    return Estimate((asked @ coefficients).T, np.sqrt(variances.T @ weights**2), freedom)


def pool(means: ArrayLike, errors: ArrayLike, freedom: int, *, level: float = 0.95) -> Pooled:
    """Put regressions together whose quantities were drawn again and again.

    Each draw has a law of its terms, Student's of location, scale and `freedom`; the posterior is
    their mixture (Tanner 1993, section 3.4; Treier and Jackman 2008). It is what coefficients drawn
    once or often for each draw tend to, and has no noise of such draws: its mean, deviation and
    quantiles are those of the mixture itself, the quantiles by bisection.

    Args:
        means: Of every draw, [S, ...]; NaN where a draw does not count.
        errors: Their standard errors, likewise.
        freedom: Degrees of freedom, at least 3.
        level: Probability of the intervals.

    Raises:
        ValueError: The level is not between 0 and 1, or the degrees of freedom are below 3.

    Example:
        >>> found = pool([[0.0], [2.0]], [[1.0], [1.0]], 1000)
        >>> found.mean.tolist(), found.sd.round(2).tolist(), found.upper.round(2).tolist()
        ([1.0], [1.41], [3.65])
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, both excluded; it is {level}")
    if freedom < 3:
        raise ValueError(f"freedom must be at least 3; it is {freedom}")
    centres, scales = np.asarray(means, np.float64), np.asarray(errors, np.float64)
    counted = np.isfinite(centres)
    number = np.maximum(counted.sum(axis=0), 1)

    def average(x: np.ndarray) -> np.ndarray:
        return np.where(counted, x, 0.0).sum(axis=0) / number

    mean = average(centres)
    within = average(scales**2) * freedom / (freedom - 2)
    sd = np.sqrt(within + average((centres - mean) ** 2))

    def quantile(p: float) -> np.ndarray:
        # Every member has its quantile between these two, and so has the mixture.
        reach = special.stdtrit(freedom, p) * scales
        low = np.where(counted, centres + reach, np.inf).min(axis=0)
        high = np.where(counted, centres + reach, -np.inf).max(axis=0)
        for _ in range(50):
            middle = (low + high) / 2
            steps = (middle - centres) / np.maximum(scales, 1e-300)
            below = average(special.stdtr(freedom, steps)) < p
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    tail = (1 - level) / 2
    return Pooled(mean, sd, quantile(tail), quantile(1 - tail))
