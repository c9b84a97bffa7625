"""Bounded rejection sampling on arrays: one round for all, then compacted rounds for the rest."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import arguments

# Every use rejects proposals with probability below 0.36. After these rounds and the two before
# them, a variate is still rejected with probability below 1e-29: never, on any machine.
ROUNDS = 64
_WORD = 32
_SMALLEST = 256


def positions(mask: jax.Array, capacity: int) -> jax.Array:
    """Return the positions of the first ``capacity`` true entries, padded with ``len(mask)``.

    Same as ``jnp.nonzero(mask, size=capacity)``, at a third of the cost: bits are counted by word,
    and the position within a word is found by bisection.
    """
    size = mask.shape[0]
    words = -(-size // _WORD)
    bits = jnp.pad(mask, (0, words * _WORD - size)).reshape(words, _WORD)
    place = jnp.uint32(1) << lax.iota(jnp.uint32, _WORD)
    packed = jnp.sum(jnp.where(bits, place, 0), axis=1, dtype=jnp.uint32)
    counts = lax.population_count(packed).astype(jnp.int32)
    ends = jnp.cumsum(counts)
    word = jnp.repeat(lax.iota(jnp.int32, words), counts, total_repeat_length=capacity)
    rank = lax.iota(jnp.int32, capacity) - (ends - counts)[word]
    rest = packed[word]
    position = word * _WORD
    for width in (16, 8, 4, 2, 1):
        low = rest & jnp.uint32((1 << width) - 1)
        below = lax.population_count(low).astype(jnp.int32)
        upper = rank >= below
        rank = jnp.where(upper, rank - below, rank)
        rest = jnp.where(upper, rest >> width, low)
        position = position + jnp.where(upper, width, 0)
    return jnp.where(lax.iota(jnp.int32, capacity) < ends[-1], position, size)


def sample(
    key: jax.Array,
    parameter: jax.Array,
    propose: Callable[[jax.Array, jax.Array | int, jax.Array, jax.Array], jax.Array],
    needed: jax.Array | None = None,
) -> jax.Array:
    """Return variates of [0, inf) by rejection: one round for all, then rounds for the rejected.

    The rejected are gathered into an array an eighth as long for a second round, and those still
    rejected into an array of a 32nd for the later rounds. Rounds thus cost as much as the rejected
    variates, and a GPU waits for few loops. If an array overflows, everything is repeated for the
    rest. Short arrays, as under a vmap over many rows, do all rounds in place.

    The loops are bounded: a variate still rejected after `ROUNDS` is NaN, and so is every variate
    whose proposals are never accepted. An exact fallback without rejection would take half or more
    of the compile time of a draw, and would never run.

    `propose(key, row, columns [m], parameter [m])` returns values [m], negative where rejected,
    from these columns of the random words of this row and the next; rounds use rows from 2 on. Each
    variate has its own column, so it does not depend on others. (With one array in place of a value
    and a flag, XLA makes a single loop.) Where `needed` is false, the result is arbitrary.
    """
    size = parameter.shape[0]
    if size == 0:
        return parameter
    many, few = (max(_SMALLEST // 4, arguments.pad(size // part)) for part in (8, 32))

    def last_rounds(
        row: int, columns: jax.Array, parameter: jax.Array, drawn: jax.Array
    ) -> jax.Array:
        def one_round(state):
            number, drawn = state
            proposed = propose(key, row + 2 * number, columns, parameter)
            return number + 1, jnp.where(drawn < 0, proposed, drawn)

        _, drawn = lax.while_loop(
            lambda state: (state[0] < ROUNDS) & jnp.any(state[1] < 0),
            one_round,
            (jnp.int32(0), drawn),
        )
        return jnp.where(drawn < 0, jnp.nan, drawn)

    def sweep(value: jax.Array) -> jax.Array:
        index = positions(value < 0, many)
        parameters = parameter.at[index].get(mode="clip")
        drawn = propose(key, 4, index, parameters)
        # Otherwise the loops that search for rejected entries would recompute it for each.
        drawn = lax.optimization_barrier(jnp.where(index < size, drawn, 0))
        rejected = positions(drawn < 0, few)
        last = last_rounds(
            6,
            index.at[rejected].get(mode="clip"),
            parameters.at[rejected].get(mode="clip"),
            jnp.where(rejected < many, -1, 0).astype(drawn.dtype),
        )
        drawn = drawn.at[rejected].set(last, mode="drop")
        return value.at[index].set(drawn, mode="drop")

    columns = lax.iota(jnp.int32, size)
    value = propose(key, 2, columns, parameter)
    if needed is not None:
        value = jnp.where(needed, value, 0)
    if size <= _SMALLEST:
        return last_rounds(4, columns, parameter, value)
    return lax.while_loop(lambda value: jnp.any(value < 0), sweep, value)
