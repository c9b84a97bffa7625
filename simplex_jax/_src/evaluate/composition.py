"""Regression of uncertain quantities by the method of composition."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

_NUMBERS = 2**22  # regressed at once
_ALONE = 1e-9  # 1 - leverage below which no other document determines a document's variance
_LEAST = 3  # degrees of freedom, so that every distribution has a variance
_MOST_STEPS, _CLOSE = 200, 1e-12  # to a quantile; relative to the deviation
_FAR, _TINY = 1e30, 1e-300  # in widths, and the least width
_NEGLIGIBLE = 1e-12  # of the largest weight; smaller ones do not change degrees of freedom


class Estimate(NamedTuple):
    """Terms of the regressions of K quantities, given the quantities."""

    mean: np.ndarray  # float64 [K, L]
    error: np.ndarray  # standard errors, float64 [K, L]
    freedom: np.ndarray  # of the Student t distribution of each term, float64 [L]


class Pooled(NamedTuple):
    """The same over draws of the quantities."""

    mean: np.ndarray  # posterior means, float64 [K, L]
    sd: np.ndarray  # posterior standard deviations
    lower: np.ndarray  # ends of the central interval
    upper: np.ndarray


class Regression:
    """Least squares of many quantities on one design, with standard errors suited to shares.

    Larger shares vary more, so errors are White's sandwich errors with each squared residual
    divided by 1 - its leverage (HC2, MacKinnon and White 1985, equation 9): for groups, the
    standard deviation over the root of the group's size. A document alone in its group gets the
    common variance.

    The error of a term is estimated from the documents it depends on. If all documents had equal
    variance, its square would have the mean and variance of a chi-square with its degrees of
    freedom (Satterthwaite 1946; Bell and McCaffrey 2002): for a group mean, the group's size less
    1. At least 3 are used, so intervals for groups of two or three are too narrow.

    Args:
        matrix: The design, orthonormal columns [n, P]; see `covariates.design`.
        terms: Linear functions of the coefficients, rows [L, P].

    Example:
        >>> import numpy as np
        >>> groups = np.array([[1, 0], [1, 0], [0, 1], [0, 1]]) / np.sqrt(2)
        >>> regression = Regression(groups, [[np.sqrt(0.5), 0.0]])
        >>> estimate = regression.of(np.array([[0.1], [0.3], [0.5], [0.9]]))
        >>> estimate.mean.round(3), estimate.error.round(3), estimate.freedom
        (array([[0.2]]), array([[0.1]]), array([3.]))
    """

    def __init__(self, matrix: ArrayLike, terms: ArrayLike) -> None:
        self._basis, self._asked = np.asarray(matrix, np.float64), np.asarray(terms, np.float64)
        room = 1 - (self._basis**2).sum(axis=1)
        self._alone = room < _ALONE
        self._room = np.where(self._alone, 1, room)
        # Squared weights of the quantities in each term.
        self._squares = (self._basis @ self._asked.T) ** 2
        self._freedom = np.array([self._freedom_of(squares) for squares in self._squares.T])

    def _freedom_of(self, squares: np.ndarray) -> float:
        """Return the degrees of freedom of a term's error, given its squared weights.

        The squared error is a quadratic form of the documents. If these all have variance 1, its
        mean is the sum of the squared weights, and its variance is twice the sum of the squared
        entries of M W M + c M / d. Here W holds the squared weights over 1 - leverage, M projects
        onto the residuals, d is their degrees of freedom, and c sums the squared weights of
        documents alone in their group, whose variance comes from all residuals.
        """
        rest = self._basis.shape[0] - self._basis.shape[1]
        if not squares.any():  # a zero term has no error
            return float(max(rest, _LEAST))
        alone = squares[self._alone].sum()
        weights = np.where(self._alone, 0, squares) / self._room
        subset = weights > _NEGLIGIBLE * weights.max()
        basis, room, weights = self._basis[subset], self._room[subset], weights[subset]
        inner = basis.T @ (weights[:, None] * basis)
        own = (weights**2 * (2 * room - 1)).sum() + (inner**2).sum()
        total = (weights * room).sum()
        spread = own + alone * (2 * total + alone) / rest
        return float(np.clip((total + alone) ** 2 / spread, _LEAST, max(rest, _LEAST)))

    def of(self, values: ArrayLike) -> Estimate:
        """Return the terms and their standard errors for quantities [n, K]."""
        responses = np.asarray(values)
        documents, number = responses.shape
        means = np.empty((number, len(self._asked)))
        errors = np.empty_like(means)
        rest = documents - self._basis.shape[1]
        step = max(1, _NUMBERS // documents)
        for first in range(0, number, step):
            part = slice(first, first + step)
            block = responses[:, part].astype(np.float64)
            coefficients = self._basis.T @ block
            squares = (block - self._basis @ coefficients) ** 2
            common = squares.sum(axis=0) / rest
            squares /= self._room[:, None]
            squares[self._alone] = common
            means[part] = (self._asked @ coefficients).T
            errors[part] = np.sqrt(squares.T @ self._squares)
        return Estimate(means, errors, self._freedom)


def pool(means: ArrayLike, errors: ArrayLike, freedom: ArrayLike, *, level: float = 0.95) -> Pooled:
    """Combine regressions over posterior draws of their quantities.

    Given a draw, a term has a Student t distribution with location, scale and `freedom`; the
    posterior is their mixture (Tanner 1993, section 3.4; Treier and Jackman 2008). Coefficients
    drawn for each draw would converge to it, but it is free of their noise: mean, deviation and
    quantiles are those of the mixture itself.

    Args:
        means: Terms of each draw, [S, ...]; NaN to leave a draw out.
        errors: Their standard errors, likewise.
        freedom: Degrees of freedom, at least 3: one number, or one per term along the last axis.
        level: Probability of the intervals.

    Raises:
        ValueError: The level is not between 0 and 1, or the degrees of freedom are below 3.

    Example:
        >>> pooled = pool([[0.0], [2.0]], [[1.0], [1.0]], 1000)
        >>> pooled.mean.tolist(), pooled.sd.round(2).tolist(), pooled.upper.round(2).tolist()
        ([1.0], [1.41], [3.65])
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, exclusive; it is {level}")
    degrees = np.asarray(freedom, np.float64)
    if not (degrees >= _LEAST).all():
        raise ValueError(f"freedom must be at least {_LEAST}; it is {degrees.min():g}")
    centres, scales = np.asarray(means, np.float64), np.asarray(errors, np.float64)
    counted = np.isfinite(centres)
    number = np.maximum(counted.sum(axis=0), 1)

    def average(x: np.ndarray) -> np.ndarray:
        return np.where(counted, x, 0.0).sum(axis=0) / number

    mean = average(centres)
    within = average(scales**2) * degrees / (degrees - 2)
    sd = np.sqrt(within + average((centres - mean) ** 2))

    widths = np.maximum(scales, _TINY)
    top = special.gammaln((degrees + 1) / 2) - special.gammaln(degrees / 2)
    top -= np.log(degrees * np.pi) / 2  # log of the density at the centre

    def quantile(p: float) -> np.ndarray:
        # The quantiles of all components, and so of the mixture, are between these two.
        reach = special.stdtrit(degrees, p) * scales
        low = np.where(counted, centres + reach, np.inf).min(axis=0)
        high = np.where(counted, centres + reach, -np.inf).max(axis=0)
        place, step = (low + high) / 2, high - low
        for _ in range(_MOST_STEPS):
            moving = np.abs(step) > _CLOSE * sd
            if not moving.any():
                break
            x = np.clip((place - centres) / widths, -_FAR, _FAR)
            excess = average(special.stdtr(degrees, x)) - p
            low, high = np.where(excess < 0, place, low), np.where(excess < 0, high, place)
            density = average(np.exp(top - (degrees + 1) / 2 * np.log1p(x**2 / degrees)) / widths)
            newton = -excess / np.maximum(density, _TINY)
            # Newton's step, or half of the interval if that leaves it or hardly gets nearer.
            near = np.abs(newton) < np.abs(step) / 2
            near &= (low <= place + newton) & (place + newton <= high)
            step = np.where(moving, np.where(near, newton, (low + high) / 2 - place), 0.0)
            place = place + step
        return place

    tail = (1 - level) / 2
    return Pooled(mean, sd, quantile(tail), quantile(1 - tail))
