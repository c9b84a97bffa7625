"""Von Mises-Fisher variates: unit vectors about a mean direction, in any dimension."""

import math
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.draws import rejection, uniform
from simplex_jax._src.draws.bits import random_words, refused


def von_mises_fisher(
    key: jax.Array, mean: ArrayLike, concentration: ArrayLike, shape: Sequence[int] | None = None
) -> jax.Array:
    """Draw unit vectors x with density proportional to exp(concentration mean.x).

    The shortfall u = 1 - mean.x is drawn first: in three dimensions by inverting its distribution
    function, otherwise by the rejection method of Ulrich (1984) as corrected by Wood (1994),
    written for u. With their b and x0, with u0 = 1 - x0 and a symmetric beta variate Z, the
    proposal is u = 2 b Z / (1 - Z + b Z), and its log acceptance probability (p - 1) (log(1 + y) -
    y) with y = k (u - u0) / (p - 1). Nothing subtracts numbers of similar size, so float32 is
    equally accurate at all concentrations.

    Then x = mean + (sqrt(u (2 - u)) t - u mean), with t uniform on the unit vectors orthogonal to
    the mean: scaled normals, moved there by the Householder reflection in mean + sign(mean_1) e_1,
    which is well defined for every mean. A draw costs O(p).

    Args:
        key: A PRNG key, threefry or rbg.
        mean: Unit vectors, shape [..., p] with p at least 2. They are normalised; their length may
            be off by 1e-3.
        concentration: From 0 (uniform) to 1e8, shape [...].
        shape: Batch shape of the result; by default that of the broadcast arguments.

    Returns:
        Unit vectors, shape [*shape, p]. NaN in rows where an argument is invalid and cannot be
        checked (under ``jit``).

    Raises:
        ValueError: A mean is not of length 1, a concentration is out of range, or the shapes do not
            fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import draws
        >>> mean = jnp.array([0.0, 0.6, -0.8])
        >>> x = draws.von_mises_fisher(jax.random.key(0), mean, 1e4, shape=(1000,))
        >>> bool(abs(1e4 * (1 - x @ mean).mean() - 1) < 0.2)  # the mean of 1 - mean.x is 1e-4
        True
    """
    mean, concentration = arguments.promote(mean=mean, concentration=concentration)
    if mean.ndim == 0 or mean.shape[-1] < 2:
        raise ValueError(f"mean must have a last axis of length p of at least 2; got {mean.shape}")
    arguments.require("the length of mean", _norm(mean), _unit(mean), "1")
    arguments.require("concentration", concentration, _in_range(concentration), "from 0 to 1e8")
    batch = jnp.zeros(mean.shape[:-1], bool)
    shape = arguments.common_shape(shape, mean=batch, concentration=concentration)
    return _draw(key, mean, concentration, shape)


def _norm(x: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(x * x, axis=-1))


def _unit(mean: jax.Array) -> jax.Array:
    return jnp.abs(_norm(mean) - 1) < 1e-3


def _in_range(concentration: jax.Array) -> jax.Array:
    return (concentration >= 0) & (concentration <= 1e8)


@partial(jax.jit, static_argnums=3)
def _draw(
    key: jax.Array, mean: jax.Array, concentration: jax.Array, shape: tuple[int, ...]
) -> jax.Array:
    p, dtype = mean.shape[-1], mean.dtype
    size = math.prod(shape)
    is_unit, in_range = arguments.same_rank(_unit(mean), _in_range(concentration))
    valid = (is_unit & in_range)[..., None]
    first = jnp.zeros(p, dtype).at[0].set(1)
    mean = jnp.where(_unit(mean)[..., None], mean, arguments.with_rank(first, mean.ndim))
    # One row per draw: jax 0.10 miscompiles the sums below on CPUs if axes are broadcast.
    mean = jnp.broadcast_to(mean / _norm(mean)[..., None], (*shape, p)).reshape(size, p)
    (k,) = arguments.flatten(shape, jnp.where(_in_range(concentration), concentration, 1))
    key_shortfall, key_tangent = jax.random.split(key)
    u = _shortfall(key_shortfall, k, p)[:size, None]
    tangent = _tangent(key_tangent, size, p, dtype)
    # With v = mean + s e_1 and s the sign of mean_1, the reflection in v maps e_1 to -s mean, and
    # vectors orthogonal to e_1 to vectors orthogonal to the mean.
    sign = jnp.where(mean[:, :1] < 0, -1, 1).astype(dtype)
    v = mean + sign * first[None]
    projected = jnp.sum(v * tangent, axis=-1, keepdims=True) / (1 + jnp.abs(mean[:, :1]))
    length = jnp.sqrt(u * (2 - u)) / _norm(tangent)[:, None]
    x = mean + (length * (tangent - projected * v) - u * mean)
    return jnp.where(valid, x.reshape(*shape, p), jnp.nan)


