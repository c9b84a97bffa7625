"""Categorical variates by inverse distribution function, from unnormalised weights."""

import math
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.draws import native, uniform
from simplex_jax._src.draws.bits import random_words, use_up

# Categories per fused loop: with fewer, XLA makes more passes over memory; more need registers.
_UNROLL = 10


def choose(weights: jax.Array, u: jax.Array) -> jax.Array:
    """Return the index, int32 [n], where the running sum of weights first exceeds u times the sum.

    Weights are [K, n], nonnegative, each column with a positive sum; uniforms [n] in (0, 1) have at
    most 24 bits (53 in double precision). Draws lie along the last axis, and the loop runs over
    categories: this vectorises and needs no array of running sums. The total is summed in the same
    order, so u times the total stays below the last sum, and a zero weight is never chosen.
    """
    # Both passes must see the same numbers: neither may recompute them with fused operations.
    weights = lax.optimization_barrier(weights)
    zero = jnp.zeros_like(weights[0])
    total, _ = lax.scan(lambda total, row: (total + row, None), zero, weights, unroll=_UNROLL)
    threshold = u * total

    def pass_category(carry, row):
        total, passed = carry
        total = total + row
        return (total, passed + (total <= threshold).astype(jnp.int32)), None

    start = (zero, jnp.zeros_like(threshold, jnp.int32))
    (_, passed), _ = lax.scan(pass_category, start, weights, unroll=_UNROLL)
    return jnp.minimum(passed, weights.shape[0] - 1)


def choose_by_native_code(weights: jax.Array, u: jax.Array) -> jax.Array:
    """Do what `choose` does, in native code if available.

    Use it for many categories that are already in an array: a native call needs no compilation. XLA
    fuses a few categories into the code that computes them, and shares weights under `vmap`.
    """
    if weights.dtype != jnp.float32:
        return choose(weights, u)
    constants = lax.stop_gradient((weights, u))
    return native.LIBRARY.lowered("choose", native.choose, choose, *constants)


@partial(jax.jit, static_argnames="shape")
def _categorical(key: jax.Array, weights: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    dtype, k = weights.dtype, weights.shape[-1]
    peak = jnp.max(weights, axis=-1, keepdims=True)
    valid = jnp.all(arguments.nonnegative(weights), axis=-1) & (peak[..., 0] > 0)
    # Scale by a power of two: sums of the largest weights cannot overflow, and nothing is rounded.
    scaled = weights * jnp.where(peak > 1, 2.0**-64, 2.0**64).astype(dtype)
    scaled = jnp.where(valid[..., None], scaled, 1)
    n = math.prod(shape)
    scaled = jnp.broadcast_to(scaled, (*shape, k)).reshape(n, k)
    use_up(key)
    index = choose(scaled.T, uniform.uniform(random_words(key, n, dtype)[0], dtype))
    return jnp.where(valid, index.reshape(shape), -1)


def categorical(
    key: jax.Array, weights: ArrayLike, shape: Sequence[int] | None = None
) -> jax.Array:
    """Draw indices with probability proportional to weights, from one uniform per draw.

    Args:
        key: A PRNG key, threefry or rbg.
        weights: Unnormalised weights, shape [..., K], finite, not negative and not all zero. On
            CPUs, XLA treats subnormal weights, below 1.2e-38 in float32, as zero.
        shape: Shape of the result; by default that of ``weights`` without its last axis.

    Returns:
        Indices 0..K-1, int32. A zero weight is never chosen. For weights below 1e-7 of the total
        (in float32), the frequency is limited by the 23 bits of the uniform and by rounded sums. -1
        where weights are invalid and values cannot be checked (under ``jit``).

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
        shape = (*arguments.as_shape(shape), weights.shape[-1])
    shape = arguments.common_shape(shape, weights=weights)[:-1]
    arguments.require("weights", weights, arguments.nonnegative(weights), "finite and not negative")
    positive = jnp.broadcast_to(jnp.max(weights, axis=-1, keepdims=True) > 0, weights.shape)
    arguments.require("weights", weights, positive, "positive somewhere in each row")
    return _categorical(key, weights, shape)
