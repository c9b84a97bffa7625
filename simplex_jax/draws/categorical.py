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


_UNROLL = 16


def _sums(rows: jax.Array) -> jax.Array:
    """Return the sum over the first axis, one row after the other."""
    return lax.scan(lambda total, row: (total + row, None), rows[0], rows[1:], unroll=_UNROLL)[0]


def choose(weights: jax.Array, u: jax.Array) -> jax.Array:
    """Return the index at which the running sum of the weights first exceeds u times the total.

    Two levels, a group of about sqrt(K) categories and then a category in it, with the draws side
    by side in the last axis: nothing but the weights themselves has size [K, n]. A zero weight is
    never chosen, as sums that decide are taken one after the other and it leaves them as they are.

    Args:
        weights: Shape [K, n], not negative, each column with a positive sum.
        u: Uniforms in (0, 1), shape [n].

    Returns:
        Indices 0..K-1, int32 [n].
    """
    k, n = weights.shape
    size = math.isqrt(max(k - 1, 0)) + 1
    groups = -(-k // size)
    grouped = jnp.pad(weights, ((0, groups * size - k), (0, 0))).reshape(groups, size, n)
    sums = jnp.sum(grouped, axis=1)
    threshold = u * _sums(sums)

    def next_group(carry, row):
        total, group, before = carry
        total = total + row
        passed = total <= threshold
        return (total, group + passed, jnp.where(passed, total, before)), None

    zero, first = jnp.zeros(n, weights.dtype), jnp.zeros(n, jnp.int32)
    (_, group, before), _ = lax.scan(next_group, (zero, first, zero), sums, unroll=_UNROLL)
    group = jnp.minimum(group, groups - 1)
    inside = jnp.take_along_axis(grouped, group[None, None, :], axis=0)[0]
    left = threshold - before

    # The sum of a group was rounded in another order: past its end, the last positive weight.
    def next_category(carry, row):
        total, number, category, found = carry
        category = jnp.where((row > 0) & ~found, number, category)
        total = total + row
        return (total, number + 1, category, found | (total > left)), None

    start = (zero, jnp.int32(0), first, jnp.zeros(n, bool))
    (_, _, category, _), _ = lax.scan(next_category, start, inside, unroll=_UNROLL)
    return group * size + category


@partial(jax.jit, static_argnames="shape")
def _categorical(key: jax.Array, weights: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    dtype, k = weights.dtype, weights.shape[-1]
    peak = jnp.max(weights, axis=-1, keepdims=True)
    valid = jnp.all(arguments.nonnegative(weights), axis=-1) & (peak[..., 0] > 0)
    scaled = jnp.where(valid[..., None], weights / peak, 1)
    n = math.prod(shape)
    scaled = jnp.broadcast_to(scaled, (*shape, k)).reshape(n, k)
    index = choose(scaled.T, uniform.uniform(random_words(key, n, dtype)[0], dtype))
    return jnp.where(valid, index.reshape(shape), -1)


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
