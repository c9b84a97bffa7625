"""The von Mises-Fisher distribution on unit vectors of R^p, density c_p(k) exp(k mean.x).

With nu = p/2 - 1, log c_p(k) = log c_p(0) - h(k), where c_p(0) is one over the area of the sphere
and h = ``bessel.log_series(nu, k)``. In float32, three quantities keep digits that a difference of
two large logarithms would lose: changes of the normaliser (``log_normaliser_difference``), k - h,
and 1 - A(k), which in the usual form rounds to 0 from k = 1e7 p on. Dimensions are 2 to 1e5 and
concentrations 0 to 1e8, float32 or float64. Draws are in ``draws.von_mises_fisher``.
"""

import math
from functools import partial
from typing import NamedTuple, SupportsIndex

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.geometry import bessel

__all__ = ["fit", "log_density", "resultant"]

# Newton's method in log concentration, from Banerjee's estimate, whose relative error is below
# 0.07. Each step squares the error; one more step carries the derivative.
_NEWTON_STEPS = 4


class Resultant(NamedTuple):
    """The mean of unit vectors x: its direction, its length R, and 1 - R to more digits."""

    mean: jax.Array
    length: jax.Array
    spread: jax.Array


def _order(dimension: SupportsIndex) -> float:
    return arguments.at_least("dimension", dimension, 2) / 2 - 1


def log_uniform(dimension: SupportsIndex) -> float:
    """Return log c_p(0), minus the log area of the sphere: the log density if uniform."""
    half = _order(dimension) + 1
    return math.lgamma(half) - math.log(2) - half * math.log(math.pi)


def log_normaliser(dimension: SupportsIndex, concentration: ArrayLike) -> jax.Array:
    """Return log c_p(k); the density with respect to area is c_p(k) exp(k mean.x).

    Its magnitude is about k: at 1e5, float32 resolves it only to 1e-2. For the difference of two,
    as in ratios of densities, use ``log_normaliser_difference``.

    Args:
        dimension: p, the length of the vectors, an integer of at least 2.
        concentration: k, finite and at least 0, any shape.

    Returns:
        log c_p(k), with derivative -A(k), in the shape of the concentration. NaN under ``jit``
        where the concentration is out of range.

    Raises:
        ValueError: The dimension is not an integer of at least 2, or a concentration is negative or
            not finite.

    Example:
        >>> from simplex_jax.geometry import von_mises_fisher as vmf
        >>> round(float(vmf.log_normaliser(3, 2.0)), 5)  # log(k / (4 pi sinh(k)))
        -3.12624
    """
    order = _order(dimension)
    (k,) = arguments.nonnegatives(concentration=concentration)
    return log_uniform(dimension) - bessel.log_series(order, k)


def log_normaliser_difference(
    dimension: SupportsIndex, concentration: ArrayLike, reference: ArrayLike
) -> jax.Array:
    """Return log c_p(concentration) - log c_p(reference), to rounding of the difference.

    Example:
        >>> from simplex_jax.geometry import von_mises_fisher as vmf
        >>> round(float(vmf.log_normaliser_difference(5000, 210_001.0, 210_000.0)), 5)
        -0.98817
    """
    order = _order(dimension)
    k, reference = arguments.nonnegatives(concentration=concentration, reference=reference)
    return -bessel.log_series_difference(order, k, reference)


