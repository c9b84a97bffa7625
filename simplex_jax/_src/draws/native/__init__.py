"""Draws by native code that XLA calls: the same variates up to rounding, in less time."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.draws import bits
from simplex_jax._src.native.library import Library

LIBRARY = Library(
    Path(__file__).parent,
    (
        ("hash", "SimplexHash"),
        ("loggamma", "SimplexLogGamma"),
        ("poisson", "SimplexPoisson"),
        ("cir", "SimplexCir"),
        ("choose", "SimplexChoose"),
        ("normalise", "SimplexNormalise"),
    ),
    "simplex_jax_draws",
    cuda=("loggamma", "poisson", "cir"),
)
# In the same file, but a file of an earlier version, which lacks them, still serves the draws.
PATHS = Library(
    Path(__file__).parent,
    (
        ("pass_tables", "SimplexPassTables"),
        ("draw_vectors", "SimplexDrawVectors"),
        ("move_paths", "SimplexMovePaths"),
    ),
    "simplex_jax_paths",
    cuda=(),
)


def hash_pairs(
    key_words: jax.Array,
    first: jax.Array,
    *,
    size: int,
    prefix: str | None = None,
    width: int = 16,
) -> jax.Array:
    """Hash as `bits.threefry2x32` does: counters (0, first), (0, first + 1), ..., [size, 2]."""
    call = _function("hash", prefix, jax.ShapeDtypeStruct((size, 2), jnp.uint32))
    return call(key_words, first.reshape(1), width=np.int64(width))


def loggamma(
    key: jax.Array,
    a: jax.Array,
    offset: jax.Array,
    shape: tuple[int, ...],
    *,
    prefix: str | None = None,
    width: int = 16,
) -> jax.Array:
    """Draw as `draws.loggamma` does, in float32."""
    return _call("loggamma", key, offset, shape, a, prefix=prefix, width=width)


def poisson(
    key: jax.Array,
    rate: jax.Array,
    shape: tuple[int, ...],
    *,
    prefix: str | None = None,
    width: int = 16,
) -> jax.Array:
    """Draw as `draws.poisson` does, in float32."""
    return _call("poisson", key, 0, shape, rate, prefix=prefix, width=width)


def cir(
    key: jax.Array,
    log_theta: jax.Array,
    a: jax.Array,
    step: tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array],
    offset: jax.Array,
    shape: tuple[int, ...],
    *,
    prefix: str | None = None,
    width: int = 16,
) -> jax.Array:
    """Draw as `draws.cir` does, in float32; `step` is h, 1 - e^-h and its log, growth, decay."""
    return _call("cir", key, offset, shape, log_theta, a, *step, prefix=prefix, width=width)


def choose(
    weights: jax.Array, u: jax.Array, *, prefix: str | None = None, width: int = 16
) -> jax.Array:
    """Choose as `categorical.choose` does, in float32."""
    call = _function("choose", prefix, jax.ShapeDtypeStruct(u.shape, jnp.int32))
    return call(weights, u, width=np.int64(width))


def normalise(
    log_weights: jax.Array, *, prefix: str | None = None, width: int = 16
) -> tuple[jax.Array, jax.Array]:
    """Compute what `dirichlet.normalise` does, in float32."""
    results = (
        jax.ShapeDtypeStruct(log_weights.shape, jnp.float32),
        jax.ShapeDtypeStruct((*log_weights.shape[:-1], 1), jnp.float32),
    )
    call = _function("normalise", prefix, results)
    log_p, log_total = call(log_weights, width=np.int64(width))
    return log_p, log_total


def pass_tables(
    keys: jax.Array,
    counts: jax.Array,
    position: jax.Array,
    base: jax.Array,
    time: jax.Array,
    total: jax.Array,
    parents: jax.Array,
    *,
    prefix: str | None = None,
    width: int = 16,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Pass tables to parents and the base as `dirichlet_paths` does, in float32.

    `keys` are words [T, 3, 2]. Returns customers, tables at the base, and sums [..., T, 3].
    """
    results = [
        jax.ShapeDtypeStruct(shape, jnp.float32)
        for shape in (position.shape, base.shape, (*time.shape, 3))
    ]
    call = _function("pass_tables", prefix, results, PATHS)
    customers, base_tables, sums = call(
        keys, counts, position, base, time, total, parents, width=np.int64(width)
    )
    return customers, base_tables, sums


def draw_vectors(
    keys: jax.Array,
    customers: jax.Array,
    base: jax.Array,
    time: jax.Array,
    total: jax.Array,
    parents: jax.Array,
    *,
    prefix: str | None = None,
    width: int = 16,
) -> jax.Array:
    """Draw vectors given customers as `dirichlet_paths` does, in float32, with keys [T, 2]."""
    call = _function(
        "draw_vectors", prefix, jax.ShapeDtypeStruct(customers.shape, jnp.float32), PATHS
    )
    return call(keys, customers, base, time, total, parents, width=np.int64(width))


def move_paths(
    counts: jax.Array,
    position: jax.Array,
    base: jax.Array,
    c: jax.Array,
    r: jax.Array,
    factors: jax.Array,
    limits: jax.Array,
    gaps: jax.Array,
    parents: jax.Array,
    prior: jax.Array,
    *,
    prefix: str | None = None,
    width: int = 16,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Move c and r given the vectors as `dirichlet_paths` does, in float32.

    `prior` is the scale of c^-1/2, the mean and the standard deviation of log r.
    """
    call = _function("move_paths", prefix, [jax.ShapeDtypeStruct(c.shape, jnp.float32)] * 3, PATHS)
    c, r, accepted = call(
        counts, position, base, c, r, factors, limits, gaps, parents, prior, width=np.int64(width)
    )
    return c, r, accepted


def _function(name: str, prefix: str | None, results: Any, library: Library = LIBRARY) -> Callable:
    return library.call(name, results, vmap_method="broadcast_all", prefix=prefix)


def _call(
    name: str,
    key: jax.Array,
    offset: ArrayLike,
    shape: tuple[int, ...],
    *parameters: jax.Array,
    prefix: str | None,
    width: int,
) -> jax.Array:
    """Call the library. `width`, of vectors, is for tests; results do not depend on it."""
    call = _function(name, prefix, jax.ShapeDtypeStruct((math.prod(shape),), jnp.float32))
    flat = [_period(parameter, shape) for parameter in parameters]
    begin = bits.offset_of(offset).reshape(1)
    return call(bits.key_words(key), begin, *flat, width=np.int64(width)).reshape(shape)


def _period(parameter: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Return a parameter as a vector whose repetition fills the shape."""
    if parameter.size == 1:
        return parameter.reshape(1)
    if parameter.shape != shape[len(shape) - parameter.ndim :]:
        parameter = jnp.broadcast_to(parameter, shape)
    return parameter.ravel()
