"""Minibatch streams: pure functions `(key, step) -> batch`, traced inside the sampling loop.

A batch depends only on the key and the step, so there is no iterator to save: a resumed run sees
the same batches. Streams cost O(batch size) a step, whatever the size of the data, and are pytrees:
data are passed to jitted code as arguments.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.base import Batch, PyTree, bind, static
from simplex_jax._src.draws.bits import use_up
from simplex_jax._src.draws.keys import by_native_code, fold_in

Stream: TypeAlias = Callable[[jax.Array, jax.Array], Batch]

# Four rounds make a pseudo-random permutation of a large set (Luby and Rackoff 1988), but eight are
# visibly too few for permutations of five items; sixteen pass all tests here.
_ROUNDS = 16


class Indexed(NamedTuple):
    """Data with their indices, for estimators with a memory of each datum.

    Attributes:
        ids: Indices of the data, int32 [n].
        data: The data, leaves [n, ...].
    """

    ids: jax.Array
    data: PyTree


def indexed(data: PyTree) -> Indexed:
    """Number the data, leaves [N, ...], from 0; a stream of it yields `Indexed` batches.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches
        >>> stream = batches.full(batches.indexed(jnp.array([7, 8])))
        >>> batch = stream(jax.random.key(0), 0)
        >>> batch.ids.tolist(), batch.data.tolist()
        ([0, 1], [7, 8])
    """
    return Indexed(jnp.arange(length(data), dtype=jnp.int32), data)


class Visit(NamedTuple):
    """A batch with a flag for something done at intervals.

    Attributes:
        batch: The batch.
        now: Whether to do it before this update, bool. It is in the batch, not the state, so that
            parallel chains decide once.
    """

    batch: Batch
    now: jax.Array


def visits(stream: Stream, every: int, first: int = 0) -> Stream:
    """Return the batches of a stream as a `Visit`, due at each multiple of `every` from `first` on.

    Args:
        stream: A stream of batches.
        every: Number of updates between two visits, positive.
        first: Earliest update for a visit.

    Raises:
        ValueError: A number is out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches
        >>> stream = batches.visits(batches.uniform(jnp.arange(9), 2), every=3, first=1)
        >>> [bool(stream(jax.random.key(0), step).now) for step in range(4)]
        [False, False, False, True]
    """
    every, first = arguments.at_least("every", every, 1), arguments.at_least("first", first, 0)
    return bind(static(_visits, every=every, first=first), stream)


def _visits(stream: Stream, key: jax.Array, step: jax.Array, *, every: int, first: int) -> Visit:
    return Visit(stream(key, step), jnp.logical_and(step >= first, step % every == 0))


def none(key: jax.Array, step: jax.Array) -> Batch:
    """Yield no data, for kernels whose density or gradient holds what it needs.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, run
        >>> from simplex_jax.samplers import barker
        >>> kernel = barker.build(lambda x: -(x**2).sum() / 2, step_size=1.0)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(3))
        >>> state, trace = run(jax.random.key(1), kernel, state, batches.none, 100)
        >>> trace.shape
        (100, 3)
    """
    del key, step


def full(data: PyTree) -> Stream:
    """Yield all the data at every step.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches
        >>> stream = batches.full(jnp.arange(3))
        >>> stream(jax.random.key(0), 7).tolist()
        [0, 1, 2]
    """
    length(data)
    return bind(_full, on_device(data))


def _full(data: PyTree, key: jax.Array, step: jax.Array) -> Batch:
    return data


def uniform(data: PyTree, batch_size: int, replace: bool = True) -> Stream:
    """Yield independent uniform batches.

    Args:
        data: Leaves [N, ...].
        batch_size: Number of data in a batch.
        replace: Draw with replacement, as in the SCIR paper, or without.

    Returns:
        A stream of batches, leaves [batch_size, ...].

    Raises:
        ValueError: `batch_size` is not positive, or above N without replacement, or the leaves
            differ in length.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches
        >>> stream = batches.uniform(jnp.arange(5), 5, replace=False)
        >>> sorted(stream(jax.random.key(0), 3).tolist())
        [0, 1, 2, 3, 4]
    """
    batch_size = _checked_batch_size(batch_size, None if replace else length(data))
    options = {"size": length(data), "batch_size": batch_size, "replace": replace}
    return bind(static(_uniform, **options), on_device(data))


def _uniform(
    data: PyTree, key: jax.Array, step: jax.Array, *, size: int, batch_size: int, replace: bool
) -> Batch:
    key = by_native_code(fold_in(key, step))
    if replace:
        index = jax.random.randint(key, (batch_size,), 0, size)
    else:
        index = permutation(key, jnp.arange(batch_size), size)
    return _take(data, index)


def shuffled(data: PyTree, batch_size: int) -> Stream:
    """Yield the data in epochs, each in a new order.

    An epoch has ceil(N / batch_size) batches. If the batch size does not divide N, the last batch
    is filled with the first data of the same epoch: every datum occurs at least once in an epoch,
    no batch holds a datum twice, and each batch by itself is a uniform subset. Batches of one epoch
    are negatively dependent, which theory for independent batches does not cover.

    Args:
        data: Leaves [N, ...].
        batch_size: Number of data in a batch, at most N.

    Returns:
        A stream of batches, leaves [batch_size, ...].

    Raises:
        ValueError: `batch_size` is not between 1 and N, or the leaves differ in length.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches
        >>> stream = batches.shuffled(jnp.arange(4), 2)
        >>> epoch = [stream(jax.random.key(0), step) for step in (2, 3)]
        >>> sorted(jnp.concatenate(epoch).tolist())
        [0, 1, 2, 3]
    """
    batch_size = _checked_batch_size(batch_size, length(data))
    options = {"size": length(data), "batch_size": batch_size}
    return bind(static(_shuffled, **options), on_device(data))


def _shuffled(
    data: PyTree, key: jax.Array, step: jax.Array, *, size: int, batch_size: int
) -> Batch:
    batches = -(-size // batch_size)
    epoch, place = jnp.divmod(step, batches)
    rank = place * batch_size + jnp.arange(batch_size)
    rank = jnp.where(rank < size, rank, rank - size)
    key = by_native_code(fold_in(key, epoch))
    return _take(data, permutation(key, rank, size))


def permutation(key: jax.Array, index: jax.Array, size: int) -> jax.Array:
    """Map indices by a keyed pseudo-random permutation of 0..size-1, at O(1) per index.

    A Feistel network on pairs (a, b), each with a range of about sqrt(size); the few values beyond
    `size` follow their cycle back into range (Black and Rogaway 2002). As far as tests can tell,
    single indices, pairs and orders of up to six are uniform; but 16 words of key cannot reach all
    `size!` permutations of large sets, and this is not cryptography. `jax.random.permutation` sorts
    all `size` values instead.

    Args:
        key: A PRNG key.
        index: Integers in 0..size-1.
        size: Size of the set, up to 2^31 - 1.

    Returns:
        The image of every index, int32.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax._src import batches
        >>> image = batches.permutation(jax.random.key(0), jnp.arange(1000), 1000)
        >>> sorted(image.tolist()) == list(range(1000))
        True
    """
    if size == 1:  # as where a batch has all data
        use_up(key)
        return jnp.zeros_like(index, jnp.int32)
    left = math.isqrt(size - 1) + 1
    right = -(-size // left)
    round_keys = jax.random.bits(key, (_ROUNDS,), jnp.uint32)

    def network(x: jax.Array) -> jax.Array:
        a, b = x // right, x % right
        for i in range(0, _ROUNDS, 2):
            a = (a + _scramble(b ^ round_keys[i]) % left) % left
            b = (b + _scramble(a ^ round_keys[i + 1]) % right) % right
        return a * right + b

    # A cycle that starts in the range returns to it, so the loop ends.
    return jax.lax.while_loop(
        lambda x: jnp.any(x >= size),
        lambda x: jnp.where(x >= size, network(x), x),
        network(jnp.asarray(index).astype(jnp.uint32)),
    ).astype(jnp.int32)


def _scramble(x: jax.Array) -> jax.Array:
    """Mix the bits of uint32 values (the finaliser of MurmurHash3, in the public domain)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def _take(data: PyTree, index: jax.Array) -> Batch:
    return jax.tree.map(lambda leaf: leaf[index], data)


