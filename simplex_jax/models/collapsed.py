"""Collapsed Gibbs sweeps over the tokens of documents, given topics.

P(z = k) is proportional to (alpha_k + n_dk without this token) times the word's probability under
topic k. Reading K probabilities of a word and K counts of a document for each token is what a sweep
costs, and the probabilities are most of it. So a topic is proposed from probabilities rounded to
eight bits, four in a word of memory, and accepted by the Metropolis-Hastings rule with the exact
ones of the two topics concerned, which leaves the exact conditional invariant. The rounding is of 6
% at most: about 2 in 100 proposals are refused.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax.corpus.device import Documents
from simplex_jax.draws import uniform
from simplex_jax.draws.bits import random_words
from simplex_jax.models import local
from simplex_jax.models.local import Assignments

# Documents side by side: enough to make the start of an operation cheap, few enough for the cache
# of a core. The many lanes of an accelerator want more.
_LANES, _LANES_ELSEWHERE = 2048, 65_536
_NARROW = 128
# A minifloat of five bits of exponent and three of fraction is a float32 with these bits set: it
# reaches from 2^-31 to 1.
_FRACTION = 20
_BIAS = 96 << 23
_BYTE = 0xFF << _FRACTION


class Packed(NamedTuple):
    """A likelihood in eight bits, four topics to a word of memory.

    Attributes:
        words: uint32 [groups, rows, V]; a group has 4 `rows` topics.
        exact: The likelihood, float [K, V].
    """

    words: jax.Array
    exact: jax.Array


def pack(likelihood: jax.Array) -> Packed:
    """Round a likelihood [K, V], at most 1, to minifloats; below 2^-31 it counts as that."""
    num_topics, num_words = likelihood.shape
    # Few groups make few running sums to store, small ones few topics to go through in the end.
    rows = max(1, round(math.sqrt(num_topics / 48)))
    groups = -(-num_topics // (4 * rows))
    bits = lax.bitcast_convert_type(likelihood.astype(jnp.float32), jnp.int32)
    rounded = (bits + (1 << (_FRACTION - 1))) >> _FRACTION
    small = jnp.clip(rounded - (_BIAS >> _FRACTION), 0, 255).astype(jnp.uint32)
    small = jnp.pad(small, ((0, 4 * rows * groups - num_topics), (0, 0)))
    first, second, third, fourth = jnp.moveaxis(small.reshape(groups, rows, 4, num_words), 2, 0)
    return Packed(first | second << 8 | third << 16 | fourth << 24, likelihood)


def _unpack(word: jax.Array) -> list[jax.Array]:
    """Return the four floats of a word."""
    return [_minifloat(shifted) for shifted in (word << 20, word << 12, word << 4, word >> 4)]


def _minifloat(bits: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type((bits & _BYTE) | jnp.uint32(_BIAS), jnp.float32)


def collapsed(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    state: Assignments,
) -> Assignments:
    """Sweep over the tokens of each document in turn, with topic proportions integrated out.

    A token without a label takes its proposal: a first draw, given the labels before it.

    Documents of about equal length go side by side, in blocks whose counts fit the cache of a core.
    When all but a few of a block have ended, these go on alone and do not hold up the many.

    Args:
        key: A PRNG key. The randomness of a token depends on the key, on `documents.ids` and on its
            place in its document only, not on the other documents at hand.
        likelihood: Topics, see `local.likelihood_of`, [K, V].
        alpha: Concentrations of topic proportions, [K].
        documents: The documents.
        state: Labels and counts.
    """
    num_topics, batch_size = state.documents.shape
    packed = pack(likelihood)
    groups, rows, _ = packed.words.shape
    padding = 4 * rows * groups - num_topics
    width = min(_LANES if jax.default_backend() == "cpu" else _LANES_ELSEWHERE, _pad(batch_size))
    lanes = -(-batch_size // width) * width
    # Lanes that pad the batch are empty documents and come first.
    order = jnp.pad(
        jnp.argsort(documents.lengths), (lanes - batch_size, 0), constant_values=batch_size
    )
    ids = lax.iota(jnp.int32, batch_size) if documents.ids is None else documents.ids
    in_order = (
        documents.starts.at[order].get(mode="clip"),
        documents.lengths.at[order].get(mode="fill", fill_value=0),
        ids.at[order].get(mode="clip"),
    )
    # Topics that only pad the last group have neither counts nor alpha and are never drawn.
    prior = jnp.pad(alpha.astype(jnp.float32), (0, padding)).reshape(groups, 4 * rows)
    counts = jnp.pad(state.documents, ((0, padding), (0, 0)))
    counts = counts.at[:, order].get(mode="fill", fill_value=0)

    def block(i: jax.Array, state: Assignments) -> Assignments:
        mine = (lax.dynamic_slice_in_dim(x, i * width, width) for x in in_order)
        columns = lax.dynamic_slice_in_dim(state.documents, i * width, width, axis=1)
        batch = Documents(documents.tokens, *mine)
        moved = _narrowing(key, packed, prior, batch, state._replace(documents=columns))
        return moved._replace(
            documents=lax.dynamic_update_slice_in_dim(
                state.documents, moved.documents, i * width, axis=1
            )
        )

    state = lax.fori_loop(0, lanes // width, block, state._replace(documents=counts))
    back = jnp.zeros((num_topics, batch_size), counts.dtype)
    back = back.at[:, order].set(state.documents[:num_topics], mode="drop")
    return state._replace(documents=back)


def _pad(batch_size: int) -> int:
    """Return the next width that vectorises, and from `_NARROW` on can be cut there."""
    step = 8 if batch_size <= _NARROW else _NARROW
    return -(-batch_size // step) * step


def _narrowing(
    key: jax.Array,
    packed: Packed,
    alpha: jax.Array,
    documents: Documents,
    state: Assignments,
) -> Assignments:
    """Sweep over documents sorted by length, in the end over the last few alone."""
    rest = documents.lengths.shape[0] - _NARROW
    if rest <= 0:
        return _positions(key, packed, alpha, documents, state)
    until = documents.lengths[rest - 1]
    state = _positions(key, packed, alpha, documents, state, last=until)
    longest = Documents(documents.tokens, *(x[rest:] for x in documents[1:] if x is not None))
    columns = state._replace(documents=state.documents[:, rest:])
    moved = _positions(key, packed, alpha, longest, columns, first=until)
    return moved._replace(documents=state.documents.at[:, rest:].set(moved.documents))


def _positions(
    key: jax.Array,
    packed: Packed,
    alpha: jax.Array,
    documents: Documents,
    state: Assignments,
    first: jax.Array | int = 0,
    last: jax.Array | None = None,
) -> Assignments:
    """Draw the tokens at positions first..last-1 of all documents, one position after the other."""
    num_topics = packed.exact.shape[0]
    num_tokens = documents.tokens.shape[0]
    lane = lax.iota(jnp.int32, documents.lengths.shape[0])
    dtype = jnp.dtype(jnp.float32)

    def position(loop):
        number, (labels, counts, words) = loop
        inside = number < documents.lengths
        place = jnp.where(inside, documents.starts + number, num_tokens)
        tokens = lax.optimization_barrier(local.at(place, documents, labels, num_topics))
        counts = counts.at[tokens.label, lane].add(-1, mode="drop")
        bits, _ = random_words(key, lane.shape[0], dtype, row=number, columns=documents.ids)
        new = _draw(packed, alpha, counts, tokens, lane, uniform.uniform(bits, dtype))
        counts = counts.at[new, lane].add(1, mode="drop")
        return number + 1, Assignments(
            local.relabel(labels, tokens, new), counts, local.recount(words, tokens, new)
        )

    end = documents.lengths[-1] if last is None else last
    return lax.while_loop(lambda loop: loop[0] < end, position, (jnp.int32(first), state))[1]


def _draw(
    packed: Packed,
    alpha: jax.Array,
    counts: jax.Array,
    tokens: local.Tokens,
    lane: jax.Array,
    u: jax.Array,
) -> jax.Array:
    """Return new topics of tokens, int32 [n], K where there is no token.

    Args:
        packed: The likelihood.
        alpha: Concentrations, [groups, topics of a group].
        counts: Counts of the documents without these tokens, [topics, n].
        tokens: The tokens.
        lane: 0..n-1.
        u: Uniforms in (0, 1), [n].
    """
    groups, rows, _ = packed.words.shape
    num_topics = packed.exact.shape[0]
    grouped = counts.reshape(groups, 4 * rows, -1)

    # Each group by itself: of a running sum XLA would compute every term anew for all later ones.
    words = packed.words.at[:, :, tokens.word].get(mode="promise_in_bounds")
    words = lax.optimization_barrier(words)  # a loop that gathers is not vectorised
    sums = jnp.zeros((groups, *lane.shape), counts.dtype)
    for row in range(rows):
        for j, weight in enumerate(_unpack(words[:, row])):
            k = 4 * row + j
            sums = sums + (grouped[:, k] + alpha[:, k, None]) * weight
    # All uses must see the same sums, not some of them recomputed with fused operations.
    sums = lax.optimization_barrier(sums)
    zero = jnp.zeros(lane.shape, counts.dtype)
    _, sums = lax.scan(lambda total, row: (total + row, total + row), zero, sums)
    sums = lax.optimization_barrier(sums)
    threshold = u * sums[-1]
    passed = sums <= threshold
    total = jnp.max(jnp.where(passed, sums, 0), axis=0)
    group = jnp.minimum(jnp.sum(passed.astype(jnp.int32), axis=0), groups - 1)
    total, group = lax.optimization_barrier((total, group))

    inside = jnp.zeros(lane.shape, jnp.int32)
    chosen = left = zero
    for row in range(rows):
        word = packed.words.at[group, row, tokens.word].get(mode="promise_in_bounds")
        for j, weight in enumerate(_unpack(word)):
            k = 4 * row + j
            count = counts.at[4 * rows * group + k, lane].get(mode="promise_in_bounds")
            mass = (count + alpha.at[group, k].get(mode="promise_in_bounds")) * weight
            # The last topic, not of the padding, before which the sum is not above the threshold.
            here = (total <= threshold) & (mass > 0)
            inside = jnp.where(here, k, inside)
            chosen = jnp.where(here, weight, chosen)
            left = jnp.where(here, (threshold - total) / mass, left)
            total = total + mass
    new = 4 * rows * group + inside

    old = jnp.minimum(tokens.label, num_topics - 1)
    word = packed.words.at[old // (4 * rows), old // 4 % rows, tokens.word].get(
        mode="promise_in_bounds"
    )
    shift = (8 * (old % 4)).astype(jnp.uint32)
    rounded = _minifloat(((word >> shift) & 0xFF) << _FRACTION)
    exact_new = packed.exact.at[new, tokens.word].get(mode="promise_in_bounds")
    exact_old = packed.exact.at[old, tokens.word].get(mode="promise_in_bounds")
    # What is left of the uniform within the proposed topic's share is again uniform.
    refused = left * exact_old * chosen > exact_new * rounded
    stays = refused & (tokens.label < num_topics)
    return jnp.where(tokens.active, jnp.where(stays, tokens.label, new), num_topics)