def log_density(points: ArrayLike, mean: ArrayLike, concentration: ArrayLike) -> jax.Array:
    """Return the log density with respect to area on the sphere.

    Computed as log c_p(0) + (k - h(k)) - k |x - mean|^2 / 2: the usual form k mean.x would have k
    times the rounding error of the inner product. Off the sphere, and so for gradients in the
    surrounding space, it is the same expression; the tangent part of the gradient is the usual one.

    Args:
        points: Unit vectors x, shape [..., p].
        mean: Unit vectors, shape [..., p].
        concentration: k, finite and at least 0, shape [...]. All batch shapes broadcast.

    Raises:
        ValueError: Vectors are not of one length p >= 2, or a concentration is out of range.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import von_mises_fisher as vmf
        >>> x = jnp.array([0.0, 0.6, 0.8])
        >>> round(float(vmf.log_density(x, jnp.array([0.0, 0.0, 1.0]), 2.0)), 5)
        -1.52624
    """
    x, mean, k = arguments.promote(points=points, mean=mean, concentration=concentration)
    arguments.require("concentration", k, arguments.nonnegative(k), "finite and at least 0")
    dimension = _common_dimension(points=x, mean=mean)
    x, mean = arguments.same_rank(x, mean)
    k, half_square = arguments.same_rank(k, 0.5 * jnp.sum((x - mean) ** 2, axis=-1))
    return log_uniform(dimension) + bessel.scaled_log_series(_order(dimension), k) - k * half_square


def _common_dimension(**named: jax.Array) -> int:
    sizes = {array.shape[-1] if array.ndim else 0 for array in named.values()}
    if len(sizes) > 1 or min(sizes) < 2:
        described = " and ".join(f"{name} {array.shape}" for name, array in named.items())
        raise ValueError(f"{described} must have last axes of one length p of at least 2")
    return sizes.pop()


def mean_length(dimension: SupportsIndex, concentration: ArrayLike) -> jax.Array:
    """Return A(k) = I_{p/2}(k) / I_{p/2-1}(k), the length of E[x], which is A(k) mean."""
    (k,) = arguments.nonnegatives(concentration=concentration)
    return bessel.ratio(_order(dimension), k)


def mean_spread(dimension: SupportsIndex, concentration: ArrayLike) -> jax.Array:
    """Return 1 - A(k) to rounding, even if A(k) rounds to 1."""
    (k,) = arguments.nonnegatives(concentration=concentration)
    return bessel.ratio_complement(_order(dimension), k)


def variances(dimension: SupportsIndex, concentration: ArrayLike) -> tuple[jax.Array, jax.Array]:
    """Return the variance of x along the mean, A'(k), and in each direction across it, A(k) / k."""
    order = _order(dimension)
    (k,) = arguments.nonnegatives(concentration=concentration)
    # A(k) / k is 1 / p to the last digit well above 1e-10, and 0 / 0 at 0.
    positive = jnp.where(k < 1e-10, 1e-10, k)
    return bessel.ratio_slope(order, k), bessel.ratio(order, positive) / positive


def entropy(dimension: SupportsIndex, concentration: ArrayLike) -> jax.Array:
    """Return the differential entropy with respect to area, -log c_p(k) - k A(k).

    Example:
        >>> from simplex_jax.geometry import von_mises_fisher as vmf
        >>> round(float(vmf.entropy(3, 0.0)), 4)  # log(4 pi)
        2.531
    """
    order = _order(dimension)
    (k,) = arguments.nonnegatives(concentration=concentration)
    rest = k * bessel.ratio_complement(order, k) - bessel.scaled_log_series(order, k)
    return rest - log_uniform(dimension)


