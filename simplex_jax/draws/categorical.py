"""Categorical variates by inverse distribution function, from unnormalised weights."""

import math
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax.draws import arguments, uniform
from simplex_jax.draws.bits import random_words


def _first_above(weights: jax.Array, threshold: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the first index whose running sum exceeds the threshold, and the sum before it.

    Weights are [n, K]. The sums are taken one after the other, so that a zero weight leaves them
    as they are and cannot be chosen; if rounding leaves the threshold at or above the last sum,
    the last positive weight is chosen.
    """

    def add(carry, column):
        number, total, index, before, found = carry
        after = total + column
        here = (column > 0) & ~found
        index = jnp.where(here, number, index)
        before = jnp.where(here, total, before)
        return (number + 1, after, index, before, found | (after > threshold)), None

    n = weights.shape[0]
    zero = jnp.zeros(n, weights.dtype)
    start = (0, zero, jnp.zeros(n, jnp.int32), zero, jnp.zeros(n, bool))
    (_, _, index, before, _), _ = lax.scan(add, start, weights.T)
    return index, before


@partial(jax.jit, static_argnames="shape")
def _categorical(key: jax.Array, weights: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    dtype, k = weights.dtype, weights.shape[-1]
    peak = jnp.max(weights, axis=-1, keepdims=True)
    valid = jnp.all(arguments.nonnegative(weights), axis=-1) & (peak[..., 0] > 0)
    scaled = jnp.where(valid[..., None], weights / peak, 1)
    n = math.prod(shape)
    scaled = jnp.broadcast_to(scaled, (*shape, k)).reshape(n, k)
    u = uniform.uniform(random_words(key, n, dtype)[0], dtype)

    # Two levels: first a block of about sqrt(K) categories, then a category in it.
    width = math.isqrt(max(k - 1, 0)) + 1
    blocks = -(-k // width)
    blocked = jnp.pad(scaled, ((0, 0), (0, blocks * width - k))).reshape(n, blocks, width)
    sums = jnp.sum(blocked, axis=-1)
    threshold = u * jnp.sum(sums, axis=-1)
    block, before = _first_above(sums, threshold)
    inside = jnp.take_along_axis(blocked, block[:, None, None], axis=1)[:, 0]
    index, _ = _first_above(inside, threshold - before)
    return jnp.where(valid, (block * width + index).reshape(shape), -1)


def categorical(
    key: jax.Array, weights: ArrayLike, shape: Sequence[int] | None = None
) -> jax.Array:
    """Draw indices with probability proportional to weights, one uniform a draw.

    Args:
        key: A PRNG key, threefry or rbg.
        weights: Unnormalised weights, shape [..., K], finite, not negative and not all zero.
        shape: Shape of the result; by default that of ``weights`` less its last axis.

    Returns:
        Indices 0..K-1, int32. A weight of zero is never chosen. -1 where the weights are invalid
        and values cannot be checked (under ``jit``).

    Raises:
        ValueError: A weight is negative or not finite, a row is all zero, or shapes do not fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import draws
        >>> index = draws.categorical(jax.random.key(0), jnp.array([1.0, 0.0, 3.0]), (10_000,))
        >>> counts = jnp.bincount(index, length=3)
        >>> int(counts[1]), bool(abs(counts[2] - 7500) < 200)
        (0, True)
    """
    (weights,) = arguments.promote(weights=weights)
    if weights.ndim == 0 or weights.shape[-1] == 0:
        raise ValueError(f"weights must have a last axis of length K > 0; got {weights.shape}")
    if shape is not None:
        shape = (*shape, weights.shape[-1])
    shape = arguments.common_shape(shape, weights=weights)[:-1]
    arguments.require(
        "weights", weights, arguments.nonnegative(weights), "finite and not negative"
    )
    some = jnp.broadcast_to(jnp.max(weights, axis=-1, keepdims=True) > 0, weights.shape)
    arguments.require("weights", weights, some, "positive somewhere in each row")
    return _categorical(key, weights, shape)
