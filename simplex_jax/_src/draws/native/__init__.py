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


# The functions take a `variant` for tests: the `prefix` of the names of another library, and the
# `width` of vectors, on which results do not depend.


def hash_pairs(key_words: jax.Array, first: jax.Array, *, size: int, **variant: Any) -> jax.Array:
    """Hash as `bits.threefry2x32` does: counters (0, first), (0, first + 1), ..., [size, 2]."""
    pairs = jax.ShapeDtypeStruct((size, 2), jnp.uint32)
    return _run("hash", pairs, key_words, first.reshape(1), **variant)


def loggamma(
    key: jax.Array, a: jax.Array, offset: jax.Array, shape: tuple[int, ...], **variant: Any
) -> jax.Array:
    """Draw as `draws.loggamma` does, in float32."""
    return _draw("loggamma", key, offset, shape, a, **variant)


def poisson(key: jax.Array, rate: jax.Array, shape: tuple[int, ...], **variant: Any) -> jax.Array:
    """Draw as `draws.poisson` does, in float32."""
    return _draw("poisson", key, 0, shape, rate, **variant)


def cir(
    key: jax.Array,
    log_theta: jax.Array,
    a: jax.Array,
    step: tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array],
    offset: jax.Array,
    shape: tuple[int, ...],
    **variant: Any,
) -> jax.Array:
    """Draw as `draws.cir` does, in float32; `step` is h, 1 - e^-h and its log, growth, decay."""
    return _draw("cir", key, offset, shape, log_theta, a, *step, **variant)


def choose(weights: jax.Array, u: jax.Array, **variant: Any) -> jax.Array:
    """Choose as `categorical.choose` does, in float32."""
    return _run("choose", jax.ShapeDtypeStruct(u.shape, jnp.int32), weights, u, **variant)


def normalise(log_weights: jax.Array, **variant: Any) -> tuple[jax.Array, jax.Array]:
    """Compute what `gamma.normalise` does, in float32."""
    shape = log_weights.shape
    results = _floats(shape), _floats((*shape[:-1], 1))
    log_p, log_total = _run("normalise", results, log_weights, **variant)
    return log_p, log_total


def pass_tables(
    keys: jax.Array,
    counts: jax.Array,
    position: jax.Array,
    base: jax.Array,
    time: jax.Array,
    total: jax.Array,
    parents: jax.Array,
    **variant: Any,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Pass tables to parents and the base as `dirichlet_paths` does, in float32.

    `keys` are words [T, 3, 2]. Returns customers, tables at the base, and sums [..., T, 3].
    """
    results = [_floats(shape) for shape in (position.shape, base.shape, (*time.shape, 3))]
    inputs = keys, counts, position, base, time, total, parents
    customers, tables, sums = _run("pass_tables", results, *inputs, library=PATHS, **variant)
    return customers, tables, sums


def draw_vectors(
    keys: jax.Array,
    customers: jax.Array,
    base: jax.Array,
    time: jax.Array,
    total: jax.Array,
    parents: jax.Array,
    **variant: Any,
) -> jax.Array:
    """Draw vectors given customers as `dirichlet_paths` does, in float32, with keys [T, 2]."""
    inputs = keys, customers, base, time, total, parents
    return _run("draw_vectors", _floats(customers.shape), *inputs, library=PATHS, **variant)


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
    **variant: Any,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Move c and r given the vectors as `dirichlet_paths` does, in float32.

    `prior` is the scale of c^-1/2, the mean and the standard deviation of log r.
    """
    inputs = counts, position, base, c, r, factors, limits, gaps, parents, prior
    results = [_floats(c.shape)] * 3
    c, r, accepted = _run("move_paths", results, *inputs, library=PATHS, **variant)
    return c, r, accepted


def lowered_paths(call: str, by_native: Callable, by_xla: Callable, *given: jax.Array) -> Any:
    """Call the one of two functions that suits the platform; the first is for float32 only."""
    if given[1].dtype != jnp.float32:
        return by_xla(*given)
    PATHS.warn_if_old()
    return PATHS.lowered(call, by_native, by_xla, *given)


def _floats(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _run(
    name: str,
    results: Any,
    *inputs: jax.Array,
    library: Library = LIBRARY,
    prefix: str | None = None,
    width: int = 16,
) -> Any:
    """Return the results of a call of a library, of these shapes and dtypes."""
    call = library.call(name, results, vmap_method="broadcast_all", prefix=prefix)
    return call(*inputs, width=np.int64(width))


def _draw(
    name: str,
    key: jax.Array,
    offset: ArrayLike,
    shape: tuple[int, ...],
    *parameters: jax.Array,
    **variant: Any,
) -> jax.Array:
    """Return draws of a shape, from the words of a key that begin at an offset."""
    flat = [_period(parameter, shape) for parameter in parameters]
    words, begin = bits.key_words(key), bits.offset_of(offset).reshape(1)
    return _run(name, _floats((math.prod(shape),)), words, begin, *flat, **variant).reshape(shape)


def _period(parameter: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Return a parameter as a vector whose repetition fills the shape."""
    if parameter.size == 1:
        return parameter.reshape(1)
    if parameter.shape != shape[len(shape) - parameter.ndim :]:
        parameter = jnp.broadcast_to(parameter, shape)
    return parameter.ravel()
