"""The corpus on the device: tokens in compressed rows, and batches of documents."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from simplex_jax._src import batches

# Tokens processed at once in a pass over all tokens of some documents: few enough for the cache of
# a CPU core, and many on an accelerator, where each operation has launch overhead.
CHUNK, _CHUNK_ELSEWHERE = 16_384, 2**20

# Counts of a document are float32, exact up to here.
_LONGEST = 2**24

# Tokens read at once from a corpus on the host, at about 50 bytes of memory each.
_READ = 2**21

# Positions up to a chunk beyond the last token must fit into int32 too.
MOST_TOKENS = 2**31 - 1 - _CHUNK_ELSEWHERE


class DeviceCorpus(NamedTuple):
    """All tokens of a corpus, document after document, shortest document first.

    Nothing is padded or dropped. Neighbouring documents have similar lengths, so those of a batch
    end at about the same position.
    """

    # Word of every token, int32 [T]. An empty corpus has one token, which belongs to no document.
    tokens: jax.Array
    starts: jax.Array  # first token of every document, and the end, int32 [D + 1]
    order: jax.Array  # row of every document in the original counts, int32 [D]


class Documents(NamedTuple):
    """Some documents of a corpus, side by side."""

    tokens: jax.Array  # word of every token of the corpus, int32 [T]
    starts: jax.Array  # first token of each document, int32 [B]
    lengths: jax.Array  # number of its tokens, int32 [B]; 0 for padding
    # Ids of the documents, int32 [B], which seed their random numbers; None for 0..B-1
    ids: jax.Array | None = None


class Pages(NamedTuple):
    """The layout of documents in device order, whose batches are copied to the device in turn."""

    order: np.ndarray  # row of every document, int64 [D]
    starts: np.ndarray  # first token of every document, and the end, int64 [D + 1]
    room: int  # tokens of the largest batch

    def place(self, ids: np.ndarray) -> slice:
        """Return the positions of the tokens of a block; see `blocks`."""
        return slice(*(int(self.starts[min(i, len(self.order))]) for i in (ids[0], ids[-1] + 1)))

    def documents(self, ids: np.ndarray, tokens: jax.Array) -> Documents:
        """Return the documents of a block, whose tokens are at the start of an array [room]."""
        ends = np.minimum(ids[:, None] + [0, 1], len(self.order))
        first, last = (self.starts[ends] - self.place(ids).start).T.astype(np.int32)
        starts, lengths, numbers = map(jnp.asarray, (first, last - first, ids.astype(np.int32)))
        return Documents(tokens, starts, lengths, numbers)


class HostCorpus(NamedTuple):
    """Documents in host memory or on disk, to be copied to devices."""

    lengths: np.ndarray  # tokens of every document, int64 [D]
    # `numbers of documents [n] -> their tokens`, int32, document after document
    read: Callable[[np.ndarray], np.ndarray]


def on_host(counts: sp.csr_array) -> HostCorpus:
    """Return the documents of a table of counts [D, V]."""
    counts = sp.csr_array(counts)

    def read(numbers: np.ndarray) -> np.ndarray:
        rows = counts[numbers]
        return np.repeat(rows.indices, rows.data)

    return HostCorpus(np.asarray(counts.sum(axis=1), dtype=np.int64), read)


def to_device(corpus: sp.csr_array | HostCorpus) -> DeviceCorpus:
    """Copy the tokens of documents, or of a table of counts [D, V], to the device.

    Raises a ValueError if there is no document, if one has more than 2^24 tokens, or if there are
    more tokens than int32 can index.
    """
    host = corpus if isinstance(corpus, HostCorpus) else on_host(corpus)
    order = in_order(host.lengths)
    starts, room = _starts(host.lengths[order], 1)
    return DeviceCorpus(
        jax.device_put(_tokens(host, order, room)),
        jax.device_put(starts[0]),
        jax.device_put(order.astype(np.int32)),
    )


def deal(corpus: HostCorpus, mesh: Mesh) -> DeviceCorpus:
    """Deal documents out to the devices of a mesh in turn, about the same number of tokens to each.

    The arrays have a leading axis of shards, one per device; a process reads only the documents of
    its own devices. Shorter shards end in empty documents. Errors are those of `to_device`; the
    limit of int32 applies to each device.
    """
    shards, sharding = mesh.size, NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    order = in_order(corpus.lengths)
    starts, room = _starts(corpus.lengths[order], shards)
    numbers = np.full(starts.shape[0] * (starts.shape[1] - 1), -1, np.int32)
    numbers[: order.size] = order

    def spread(shape: tuple[int, ...], shard: Callable[[int], np.ndarray]) -> jax.Array:
        def part(index: Any) -> np.ndarray:
            return np.stack([shard(row) for row in range(shards)[index[0]]])

        return jax.make_array_from_callback(shape, sharding, part)

    return DeviceCorpus(
        spread((shards, room), lambda shard: _tokens(corpus, order[shard::shards], room)),
        spread(starts.shape, lambda shard: starts[shard]),
        spread((shards, starts.shape[1] - 1), lambda shard: numbers[shard::shards]),
    )


def pages(lengths: np.ndarray, batch_size: int) -> Pages:
    """Return the pages of documents of these lengths, for blocks of `batch_size`.

    Errors are those of `to_device`; the limit of int32 applies to each batch.
    """
    order = in_order(lengths)
    starts = np.concatenate([[0], np.cumsum(lengths[order])])
    longest = np.diff(starts[np.r_[0 : order.size : batch_size, order.size]]).max()
    return Pages(order, starts, room_of_batch(batch_size, longest))


def room_of_batch(batch_size: int, longest: np.integer) -> int:
    """Return the tokens to make room for if the longest batch has this many, at least 1."""
    if longest > MOST_TOKENS:
        raise ValueError(
            f"batch_size {batch_size}: its longest documents have {longest} tokens, and a batch "
            f"holds at most {MOST_TOKENS}; give a smaller one"
        )
    return max(1, int(longest))


def in_order(lengths: np.ndarray) -> np.ndarray:
    """Return the numbers of documents, shortest first, int64 [D]; no document is an error."""
    if lengths.size == 0:
        raise ValueError("counts must have at least one document")
    check_lengths(lengths)
    return np.argsort(lengths, kind="stable")


def check_lengths(lengths: np.ndarray) -> None:
    """Raise a ValueError if a document has more tokens than can be counted."""
    if lengths.max(initial=0) > _LONGEST:
        raise ValueError(
            f"document {lengths.argmax()} has {lengths.max()} tokens, and at most {_LONGEST} can "
            "be counted: split it"
        )


def _starts(lengths: np.ndarray, shards: int) -> tuple[np.ndarray, int]:
    """Return document starts by shard, int32 [shards, n + 1], and the tokens of the largest."""
    per_shard = -(-lengths.size // shards)
    dealt = np.zeros(per_shard * shards, np.int64)
    dealt[: lengths.size] = lengths
    ends = np.zeros((shards, per_shard + 1), np.int64)
    ends[:, 1:] = np.cumsum(dealt.reshape(per_shard, shards).T, axis=1)
    room = max(1, int(ends[:, -1].max()))
    if room > MOST_TOKENS:
        raise ValueError(
            f"counts must have at most {MOST_TOKENS} tokens on a device; they have {room}: share "
            f"them between {-(-int(ends[:, -1].sum()) // MOST_TOKENS)} devices or more"
        )
    return ends.astype(np.int32), room


def _tokens(corpus: HostCorpus, numbers: np.ndarray, room: int) -> np.ndarray:
    """Return the tokens of documents side by side in an array of length `room`, int32."""
    tokens = zeros((room,), np.dtype(np.int32))
    # In the order of the corpus, so that a corpus on disk is read once.
    stored = np.argsort(numbers)
    lengths = corpus.lengths[numbers]
    starts = np.cumsum(lengths) - lengths
    for part, piece in in_pieces(corpus, numbers[stored]):
        places = stored[part]
        tokens[runs(starts[places], lengths[places])] = piece
    return tokens


def zeros(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array of zeros to fill, aligned so that JAX uses it on a CPU without a copy."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + 64, np.uint8)  # room to start at a multiple of 64 bytes
    return memory[-memory.ctypes.data % 64 :][:size].view(dtype).reshape(shape)


def in_pieces(corpus: HostCorpus, numbers: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield a slice of `numbers` at a time, and the tokens of its documents, int32."""
    for part in parts(corpus.lengths[numbers]):
        yield part, corpus.read(numbers[part])


