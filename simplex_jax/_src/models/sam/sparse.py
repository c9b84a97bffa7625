"""Sparse unit vectors on the device, and dense rows of a selection of them."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax

from simplex_jax._src import arguments, batches
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus

# Tolerance of the length of a document: vectors in files are printed with few digits.
_TOLERANCE = 1e-3

ROUNDING = 1e-6
"""The sum of documents is zero up to rounding if its length per document is below this."""

# Entries in the dense rows of a block of documents: a block should fit a core's cache, but there
# should be few blocks.
_BLOCK = 1 << 20

Sum = TypeVar("Sum")


class UnitDocuments(NamedTuple):
    """Sparse unit vectors on the device, shortest document first.

    There is no padding: memory is 8 bytes per nonzero.
    """

    # positions of the nonzeros, with a word per nonzero instead of per token
    corpus: DeviceCorpus
    values: jax.Array  # the nonzeros, float32 [T]


def to_device(vectors: sp.csr_array) -> UnitDocuments:
    """Put documents on the device, the unit vectors of a sparse or dense table [D, V].

    Lengths within 1e-3 of 1 are normalised. An empty table, or a row that is zero, not finite or
    not of unit length, raises a ValueError that names the row.
    """
    vectors = sp.csr_array(vectors, dtype=np.float64, copy=True)
    if vectors.shape[0] == 0:
        raise ValueError("vectors must have at least one document")
    vectors.sum_duplicates()
    vectors.eliminate_zeros()
    sizes = np.diff(vectors.indptr)
    rows = np.repeat(np.arange(sizes.size), sizes)
    lengths = np.sqrt(np.bincount(rows, vectors.data**2, minlength=sizes.size))
    for row in np.flatnonzero(~(np.abs(lengths - 1) <= _TOLERANCE)):
        if lengths[row] == 0:
            raise ValueError(f"document {row} is zero and has no direction: leave it out")
        if not math.isfinite(lengths[row]):
            raise ValueError(f"document {row} has values that are not finite")
        raise ValueError(
            f"document {row} has length {lengths[row]:.6g}; unit vectors are needed: divide it by "
            "its length"
        )
    if vectors.nnz > 2**31 - 1 - device.CHUNK:
        raise ValueError(f"vectors must have fewer nonzeros than 2^31; they have {vectors.nnz}")
    order = np.argsort(sizes, kind="stable")
    vectors.data /= lengths[rows]
    ordered = vectors[order]
    corpus = DeviceCorpus(
        jnp.asarray(ordered.indices.astype(np.int32)),
        jnp.asarray(ordered.indptr.astype(np.int32)),
        jnp.asarray(order.astype(np.int32)),
    )
    return UnitDocuments(corpus, jnp.asarray(ordered.data.astype(np.float32)))


def size(documents: UnitDocuments) -> int:
    """Return the number of documents."""
    return device.size(documents.corpus)


def check_words(documents: UnitDocuments, vocabulary: int) -> None:
    """Raise a ValueError if documents have words from `vocabulary` on, which `rows` drops."""
    last = int(np.asarray(documents.corpus.tokens).max())
    if last >= vocabulary:
        raise ValueError(
            f"documents have word {last}, and there are {vocabulary} words: take both from one "
            "vocabulary"
        )


def check_shape(documents: UnitDocuments, shape: Sequence[int]) -> tuple[int, int]:
    """Return the shape (K, V) of topics, or raise a ValueError.

    There must be at least one topic and at most one per word, and every word of the documents must
    be below V.
    """
    if len(shape) != 2:
        raise ValueError(f"shape must be (K, V); it is {shape!r}")
    topics = arguments.at_least("shape[0]", shape[0], 1)
    words = arguments.at_least("shape[1]", shape[1], 2)
    if topics > words:
        raise ValueError(f"shape has {topics} topics of {words} words: give at most {words} topics")
    check_words(documents, words)
    return topics, words


def rows(documents: UnitDocuments, ids: jax.Array, vocabulary: int) -> jax.Array:
    """Return the documents `ids`, distinct int32 [B], as float32 [B, V]; zeros for ids from D on.

    For usual vocabularies a dense product costs no more than a sparse one, and needs no more memory
    than the topics. `documents.corpus.order` has their rows in the original table.
    """
    chosen = device.select(documents.corpus, jnp.asarray(ids))
    mean = documents.values.shape[0] / size(documents)
    step = min(device.CHUNK, documents.values.shape[0], int(1.25 * mean * len(ids)) + 64)
    total = jnp.sum(chosen.lengths)

    def chunk(loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        first, table = loop
        place, owner = device.token_slots(chosen, first, step)
        word = chosen.tokens.at[place].get(mode="fill", fill_value=vocabulary)
        value = documents.values.at[place].get(mode="clip")
        return first + step, table.at[owner, word].set(value, mode="drop")

    empty = jnp.zeros((len(ids), vocabulary), documents.values.dtype)
    return lax.while_loop(lambda loop: loop[0] < total, chunk, (jnp.int32(0), empty))[1]


def uniform_stream(documents: UnitDocuments, batch_size: int) -> batches.Stream:
    """Return the stream of uniform subsets of distinct documents, indices int32 [batch_size].

    A batch of all documents has their indices in order.
    """
    if batch_size == size(documents):
        return batches.full(jnp.arange(batch_size, dtype=jnp.int32))
    return device.uniform_stream(documents.corpus, batch_size)


def block_size(batch_size: int, vocabulary: int) -> int:
    """Return how many documents of a batch to process together."""
    return max(1, min(batch_size, _BLOCK // vocabulary))


def blocks(places: jax.Array, length: int, fill: int) -> jax.Array:
    """Split an array [B, ...] into blocks, [blocks, length, ...], padded with `fill`."""
    count = -(-places.shape[0] // length)
    padding = [(0, count * length - places.shape[0])] + [(0, 0)] * (places.ndim - 1)
    padded = jnp.pad(places, padding, constant_values=fill)
    return padded.reshape(count, length, *places.shape[1:])


def add_up(function: Callable[..., Sum], *blocked: jax.Array) -> Sum:
    """Sum a function over blocks, sequentially."""
    if blocked[0].shape[0] == 1:
        return function(*(array[0] for array in blocked))
    shapes = jax.eval_shape(function, *(array[0] for array in blocked))
    start = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    def block(total: Sum, arrays: tuple[jax.Array, ...]) -> tuple[Sum, None]:
        return jax.tree.map(jnp.add, total, function(*arrays)), None

    return lax.scan(block, start, blocked)[0]


def mean_direction(documents: UnitDocuments, vocabulary: int) -> jax.Array:
    """Return the normalised sum of the documents, float32 [V].

    Raises:
        ValueError: The documents have words from `vocabulary` on, or their sum is zero.
    """
    check_words(documents, vocabulary)
    words = np.asarray(documents.corpus.tokens)
    total = np.bincount(words, np.asarray(documents.values, np.float64), minlength=vocabulary)
    length = np.linalg.norm(total)
    if not length > ROUNDING * size(documents):
        raise ValueError("the documents sum to zero and have no mean direction: give one")
    return jnp.asarray((total / length).astype(np.float32))