def on_device(data: PyTree) -> PyTree:
    """Return data with JAX arrays as leaves, or raise a ValueError if a leaf cannot be converted.

    Without `jax_enable_x64` JAX silently takes integers modulo 2^32.
    """
    return jax.tree.map(_array, data)


def _array(leaf: ArrayLike) -> jax.Array:
    try:
        array = jnp.asarray(leaf)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "data must be arrays of numbers, for a sparse table what its toarray() returns; "
            f"{type(leaf).__name__} is not one: {error}"
        ) from None
    wide = not isinstance(leaf, jax.Array) and jnp.issubdtype(array.dtype, jnp.integer)
    if wide and array.dtype.itemsize < np.asarray(leaf).dtype.itemsize:
        bounds = np.iinfo(array.dtype)
        if np.min(leaf) < bounds.min or np.max(leaf) > bounds.max:
            raise ValueError(
                f"data must be whole numbers from {bounds.min} to {bounds.max}, the range of "
                f"{array.dtype}; they are from {np.min(leaf)} to {np.max(leaf)}: give floats, or "
                "set jax_enable_x64"
            )
    return array


def length(data: PyTree, name: str = "data") -> int:
    """Return the number of data, or raise a ValueError if there are none or the leaves disagree."""
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(data)]
    if not shapes:
        raise ValueError(
            f"{name} must have arrays, and there are none: batches.none and SGMCMC give no batch, "
            "so functions of one, such as gradients.fisher(...), cannot be used with them"
        )
    lengths = {shape[0] if shape else None for shape in shapes}
    if lengths == {0}:
        raise ValueError(f"{name} must not be empty; the shapes are {shapes}")
    if len(lengths) != 1 or None in lengths:
        raise ValueError(
            f"{name} must have arrays of one length along their first axis; the shapes are {shapes}"
        )
    return shapes[0][0]


def _checked_batch_size(batch_size: int, limit: int | None) -> int:
    # Arrays of one number are integers too, but cannot be hashed.
    batch_size = arguments.at_least("batch_size", batch_size, 1)
    if limit is not None and batch_size > limit:
        raise ValueError(f"batch_size {batch_size} is larger than the data: give at most {limit}")
    return batch_size