def parts(lengths: np.ndarray) -> Iterator[slice]:
    """Yield slices of documents of these lengths, at most `_READ` tokens or one document each."""
    ends = np.cumsum(lengths)
    first = place = 0
    while first < lengths.size:
        last = max(first + 1, int(np.searchsorted(ends, place + _READ, side="right")))
        yield slice(first, last)
        first, place = last, int(ends[last - 1])


def runs(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the positions in runs of these starts and lengths, run after run, int64.

    Example:
        >>> import numpy as np
        >>> runs(np.array([10, 0]), np.array([2, 3])).tolist()
        [10, 11, 0, 1, 2]
    """
    ends = np.cumsum(lengths)
    places = np.repeat(starts - (ends - lengths), lengths)
    places += np.arange(places.size)
    return places


def size(corpus: DeviceCorpus | Pages) -> int:
    """Return the number of documents."""
    return len(corpus.order)


def select(corpus: DeviceCorpus, ids: jax.Array) -> Documents:
    """Return documents by their index in the device corpus, int32 [B]; ids from D on are empty."""
    starts = corpus.starts.at[ids].get(mode="clip")
    ends = corpus.starts.at[ids + 1].get(mode="clip")
    return Documents(corpus.tokens, starts, ends - starts, ids)


def blocks(documents: int, batch_size: int) -> jax.Array:
    """Return the ids of all D documents in consecutive blocks, int32 [blocks, batch_size].

    Ids from D on pad the last block.
    """
    count = -(-documents // batch_size)
    ids = np.arange(count * batch_size, dtype=np.int32)
    return jax.device_put(ids.reshape(count, batch_size))


def block_stream(documents: int, batch_size: int) -> batches.Stream:
    """Yield blocks of documents of about equal length, each once per epoch, in random order.

    For estimators that remember the whole corpus, which need no representative batches.
    """
    stream = batches.shuffled(blocks(documents, batch_size), 1)
    return batches.bind(_single_block, stream)


def _single_block(stream: batches.Stream, key: jax.Array, step: jax.Array) -> jax.Array:
    return stream(key, step)[0]


def uniform_stream(corpus: DeviceCorpus, batch_size: int) -> batches.Stream:
    """Yield uniform subsets of distinct documents, for estimators that scale a batch up."""
    return batches.uniform(jnp.arange(size(corpus), dtype=jnp.int32), batch_size, replace=False)


def chunk(tokens: int) -> int:
    """Return how many of `tokens` are processed at once."""
    return min(tokens, CHUNK if jax.default_backend() == "cpu" else _CHUNK_ELSEWHERE)


def token_slots(documents: Documents, first: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Return the positions and documents of tokens `first` to `first + count` - 1 of a batch.

    Positions index `documents.tokens`, int32 [count], and are T beyond the last token. Documents
    are 0..B-1, int32 [count].
    """
    ends = jnp.cumsum(documents.lengths)
    offset = jnp.maximum(ends - first, 0)
    marks = jnp.zeros(count, jnp.int32).at[offset].add(1, mode="drop")
    document = jnp.minimum(jnp.cumsum(marks), documents.lengths.shape[0] - 1)
    number = first + lax.iota(jnp.int32, count)
    place = documents.starts[document] + number - (ends - documents.lengths)[document]
    return jnp.where(number < ends[-1], place, documents.tokens.shape[0]), document


def capacity(corpus: DeviceCorpus, batch_size: int) -> int:
    """Return the number of tokens in the `batch_size` longest documents, at least 1."""
    starts = np.asarray(corpus.starts)
    return max(1, int(starts[-1] - starts[max(0, size(corpus) - batch_size)]))


def compact(documents: Documents, room: int) -> Documents:
    """Copy the tokens of distinct documents side by side into an array of length `room`."""
    starts = jnp.cumsum(documents.lengths) - documents.lengths
    total = jnp.sum(documents.lengths)
    step = chunk(room)

    def copy(state):
        first, tokens = state
        place, _ = token_slots(documents, first, step)
        word = documents.tokens.at[place].get(mode="clip")
        number = first + lax.iota(jnp.int32, step)
        return first + step, tokens.at[number].set(word, mode="drop")

    start = (jnp.int32(0), jnp.zeros(room, jnp.int32))
    _, tokens = lax.while_loop(lambda state: state[0] < total, copy, start)
    return documents._replace(tokens=tokens, starts=starts)
