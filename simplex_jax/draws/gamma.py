"""Gamma variates by one Marsaglia-Tsang round for all and compacted rounds for the rejected."""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax import arguments
from simplex_jax.draws import native, rejection, uniform
from simplex_jax.draws.bits import offset_of, random_words, use_up

# log1p(y) - y + y^2/2 - y^3/3 over y^4 for |y| <= 1/4, in y / (1/4), highest degree first;
# relative error 4e-7. The direct difference would lose all its digits there in float32.
_REMAINDER_LIMIT = 0.25
_REMAINDER = (
    8.177448762580752e-06, -2.559679160185624e-05, 0.00010389083763584495, -0.0004887076793238521,
    0.0022348545026034117, -0.010416309349238873, 0.04999957233667374, -0.2500000298023224,
)  # fmt: skip


def _remainder(y: jax.Array) -> jax.Array:
    """Return log1p(y) - y + y^2/2 - y^3/3, which is never positive."""
    rest = y * (1 - y * (0.5 - y / 3))
    if y.dtype == jnp.float64:
        return jnp.log1p(y) - rest
    y2 = y * y
    near = y2 * y2 * uniform.polynomial(_REMAINDER, y / _REMAINDER_LIMIT)
    return jnp.where(jnp.abs(y) < _REMAINDER_LIMIT, near, jnp.log(1 + y) - rest)


def _propose(
    offset: jax.Array,
    key: jax.Array,
    row: jax.Array | int,
    columns: jax.Array,
    shape_parameter: jax.Array,
) -> jax.Array:
    """Return Marsaglia and Tsang's (2000) proposal, or -1 where it is rejected.

    With y = x / (3 sqrt(d)) the log acceptance probability is 3 d (log1p(y) - y + y^2/2 - y^3/3),
    free of the cancellation of the usual form x^2/2 + d - d v + d log v, and at most 0 for every
    d > 0: the method is exact down to shape 1/3, where it is merely less often accepted.
    """
    dtype = shape_parameter.dtype
    word_x, word_u = random_words(key, shape_parameter.shape[0], dtype, row, columns, offset)
    d = shape_parameter - 1 / 3
    y = uniform.normal(word_x, dtype) * lax.rsqrt(d) / 3
    inside = y > -1
    log_acceptance = d * (3 * _remainder(jnp.where(inside, y, 0)))
    accepted = inside & (uniform.uniform(word_u, dtype) < jnp.exp(log_acceptance))
    return jnp.where(accepted, d * (1 + y) ** 3, -1)


def standard_gamma(key: jax.Array, shape_parameter: jax.Array, offset: jax.Array) -> jax.Array:
    """Return Gamma(shape_parameter, 1) draws for shape parameters [n] of at least 1/2.

    Rows 0 and 1 of the random words of the key are left to the caller. The columns are those from
    the offset on.
    """
    return rejection.sample(key, shape_parameter, partial(_propose, offset))


@partial(jax.jit, static_argnames="shape")
def _loggamma(key: jax.Array, a: jax.Array, offset: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    by_xla = partial(loggamma_by_xla, shape=shape)
    if a.dtype != jnp.float32:
        return by_xla(key, a, offset)
    by_native = partial(native.loggamma, shape=shape)
    return native.LIBRARY.lowered(by_native, by_xla, key, a, offset)


def loggamma_by_xla(
    key: jax.Array, a: jax.Array, offset: jax.Array, shape: tuple[int, ...]
) -> jax.Array:
    """Draw as `loggamma` does, by XLA."""
    valid = arguments.positive(a)
    (a,) = arguments.flatten(shape, jnp.where(valid, a, 1))
    use_up(key)
    small = a < 1
    g = standard_gamma(key, jnp.where(small, a + 1, a), offset)
    word, _ = random_words(key, a.shape[0], a.dtype, offset=offset)
    e = uniform.exponential(word, a.dtype)
    value = jnp.log(g) - jnp.where(small, e / a, 0)
    return jnp.where(valid, arguments.unflatten(shape, value), jnp.nan)


def loggamma(
    key: jax.Array,
    shape_parameter: ArrayLike,
    shape: Sequence[int] | None = None,
    *,
    offset: ArrayLike = 0,
) -> jax.Array:
    """Draw the logarithm of Gamma(shape_parameter, 1) variates.

    Small shapes live far below the smallest float32 (the median of Gamma(0.001) is e^-694), so
    only the logarithm is returned. The method is Marsaglia and Tsang (2000) with the boost
    Gamma(a) = Gamma(a + 1) U^(1/a) for a < 1, in logs.

    Args:
        key: A PRNG key, threefry or rbg.
        shape_parameter: Shapes a, finite and positive (right in float32 for 1e-6 to 1e8).
        shape: Shape of the result; by default that of ``shape_parameter``.
        offset: Number of variates before these, an integer of 0 to 2^32 - 1, where they are a part
            of a larger array that is drawn in parts: they are those that it has there.

    Returns:
        Log variates in the dtype of ``shape_parameter``, float32 by default. NaN where the shape
        parameter is invalid and values cannot be checked (under ``jit``).

    Raises:
        ValueError: A shape parameter is not finite and positive, or does not fit ``shape``.

    Example:
        >>> import jax
        >>> from simplex_jax import draws
        >>> log_g = draws.loggamma(jax.random.key(0), 0.001, shape=(10_000,))
        >>> bool(abs(log_g.mean() + 1000.6) < 40)  # E log Gamma(0.001) is -1000.6
        True
    """
    (a,) = arguments.promote(shape_parameter=shape_parameter)
    shape = arguments.common_shape(shape, shape_parameter=a)
    arguments.require("shape_parameter", a, arguments.positive(a), "finite and positive")
    return _loggamma(key, a, offset_of(offset), shape)
