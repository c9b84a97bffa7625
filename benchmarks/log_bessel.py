"""log I_nu(x), of which the package needs only parts, to compare with other libraries."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src.geometry import bessel, debye


def log_iv(order: ArrayLike, x: ArrayLike) -> jax.Array:
    """Return log I_nu(x), the logarithm of the modified Bessel function of the first kind.

    It uses Debye's expansion (DLMF 10.41.3), which holds at every order if 1 / sqrt(nu^2 + x^2) is
    small. Otherwise it uses recurrences from an order where that holds.

    Args:
        order: nu, finite and at least 0, any shape; accurate up to 1e5.
        x: Finite and at least 0; accurate up to 1e8. The shapes broadcast.

    Returns:
        log I_nu(x), -inf for I_nu(0) with nu > 0. The error is below 1e-12 or a few units in the
        last place in float64. In float32 it is a few units in the last place of max(1, |log I|), or
        of nu near the one zero of log I, where terms of that size cancel. NaN under ``jit`` if an
        argument is out of range. The derivative in x is ``ratio`` + nu / x; there is none in the
        order.

    Raises:
        ValueError: An argument is negative or not finite, or shapes do not broadcast.

    Example:
        >>> from log_bessel import log_iv
        >>> log_i = log_iv([0.5, 2499.0], [1.0, 1000.0])
        >>> [round(float(value), 3) for value in log_i]
        [-0.064, -1428.716]
    """
    return bessel._checked(_iv, order=order, x=x)


def _log_iv(order: jax.Array, x: jax.Array) -> jax.Array:
    e = debye.expand(order, x)
    shift, _, stirling = debye.settings(x.dtype)
    large = e.radius + _times_log(order, x / (order + e.radius)) + e.series
    large = large - 0.5 * jnp.log(2 * jnp.pi * e.radius)
    # For small x and nu: (x / 2)^nu / Gamma(nu + 1), by Stirling's series where it is accurate ...
    low, high = jnp.minimum(order, stirling), jnp.maximum(order, stirling)
    by_gamma = _times_log(low, x / 2) - bessel._log_factorial(low)
    one = jnp.ones_like(order)
    by_stirling = high * (1 + jnp.log(x / (2 * high))) + debye.series(1 / high, one)
    by_stirling = by_stirling - 0.5 * jnp.log(2 * jnp.pi * high)
    power = jnp.where(order < stirling, by_gamma, by_stirling)
    # ... times 0F1 at the base order, followed by the downward recurrence.
    base = jnp.minimum(order, shift) + shift
    d = jnp.where(e.small, x * x / (e.radius + e.base), 0)
    series = d - base * jnp.log1p(d / (2 * base)) - 0.5 * jnp.log1p(d / base)
    series = series + (e.series - debye.series(1 / base, one)) + e.growth
    return jnp.where(e.small, power + series, large)


def _times_log(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return a log b, 0 where a is 0; unlike ``xlogy``, it carries no second derivative."""
    return jnp.where(a == 0, 0, a * jnp.log(jnp.where(a == 0, 1, b)))


def _slope_of_log_iv(order: jax.Array, x: jax.Array) -> jax.Array:
    return bessel._ratio(order, x) + jnp.where(order == 0, 0, order / jnp.where(order == 0, 1, x))


_iv = bessel._with_slope(_log_iv, _slope_of_log_iv)
