"""Poisson variates at every rate: inversion when small, transformed rejection when large."""

import math
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.draws import native, rejection, uniform
from simplex_jax._src.draws.bits import random_words, refused, use_up

_INVERSION_LIMIT = 10.0
# Poisson(10) exceeds this with probability below 2^-65, the resolution of the finest uniform.
_LARGEST_SMALL = 50
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)

# ((1 + t) log1p(t) - t) / t^2 for |t| <= 1/4, in t / (1/4), highest degree first; error 3e-9.
_DEVIANCE_LIMIT = 0.25
_DEVIANCE = (
    -9.332190984423505e-07, 4.720336164609762e-06, -2.3184027668321505e-05, 0.0001299782161368057,
    -0.0007812696858309209, 0.005208380054682493, -0.0416666641831398, 0.5,
)  # fmt: skip


_LOG_FACTORIAL = tuple(math.lgamma(k + 1) for k in range(10))


def _log_pmf(count: jax.Array, rate: jax.Array) -> jax.Array:
    """Return the log probability of a count at a rate of at least 10, without cancellation.

    It is Loader's (2000) form -deviance - stirling - log(2 pi k) / 2. The terms of the textbook
    form are as large as the rate, and float32 keeps only 7 digits of them.
    """
    few = len(_LOG_FACTORIAL)
    k = jnp.maximum(count, few)
    t = (k - rate) / rate
    deviance = (1 + t) * jnp.log1p(t) - t
    if count.dtype == jnp.float32:
        near = t * t * uniform.polynomial(_DEVIANCE, t / _DEVIANCE_LIMIT)
        deviance = jnp.where(jnp.abs(t) < _DEVIANCE_LIMIT, near, deviance)
    inverse = 1 / (k * k)
    stirling = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / k
    many = -rate * deviance - stirling - 0.5 * jnp.log(k) - _LOG_SQRT_TWO_PI
    table = jnp.asarray(_LOG_FACTORIAL, count.dtype)
    log_factorial = table[jnp.clip(count, 0, few - 1).astype(jnp.int32)]
    return jnp.where(count < few, count * jnp.log(rate) - rate - log_factorial, many)


def _propose(
    key: jax.Array, row: jax.Array | int, columns: jax.Array, rate: jax.Array
) -> jax.Array:
    """Return the proposal of Hoermann's (1993) transformed rejection PTRS, or -1 if rejected."""
    dtype = rate.dtype
    word_u, word_v = random_words(key, rate.shape[0], dtype, row, columns)
    negative, us = uniform.side_and_magnitude(word_u, dtype)
    u = jnp.where(negative, us - 0.5, 0.5 - us)
    v = uniform.uniform(word_v, dtype)
    b = 0.931 + 2.53 * jnp.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    whole = jnp.floor(rate)
    k = whole + jnp.floor((2 * a / us + b) * u + 0.43 + (rate - whole))
    surely = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    never = (k < 0) | ((us < 0.013) & (v > us))
    below = jnp.log(v * inverse_alpha / (a / (us * us) + b)) <= _log_pmf(k, rate)
    return jnp.where(surely | (~never & below), k, -1)


def _by_inversion(bits: jax.Array, rate: jax.Array) -> jax.Array:
    """Return counts for rates up to 10: the number of tail probabilities above a uniform."""
    dtype = rate.dtype
    v = (bits.astype(dtype) + 0.5) * 2.0 ** (-8 * bits.dtype.itemsize)

    def step(state):
        number, pmf, tail, count = state
        count = count + (v < tail).astype(dtype)
        pmf = pmf * rate / (number + 1)
        # Subtraction leaves an absolute error of about 1e-7 in the far tail. The geometric bound
        # P(N > j) <= p(j + 1) / (1 - rate / (j + 2)) keeps it in proportion there.
        ratio = rate / (number + 3)
        bound = pmf * rate / (number + 2) / (1 - ratio)
        tail = jnp.clip(tail - pmf, 0, jnp.where(ratio < 1, bound, 1))
        return number + 1, pmf, tail, count

    none = jnp.zeros_like(v + rate)
    start = (jnp.zeros((), dtype), jnp.exp(-rate), -jnp.expm1(-rate), none)
    return lax.while_loop(
        lambda state: (state[0] < _LARGEST_SMALL) & jnp.any(v < state[2]), step, start
    )[3]


@partial(jax.jit, static_argnames="shape")
def _poisson(key: jax.Array, rate: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    by_xla, rate = partial(poisson_by_xla, shape=shape), refused(rate)
    if rate.dtype != jnp.float32:
        return by_xla(key, rate)
    by_native = partial(native.poisson, shape=shape)
    return native.LIBRARY.lowered("poisson", by_native, by_xla, key, rate)


def poisson_by_xla(key: jax.Array, rate: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Do what `poisson` does, in XLA."""
    valid = arguments.nonnegative(rate)
    (rate,) = arguments.flatten(shape, jnp.where(valid, rate, 1))
    use_up(key)
    small = rate < _INVERSION_LIMIT
    word, _ = random_words(key, rate.shape[0], rate.dtype)
    few = _by_inversion(word, jnp.where(small, rate, 0))
    large_rate = jnp.where(small, _INVERSION_LIMIT, rate)
    many = rejection.sample(key, large_rate, _propose, needed=~small)
    counts = arguments.unflatten(shape, jnp.where(small, few, many))
    return jnp.where(valid, counts, jnp.nan)


def poisson(key: jax.Array, rate: ArrayLike, shape: Sequence[int] | None = None) -> jax.Array:
    """Draw Poisson counts, as floating point numbers.

    Rates below 10 use inversion; others use transformed rejection (Hoermann 1993, PTRS), with the
    acceptance probability in Loader's cancellation-free form. `jax.random.poisson` computes it from
    terms as large as the rate, and is wrong in float32 from rates of about 1e5. In float32, the
    sums of inversion are accurate in the tails down to a probability of 1e-7.

    Args:
        key: A PRNG key, threefry or rbg.
        rate: Rates, finite and not negative (accurate in float32 for 0 to 1e9).
        shape: Shape of the result; by default that of ``rate``.

    Returns:
        Counts in the dtype of ``rate``, float32 by default: whole numbers, rounded above 2^24 in
        float32. NaN if the rate is invalid and values cannot be checked (under ``jit``).

    Raises:
        ValueError: A rate is negative or not finite, or does not fit ``shape``.

    Example:
        >>> import jax
        >>> from simplex_jax import draws
        >>> n = draws.poisson(jax.random.key(0), 1e6, shape=(100_000,))
        >>> bool(abs(n.var() / 1e6 - 1) < 0.02)
        True
    """
    (rate,) = arguments.promote(rate=rate)
    shape = arguments.common_shape(shape, rate=rate)
    arguments.require("rate", rate, arguments.nonnegative(rate), "finite and not negative")
    return _poisson(key, rate, shape)