def _tangent(key: jax.Array, size: int, p: int, dtype: jnp.dtype) -> jax.Array:
    """Return vectors of uniform direction orthogonal to e_1, shape [size, p]."""
    if p <= 3:
        (word, _) = random_words(key, size, dtype)
        if p == 2:
            ends = [jnp.where(word & 1, 1, -1).astype(dtype)]
        else:
            angle = 2 * jnp.pi * uniform.uniform(word, dtype)
            ends = [jnp.cos(angle), jnp.sin(angle)]
        return jnp.stack([jnp.zeros_like(ends[0]), *ends], axis=-1)
    normals = uniform.normal(random_words(key, arguments.pad(size * p), dtype)[0], dtype)
    normals = arguments.unflatten((size, p), normals)
    # Materialised once, or each of the sums would recompute them.
    return lax.optimization_barrier(jnp.where(lax.iota(jnp.int32, p) == 0, 0, normals))


def _shortfall(key: jax.Array, k: jax.Array, p: int) -> jax.Array:
    """Draw u in [0, 2] with density proportional to (u (2 - u))^((p - 3)/2) exp(-k u)."""
    if p == 3:
        return _closed_form(key, k)
    return rejection.sample(key, refused(k), partial(_propose, p=p))


def _closed_form(key: jax.Array, k: jax.Array) -> jax.Array:
    """Return the quantile -log(1 - U (1 - exp(-2 k))) / k at a uniform U."""
    upper, v = uniform.side_and_magnitude(random_words(key, k.shape[0], k.dtype)[0], k.dtype)
    k = jnp.maximum(k, 1e-20)  # below this the quantile is 2 U, and 0 / 0 at 0
    mass = -jnp.expm1(-2 * k)
    # If U = 1 - v is near 1, 1 - U (...) becomes v + (1 - v) exp(-2 k).
    high = jnp.where(k < 1, jnp.log1p((v - 1) * mass), jnp.log(v + (1 - v) * jnp.exp(-2 * k)))
    return jnp.minimum(-jnp.where(upper, high, jnp.log1p(-v * mass)) / k, 2)


def _propose(
    key: jax.Array, row: jax.Array | int, columns: jax.Array, k: jax.Array, p: int
) -> jax.Array:
    """Return Wood's proposal of u, or -1 if rejected, which happens at most 35% of the time.

    Z ~ Beta((p - 1)/2, (p - 1)/2) is (1 + t) / 2 for a coordinate t of a uniform unit vector in
    R^p, which is sqrt(1 - U^(2 / (p - 2))) cos(angle); on the circle, sin(angle)^2.
    """
    dtype = k.dtype
    word_angle, word_radius = random_words(key, k.shape[0], dtype, row, columns)
    word_accept, _ = random_words(key, k.shape[0], dtype, row + 1, columns)
    if p == 2:
        swapped, v = uniform.side_and_magnitude(word_angle, dtype)
        sine, cosine = jnp.sin(jnp.pi / 2 * v) ** 2, jnp.cos(jnp.pi / 2 * v) ** 2
        z, rest = jnp.where(swapped, cosine, sine), jnp.where(swapped, sine, cosine)
    else:
        square = -jnp.expm1(-2 / (p - 2) * uniform.exponential(word_radius, dtype))
        t = jnp.sqrt(square) * jnp.cos(2 * jnp.pi * uniform.uniform(word_angle, dtype))
        z, rest = (1 + t) / 2, (1 - t) / 2
    b = (p - 1) / (2 * k + jnp.sqrt(4 * k * k + float(p - 1) ** 2))
    u = 2 * b * z / (rest + b * z)
    y = k * (u - 2 * b / (1 + b)) / (p - 1)
    accepted = uniform.uniform(word_accept, dtype) < jnp.exp((p - 1) * (jnp.log1p(y) - y))
    return jnp.where(accepted, jnp.minimum(u, 2), -1)
