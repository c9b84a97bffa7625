"""The corpus on the device: tokens in compressed rows, and batches of documents out of them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax

from simplex_jax import batches

# Tokens that are worked on at once where all tokens of some documents are visited.
CHUNK = 16_384

# Counts of a document are float32, which counts exactly up to here.
_LONGEST = 2**24

# Places up to a chunk beyond the last token must be int32 as well.
MOST_TOKENS = 2**31 - 1 - CHUNK


class DeviceCorpus(NamedTuple):
    """All tokens of a corpus, document after document, shortest document first.

    Nothing is padded and nothing is dropped. Neighbouring documents are about equally long, so
    that documents side by side in a batch end at about the same position.
    """

    # Word of every token, int32 [T]. A corpus without tokens has one that belongs to no document.
    tokens: jax.Array
    starts: jax.Array  # first token of every document, and their end, int32 [D + 1]
    order: jax.Array  # row of every document in the counts that it came from, int32 [D]


class Documents(NamedTuple):
    """Some documents of a corpus, side by side."""

    tokens: jax.Array  # word of every token of the corpus, int32 [T]
    starts: jax.Array  # first token of each document, int32 [B]
    lengths: jax.Array  # number of its tokens, int32 [B]; 0 for padding
    # Number of the document, int32 [B], which seeds its random numbers; None for 0..B-1
    ids: jax.Array | None = None


def to_device(counts: sp.csr_array) -> DeviceCorpus:
    """Write out the tokens of a table of counts [D, V].

    No documents, one of more than 2^24 tokens, or more tokens than int32 can number, are a
    ValueError.
    """
    counts = sp.csr_array(counts)
    lengths = np.asarray(counts.sum(axis=1), dtype=np.int64)
    if lengths.size == 0:
        raise ValueError("counts must have at least one document")
    if lengths.sum() > MOST_TOKENS:
        raise ValueError(
            f"counts must have at most {MOST_TOKENS} tokens; they have {lengths.sum()}"
        )
    if lengths.max() > _LONGEST:
        raise ValueError(
            f"document {lengths.argmax()} has {lengths.max()} tokens, and at most {_LONGEST} can "
            "be counted: split it"
        )
    order = np.argsort(lengths, kind="stable")
    ordered = counts[order]
    tokens = np.repeat(ordered.indices, ordered.data).astype(np.int32)
    if tokens.size == 0:
        tokens = np.zeros(1, np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int32)
    return DeviceCorpus(
        jnp.asarray(tokens), jnp.asarray(starts), jnp.asarray(order.astype(np.int32))
    )


def deal(corpus: DeviceCorpus, shards: int) -> DeviceCorpus:
    """Deal the documents out in turn, so that all shards are about equally long.

    The arrays get a leading axis of shards. Shorter shards end in documents without tokens.
    """
    tokens, starts, order = (np.asarray(leaf) for leaf in corpus)
    per_shard = -(-order.size // shards)
    flat = np.zeros(per_shard * shards, np.int64)
    flat[: order.size] = np.diff(starts)
    ends = np.zeros((shards, per_shard + 1), np.int32)
    ends[:, 1:] = np.cumsum(flat.reshape(per_shard, shards).T, axis=1)
    rows = np.zeros((shards, max(1, int(ends[:, -1].max()))), np.int32)
    owner = np.repeat(np.arange(order.size) % shards, np.diff(starts))
    for shard, end in enumerate(ends[:, -1]):
        rows[shard, :end] = tokens[: owner.size][owner == shard]
    numbers = np.full(per_shard * shards, -1, np.int32)
    numbers[: order.size] = order
    return DeviceCorpus(
        jnp.asarray(rows), jnp.asarray(ends), jnp.asarray(numbers.reshape(per_shard, shards).T)
    )


def size(corpus: DeviceCorpus) -> int:
    """Return the number of documents."""
    return corpus.order.shape[0]


def select(corpus: DeviceCorpus, ids: jax.Array) -> Documents:
    """Return documents by their place in the device corpus, int32 [B]; ids from D on are empty."""
    starts = corpus.starts.at[ids].get(mode="clip")
    ends = corpus.starts.at[ids + 1].get(mode="clip")
    return Documents(corpus.tokens, starts, ends - starts, ids)


def blocks(documents: int, batch_size: int) -> jax.Array:
    """Return the ids of all D documents in blocks of neighbours, int32 [blocks, batch_size].

    Ids from D on pad the last block.
    """
    count = -(-documents // batch_size)
    return jnp.arange(count * batch_size, dtype=jnp.int32).reshape(count, batch_size)


def block_stream(documents: int, batch_size: int) -> batches.Stream:
    """Yield blocks of documents of about equal length, all of them once an epoch, in random order.

    For estimators that remember the whole corpus, to which a batch need not be representative.
    """
    stream = batches.shuffled(blocks(documents, batch_size), 1)
    return batches.bind(_only, stream)


def _only(stream: batches.Stream, key: jax.Array, step: jax.Array) -> jax.Array:
    return stream(key, step)[0]


def uniform_stream(corpus: DeviceCorpus, batch_size: int) -> batches.Stream:
    """Yield uniform subsets of distinct documents, for estimators that scale a batch up."""
    return batches.uniform(jnp.arange(size(corpus), dtype=jnp.int32), batch_size, replace=False)


def token_slots(documents: Documents, first: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Return the places of the tokens `first` to `first + count` - 1 of all of the documents.

    The places are those in `documents.tokens`, int32 [count], T beyond the last token; with them
    comes the document of each token, 0..B-1, int32 [count].
    """
    ends = jnp.cumsum(documents.lengths)
    offset = jnp.maximum(ends - first, 0)
    marks = jnp.zeros(count, jnp.int32).at[offset].add(1, mode="drop")
    document = jnp.minimum(jnp.cumsum(marks), documents.lengths.shape[0] - 1)
    number = first + lax.iota(jnp.int32, count)
    place = documents.starts[document] + number - (ends - documents.lengths)[document]
    return jnp.where(number < ends[-1], place, documents.tokens.shape[0]), document


def capacity(corpus: DeviceCorpus, batch_size: int) -> int:
    """Return the number of tokens of the `batch_size` longest documents, at least 1."""
    starts = np.asarray(corpus.starts)
    return max(1, int(starts[-1] - starts[max(0, size(corpus) - batch_size)]))


def compact(documents: Documents, room: int) -> Documents:
    """Copy the tokens of distinct documents side by side into an array of length `room`."""
    starts = jnp.cumsum(documents.lengths) - documents.lengths
    total = jnp.sum(documents.lengths)
    step = min(room, CHUNK)

    def chunk(state):
        first, tokens = state
        place, _ = token_slots(documents, first, step)
        word = documents.tokens.at[place].get(mode="clip")
        number = first + lax.iota(jnp.int32, step)
        return first + step, tokens.at[number].set(word, mode="drop")

    start = (jnp.int32(0), jnp.zeros(room, jnp.int32))
    _, tokens = lax.while_loop(lambda state: state[0] < total, chunk, start)
    return documents._replace(tokens=tokens, starts=starts)