def kl(
    mean: ArrayLike, concentration: ArrayLike, other_mean: ArrayLike, other_concentration: ArrayLike
) -> jax.Array:
    """Return the Kullback-Leibler divergence from the first distribution to the other, at least 0.

    Args:
        mean: Unit vectors, shape [..., p].
        concentration: Finite and at least 0, shape [...].
        other_mean: Same as `mean`; all batch shapes broadcast.
        other_concentration: Same as `concentration`.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import von_mises_fisher as vmf
        >>> mean = jnp.array([0.0, 1.0])
        >>> float(vmf.kl(mean, 5.0, mean, 5.0)), round(float(vmf.kl(mean, 1.0, -mean, 1.0)), 4)
        (0.0, 0.8928)
    """
    mean, k, other_mean, other_k = arguments.promote(
        mean=mean,
        concentration=concentration,
        other_mean=other_mean,
        other_concentration=other_concentration,
    )
    for name, value in (("concentration", k), ("other_concentration", other_k)):
        arguments.require(name, value, arguments.nonnegative(value), "finite and at least 0")
    order = _order(_common_dimension(mean=mean, other_mean=other_mean))
    mean, other_mean = arguments.same_rank(mean, other_mean)
    half_square = 0.5 * jnp.sum((mean - other_mean) ** 2, axis=-1)
    k, other_k, half_square = arguments.same_rank(k, other_k, half_square)
    length = bessel.ratio(order, k)
    # The divergence for equal means, h(k') - h(k) - A(k) (k' - k), by the smaller of two forms.
    by_length = bessel.log_series_difference(order, other_k, k) - length * (other_k - k)
    by_spread = bessel.ratio_complement(order, k) * (other_k - k)
    by_spread = by_spread - bessel.scaled_log_series_difference(order, other_k, k)
    same_mean = jnp.maximum(jnp.where(length < 0.5, by_length, by_spread), 0)
    return same_mean + other_k * length * half_square


def resultant(points: ArrayLike, weights: ArrayLike | None = None) -> Resultant:
    """Return the direction and the length of the mean of unit vectors, as fits need them.

    ``spread`` is 1 - R computed from deviations, sum |x - m|^2 / (1 + R) / n. It keeps digits that
    R loses near 1, so large concentrations can be fitted in float32. If the mean of the vectors is
    0, it has no direction: ``mean`` is NaN.

    Args:
        points: Unit vectors, shape [..., n, p].
        weights: At least 0 and not all 0, shape [..., n]; by default all equal.

    Raises:
        ValueError: A vector is not of length 1 (to 1e-3), a weight is out of range, or the shapes
            do not fit.

    Example:
        >>> import jax.numpy as jnp
        >>> from simplex_jax.geometry import von_mises_fisher as vmf
        >>> result = vmf.resultant(jnp.array([[1.0, 0.0], [0.6, 0.8]]))
        >>> [round(float(x), 4) for x in (*result.mean, result.length, result.spread)]
        [0.8944, 0.4472, 0.8944, 0.1056]
    """
    if weights is None:
        (x,) = arguments.promote(points=points)
        weights = jnp.ones(x.shape[:-1], x.dtype)
    x, weights = arguments.promote(points=points, weights=weights)
    if x.ndim < 2 or x.shape[-1] < 2 or x.shape[-2] == 0:
        raise ValueError(f"points must have shape [..., n, p] with p at least 2; got {x.shape}")
    if weights.ndim == 0 or weights.shape[-1] != x.shape[-2]:
        raise ValueError(f"weights must have shape [..., {x.shape[-2]}]; it is {weights.shape}")
    arguments.common_shape(None, points=x[..., 0], weights=weights)
    arguments.require("weights", weights, arguments.nonnegative(weights), "finite and at least 0")
    total = jnp.sum(weights, axis=-1)
    arguments.require("the sum of weights", total, arguments.positive(total), "finite and positive")
    weights = arguments.with_rank(weights, x.ndim - 1)
    norms = jnp.sqrt(jnp.sum(x**2, axis=-1))
    arguments.require("the length of points", norms, jnp.abs(norms - 1) < 1e-3, "1")
    return _resultant(x, weights)


@jax.jit
def _resultant(x: jax.Array, weights: jax.Array) -> Resultant:
    share = weights / jnp.sum(weights, axis=-1, keepdims=True)
    rough = jnp.sum(share[..., None] * x, axis=-2)
    # The error of a float32 sum of many rows exceeds the distances between vectors of a large
    # concentration: the mean of the residuals corrects it.
    rest = x - rough[..., None, :]
    shift = jnp.sum(share[..., None] * rest, axis=-2)
    m = rough + shift
    length = jnp.sqrt(jnp.sum(m**2, axis=-1))
    deviation = jnp.sum((rest - shift[..., None, :]) ** 2, axis=-1)
    spread = jnp.sum(share * deviation, axis=-1) / (1 + length)
    return Resultant(m / length[..., None], jnp.minimum(length, 1), jnp.minimum(spread, 1))


