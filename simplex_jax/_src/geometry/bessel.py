"""Ratios of modified Bessel functions I_nu of real order, and their power series in logs.

All are exact to rounding for orders from 0 to 1e5 and arguments from 0 to 1e8, in float32 and
float64, and differentiable in the argument. There is no derivative in the order: asking for it is
an error, because any number would be made up.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.geometry import debye

_Function = Callable[[jax.Array, jax.Array], jax.Array]
# Nodes and weights of Gauss and Legendre on (0, 1).
_NODES, _WEIGHTS = (
    x / 2 + offset for x, offset in zip(np.polynomial.legendre.leggauss(4), (0.5, 0.0), strict=True)
)
_NO_DERIVATIVE = "there is no derivative in the order; apply jax.lax.stop_gradient to it"


def _with_slope(value: _Function, slope: _Function) -> _Function:
    """Return a function of (order, x) whose derivative in x is ``slope``."""

    def rule(primals, tangents):
        order, x = primals
        order_tangent, x_tangent = tangents
        if not isinstance(order_tangent, SymbolicZero):
            raise ValueError(_NO_DERIVATIVE)
        return function(order, x), slope(order, x) * x_tangent

    function = jax.custom_jvp(value)
    function.defjvp(rule, symbolic_zeros=True)
    return function


def _log_factorial(a: jax.Array) -> jax.Array:
    """Return log Gamma(a + 1); XLA's is off by 5e-7 at a = 0 in float32."""
    return jnp.where(a == 0, 0, lax.lgamma(a + 1))


