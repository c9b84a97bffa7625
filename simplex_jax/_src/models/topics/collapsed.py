"""Collapsed Gibbs sweeps over the tokens of documents, given topics, in plain XLA.

P(z = k) is proportional to (alpha_k + n_dk without this token) times the word's probability under
topic k. Documents of about equal length run side by side, one position after the other. As
documents end, the rest continue in fewer lanes, so that a few long documents do not keep many lanes
busy.
"""

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src.corpus.device import Documents
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.bits import random_words
from simplex_jax._src.models.topics import local

# Topics are stored in rows of 16. A topic is drawn in two steps: first its place in the row, from
# sums over the rows, then its row.
ROW = 16
# Numbers processed at once: enough to amortise the overhead of an operation, few enough for a
# core's cache. Accelerators need more.
_ROOM, _ROOM_ELSEWHERE = 1 << 17, 1 << 25
_NARROWEST = 8
# Each narrowing compiles one more loop; at least one in this number of the running lanes has a
# token.
_NARROWING = 4


def rows_of(likelihood: jax.Array) -> jax.Array:
    """Return a likelihood [K, V] as rows of words, float32 [V, K'], zero-padded to full rows."""
    padding = -likelihood.shape[0] % ROW
    return jnp.pad(likelihood.astype(jnp.float32).T, ((0, 0), (0, padding)))


def collapsed(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
) -> jax.Array:
    """Sweep over the tokens of each document in turn, with topic proportions integrated out.

    A `local.Sweep`. A token without a label gets one from its conditional given the labels before
    it. The random number of a token depends only on the key, on `documents.ids` and on its place in
    its document, not on the other documents in the batch.
    """
    weights = rows_of(likelihood)
    num_topics, batch_size = alpha.shape[0], documents.lengths.shape[0]
    prior = jnp.pad(alpha.astype(jnp.float32), (0, weights.shape[1] - num_topics))
    room = _ROOM if jax.default_backend() == "cpu" else _ROOM_ELSEWHERE
    width = min(max(_NARROWEST, room // weights.shape[1]), _rounded(batch_size))
    lanes = -(-batch_size // width) * width
    # Padding lanes are empty documents and come first.
    order = jnp.pad(
        jnp.argsort(documents.lengths), (lanes - batch_size, 0), constant_values=batch_size
    )
    ids = lax.iota(jnp.int32, batch_size) if documents.ids is None else documents.ids
    in_order = (
        documents.starts.at[order].get(mode="clip"),
        documents.lengths.at[order].get(mode="fill", fill_value=0),
        ids.at[order].get(mode="clip"),
    )

    def block(i: jax.Array, labels: jax.Array) -> jax.Array:
        cut = (lax.dynamic_slice_in_dim(x, i * width, width) for x in in_order)
        side_by_side = Documents(documents.tokens, *cut)
        return _block(key, weights, prior, num_topics, side_by_side, labels)

    return lax.fori_loop(0, lanes // width, block, labels)


def _rounded(batch_size: int) -> int:
    return -(-batch_size // _NARROWEST) * _NARROWEST


def _block(
    key: jax.Array,
    weights: jax.Array,
    alpha: jax.Array,
    num_topics: int,
    documents: Documents,
    labels: jax.Array,
) -> jax.Array:
    """Sweep over documents sorted by length, in fewer lanes after most have ended."""
    counts = local.count_labels(labels, documents, alpha.shape[0]).T
    first: jax.Array | int = 0
    while True:
        width = documents.lengths.shape[0]
        narrow = _rounded(width // _NARROWING)
        last_stage = narrow >= width
        last = documents.lengths[-1] if last_stage else documents.lengths[width - narrow - 1]
        labels, counts = _positions(
            key, weights, alpha, num_topics, documents, labels, counts, first, last
        )
        if last_stage:
            return labels
        cut = (x[width - narrow :] for x in documents[1:] if x is not None)
        documents, counts = Documents(documents.tokens, *cut), counts[width - narrow :]
        first = last


def _positions(
    key: jax.Array,
    weights: jax.Array,
    alpha: jax.Array,
    num_topics: int,
    documents: Documents,
    labels: jax.Array,
    counts: jax.Array,
    first: jax.Array | int,
    last: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Draw the tokens at positions first..last-1 of all documents, one position after the other."""
    num_tokens = documents.tokens.shape[0]
    lane = lax.iota(jnp.int32, documents.lengths.shape[0])
    dtype = jnp.dtype(jnp.float32)

    def position(loop):
        number, labels, counts = loop
        inside = number < documents.lengths
        place = jnp.where(inside, documents.starts + number, num_tokens)
        word = documents.tokens.at[place].get(mode="clip")
        old = labels.at[place].get(mode="fill", fill_value=num_topics).astype(jnp.int32)
        labelled = (inside & (old < num_topics)).astype(dtype)
        counts = counts.at[lane, jnp.minimum(old, num_topics - 1)].add(-labelled)
        bits, _ = random_words(key, lane.shape[0], dtype, row=number, columns=documents.ids)
        mass = (counts + alpha) * weights.at[word].get(mode="promise_in_bounds")
        new = _draw(mass, uniform.uniform(bits, dtype))
        counts = counts.at[lane, new].add(inside.astype(dtype))
        labels = labels.at[place].set(new.astype(labels.dtype), mode="drop")
        return number + 1, labels, counts

    start = (jnp.int32(first), labels, counts)
    return lax.while_loop(lambda loop: loop[0] < last, position, start)[1:]


def _draw(mass: jax.Array, u: jax.Array) -> jax.Array:
    """Return topics in proportion to their masses [n, K'], int32 [n], by uniforms in (0, 1)."""
    mass = mass.reshape(mass.shape[0], -1, ROW)
    sums = lax.optimization_barrier(mass.sum(axis=1).T)
    before = [jnp.zeros_like(u)]
    for row in sums:
        before.append(before[-1] + row)
    threshold = u * before.pop()
    place, before_it = jnp.zeros_like(u, jnp.int32), jnp.zeros_like(u)
    for j in range(ROW):
        # The last place with mass that starts by the threshold: valid despite rounding.
        at_threshold = (before[j] <= threshold) & (sums[j] > 0)
        place = jnp.where(at_threshold, j, place)
        before_it = jnp.where(at_threshold, before[j], before_it)
    column = jnp.take_along_axis(mass, place[:, None, None], axis=2)[:, :, 0]
    begun = jnp.cumsum(column, axis=1) - column <= (threshold - before_it)[:, None]
    number = lax.broadcasted_iota(jnp.int32, column.shape, 1)
    return ROW * jnp.max(jnp.where(begun & (column > 0), number, 0), axis=1) + place