def _moments(dimension: int, length: jax.Array, spread: jax.Array) -> jax.Array:
    """Return Banerjee's estimate of the concentration, R (p - R^2) / (1 - R^2).

    Banerjee et al. (2005, JMLR 6, equation 4.4). It is within a few percent of the exact solution.
    """
    return length * (dimension - length**2) / (spread * (1 + length))


def _length_and_spread(length: ArrayLike, spread: ArrayLike | None) -> list[jax.Array]:
    (length,) = arguments.promote(length=length)
    length, spread = arguments.promote(
        length=length, spread=1 - length if spread is None else spread
    )
    for name, value in (("length", length), ("spread", spread)):
        arguments.require(name, value, (value >= 0) & (value <= 1), "between 0 and 1")
    length, spread = arguments.same_rank(length, spread)
    total = length + spread
    arguments.require("length + spread", total, jnp.abs(total - 1) < 1e-3, "1")
    return [length, spread]


def fit(dimension: SupportsIndex, length: ArrayLike, spread: ArrayLike | None = None) -> jax.Array:
    """Return the maximum-likelihood concentration: the k with A(k) = R, to rounding.

    Newton's method (Sra 2012) for log k from Banerjee's estimate. The derivative in R is 1 / A'(k).

    Args:
        dimension: p, an integer of at least 2.
        length: Mean resultant length R of the data, in [0, 1], any shape.
        spread: 1 - R from ``resultant``. It determines the fit for R close to 1: a float32 R alone
            cannot distinguish concentrations above 1e6 p.

    Returns:
        Concentrations: 0 at R = 0; infinite at spread 0, or where (p - 1) / (2 spread) exceeds the
        largest number; NaN under ``jit`` for an R out of range.

    Raises:
        ValueError: The dimension or a length is out of range, or R + spread is not 1.

    Example:
        >>> from simplex_jax.geometry import von_mises_fisher as vmf
        >>> round(float(vmf.fit(100, vmf.mean_length(100, 50.0))), 2)
        50.0
    """
    _order(dimension)
    return _fit(int(dimension), *_length_and_spread(length, spread))


@partial(jax.jit, static_argnums=0)
def _fit(dimension: int, length: jax.Array, spread: jax.Array) -> jax.Array:
    order = _order(dimension)
    valid = (length >= 0) & (length <= 1) & (spread >= 0) & (spread <= 1)
    inside = valid & (length > 0) & (spread > 0)
    # At R = 0, k is 0 and has the derivative p.
    outside = jnp.where(valid, jnp.where(spread == 0, jnp.inf, dimension * length), jnp.nan)
    # Directions that differ by rounding alone: the squares of such a k would overflow in `bessel`.
    # There 1 - A(k) = (p - 1) / 2k (1 - (p - 3) / 4k) up to a fraction (p / k)^2 < 1e-9.
    steep = inside & (spread * (2 * float(jnp.finfo(spread.dtype).max) ** 0.25) < dimension - 1)
    limit = (dimension - 1) / (2 * jnp.where(steep, spread, 1)) - (dimension - 3) / 4
    inside = inside & ~steep
    length, spread = jnp.where(inside, length, 0.5), jnp.where(inside, spread, 0.5)

    def residual(k: jax.Array) -> jax.Array:
        """Return R - A(k), by lengths or by spreads, whichever keeps more digits."""
        by_spread = bessel.ratio_complement(order, k) - spread
        return jnp.where(length < 0.5, length - bessel.ratio(order, k), by_spread)

    def step(_, k):
        return k * jnp.exp(residual(k) / (k * bessel.ratio_slope(order, k)))

    k = lax.fori_loop(0, _NEWTON_STEPS, step, _moments(dimension, length, spread))
    k = lax.stop_gradient(k)
    k = k + residual(k) / bessel.ratio_slope(order, k)
    return jnp.where(inside, k, jnp.where(steep, limit, outside))