def _series_parts(order: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return x - log 0F1 and log 0F1 (nu + 1; x^2 / 4), as sums with little cancellation.

    With a reference M = N, log 0F1(N + 1) = d - N log1p(d / 2M) - log1p(d / M) / 2 + Q + C where
    d = r - N and C = -Q(x = 0), by Stirling's series. That is inaccurate at small N. There x is
    large, so M = N + 1/2 is used, with matching numerators, and C comes from the gamma function.
    """
    e = debye.expand(order, x)
    stirling = debye.settings(x.dtype).stirling
    by_gamma = ~e.small & (order < stirling)
    gap = jnp.where(by_gamma, 0.5, 0)
    reference = e.base + gap
    d = x * x / (e.radius + e.base)
    logs = e.base * jnp.log1p((d - 2 * gap) / (2 * reference))
    logs = logs + 0.5 * jnp.log1p((d - gap) / reference)
    least = jnp.minimum(order, stirling)
    exact = _log_factorial(least) + least - least * jnp.log(least + 0.5)
    exact = exact - 0.5 * jnp.log(2 * jnp.pi * (least + 0.5))
    by_stirling = -debye.series(1 / jnp.where(by_gamma, stirling, e.base), jnp.ones_like(order))
    rest = e.series + jnp.where(by_gamma, exact, by_stirling) + e.growth
    # x - d, where x may be much larger than N: r + x > N, so nothing cancels.
    difference = e.base * (d + x) / (e.radius + x)
    return difference + logs - rest, d - logs + rest


def _difference(order: jax.Array, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the changes from y to x of x - log 0F1 and of log 0F1, exact for close arguments."""
    at_x, at_y = debye.expand(order, x), debye.expand(order, y)
    change = (x - y) * ((x + y) / (at_x.radius + at_y.radius))
    base, series = at_x.base, at_x.series - at_y.series
    logs = base * jnp.log1p(change / (base + at_y.radius))
    logs = logs + 0.5 * jnp.log1p(change / at_y.radius) - series
    # r - x = N^2 / (r + x), so (x - y) - change is (x - y) times this.
    share = base * base / (at_x.radius + x) + base * base / (at_y.radius + y)
    rest = (x - y) * (share / (at_x.radius + at_y.radius))
    from_x, from_y = _series_parts(order, x), _series_parts(order, y)
    gap = (x - y)[..., None]
    between = debye.expand(order[..., None], y[..., None] + gap * _like(_NODES, gap))
    weights = gap * _like(_WEIGHTS, gap)
    # The slopes have no singularity within 2.4 of the positive numbers, so over such short
    # intervals four nodes integrate them to rounding.
    close = jnp.abs(x - y) < (0.1 if x.dtype == jnp.float64 else 1)
    small = at_x.small | at_y.small
    scaled = jnp.where(small, from_x[0] - from_y[0], rest + logs)
    plain = jnp.where(small, from_x[1] - from_y[1], change - logs)
    return (
        jnp.where(close, jnp.sum(between.complement * weights, axis=-1), scaled),
        jnp.where(close, jnp.sum(between.ratio * weights, axis=-1), plain),
    )


def _like(numbers: np.ndarray, x: jax.Array) -> jax.Array:
    return arguments.with_rank(jnp.asarray(numbers, x.dtype), x.ndim)


def _ratio_slope(order: jax.Array, x: jax.Array) -> jax.Array:
    return debye.expand(order, x).slope


_ratio = _with_slope(lambda order, x: debye.expand(order, x).ratio, _ratio_slope)
_complement = _with_slope(
    lambda order, x: debye.expand(order, x).complement, lambda order, x: -_ratio_slope(order, x)
)
_series = _with_slope(lambda order, x: _series_parts(order, x)[1], _ratio)
_scaled_series = _with_slope(lambda order, x: _series_parts(order, x)[0], _complement)


def _difference_with_slope(which: int, slope: _Function) -> Callable[..., jax.Array]:
    """Return one of the differences; its derivatives are the slopes of the two terms."""

    @jax.custom_jvp
    def function(order, x, y):
        return _difference(order, x, y)[which]

    def rule(primals, tangents):
        order, x, y = primals
        if not isinstance(tangents[0], SymbolicZero):
            raise ValueError(_NO_DERIVATIVE)
        change = jnp.zeros(jnp.broadcast_shapes(order.shape, x.shape, y.shape), x.dtype)
        for value, tangent, sign in ((x, tangents[1], 1), (y, tangents[2], -1)):
            if not isinstance(tangent, SymbolicZero):
                change = change + sign * slope(order, value) * tangent
        return function(order, x, y), change

    function.defjvp(rule, symbolic_zeros=True)
    return function


_difference_of_series = _difference_with_slope(1, _ratio)
_difference_of_scaled = _difference_with_slope(0, _complement)


@partial(jax.jit, static_argnums=0)
def _evaluate(function: Callable[..., jax.Array], order: jax.Array, *values: jax.Array):
    """Return the function, or NaN where an argument is out of range."""
    valid = arguments.nonnegative(order)
    for value in values:
        valid = valid & arguments.nonnegative(value)
    return function(order, *(jnp.where(valid, value, jnp.nan) for value in values))


def _checked(function: Callable[..., jax.Array], **named: ArrayLike) -> jax.Array:
    arrays = arguments.nonnegatives(**named)
    shape = arguments.common_shape(None, **dict(zip(named, arrays, strict=True)))
    # Without leading axes of length 1, calls share programs, which are long.
    ones = next((axis for axis, size in enumerate(shape[:-1]) if size != 1), max(len(shape) - 1, 0))
    arrays = [array.reshape(array.shape[ones:]) for array in arguments.same_rank(*arrays)]
    return _evaluate(function, *arrays).reshape(shape)


def ratio(order: ArrayLike, x: ArrayLike) -> jax.Array:
    """Return I_{nu+1}(x) / I_nu(x), in [0, 1), to rounding.

    For nu = p/2 - 1 it is the mean resultant length of the von Mises-Fisher distribution on the
    sphere of R^p with concentration x. There is no derivative in the order. NaN under ``jit`` if an
    argument is out of range.

    Args:
        order: nu, finite and at least 0, any shape; accurate up to 1e5.
        x: Finite and at least 0; accurate up to 1e8. The shapes broadcast.

    Raises:
        ValueError: An argument is negative or not finite, or shapes do not broadcast.

    Example:
        >>> from simplex_jax._src.geometry import bessel
        >>> round(float(bessel.ratio(0.5, 2.0)), 5)  # coth(2) - 1/2
        0.53731
    """
    return _checked(_ratio, order=order, x=x)


def ratio_complement(order: ArrayLike, x: ArrayLike) -> jax.Array:
    """Return 1 - I_{nu+1}(x) / I_nu(x) to rounding, even if the ratio rounds to 1."""
    return _checked(_complement, order=order, x=x)


def ratio_slope(order: ArrayLike, x: ArrayLike) -> jax.Array:
    """Return the derivative in x of ``ratio``, without the cancellation of Riccati's equation.

    Its relative error is a few units in the last place, or up to a hundred times that for x < 16.
    """
    return _checked(_ratio_slope, order=order, x=x)


def log_series(order: ArrayLike, x: ArrayLike) -> jax.Array:
    """Return log 0F1(nu + 1; x^2 / 4) = log(Gamma(nu + 1) (2 / x)^nu I_nu(x)).

    It is 0 at x = 0 and grows as x - O(nu log x). It is the log of the mean of exp(x t), where t is
    the first coordinate of a uniform unit vector in R^(2 nu + 2). Arguments as in ``ratio``.

    Example:
        >>> from simplex_jax._src.geometry import bessel
        >>> round(float(bessel.log_series(0.5, 1.0)), 5)  # log sinh(1)
        0.16144
    """
    return _checked(_series, order=order, x=x)


def scaled_log_series(order: ArrayLike, x: ArrayLike) -> jax.Array:
    """Return x - ``log_series``, which is at least 0 and far smaller than both at large x."""
    return _checked(_scaled_series, order=order, x=x)


def log_series_difference(order: ArrayLike, x: ArrayLike, y: ArrayLike) -> jax.Array:
    """Return ``log_series`` at x minus that at y, to rounding of the difference for close x, y.

    In float32, values of 1e5 nats have an error of 1e-2, these differences a relative one of 1e-7.
    """
    return _checked(_difference_of_series, order=order, x=x, y=y)


def scaled_log_series_difference(order: ArrayLike, x: ArrayLike, y: ArrayLike) -> jax.Array:
    """Return ``scaled_log_series`` at x minus that at y, to rounding of the difference."""
    return _checked(_difference_of_scaled, order=order, x=x, y=y)
