"""Bounded rejection sampling on arrays: one round for all, then compacted rounds for the few."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

# A proposal is turned down with probability below 0.3 in every use, so that a variate is left
# after this many rounds with probability below 1e-16; the fallback then draws it exactly.
ROUNDS = 32
_BLOCK = 1024


def fill_rejected(
    key: jax.Array,
    value: jax.Array,
    accepted: jax.Array,
    parameter: jax.Array,
    propose: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]],
    fallback: Callable[[jax.Array, jax.Array, jax.Array, jax.Array], jax.Array],
    rounds: int = ROUNDS,
) -> jax.Array:
    """Return ``value`` with its rejected entries drawn again until they are accepted.

    The rejected are gathered into blocks, so that a further round costs what the rejected cost
    and not what the whole array costs.

    Args:
        key: A key not used for ``value``.
        value: First proposals, shape [n].
        accepted: Where they stand, shape [n], bool.
        parameter: What ``propose`` needs of each entry, shape [n].
        propose: ``(key, parameter [m]) -> (value [m], accepted [m])``.
        fallback: ``(key, parameter [m], wanted [m], value [m]) -> value [m]``, which replaces
            the wanted entries by exact draws made without rejection.
        rounds: The largest number of rounds for a block.
    """
    size = value.shape[0]
    block = min(_BLOCK, size)
    order = jnp.nonzero(~accepted, size=size + block, fill_value=size)[0]
    left = size - jnp.sum(accepted)

    def one_block(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        start, filled = carry
        block_key = jax.random.fold_in(key, start)
        index = lax.dynamic_slice(order, (start,), (block,))
        here = parameter.at[index].get(mode="clip")

        def one_round(state):
            number, wanted, drawn = state
            proposed, good = propose(jax.random.fold_in(block_key, number), here)
            return number + 1, wanted & ~good, jnp.where(wanted & good, proposed, drawn)

        _, wanted, drawn = lax.while_loop(
            lambda state: (state[0] < rounds) & jnp.any(state[1]),
            one_round,
            (0, index < size, jnp.zeros(block, value.dtype)),
        )
        drawn = fallback(jax.random.fold_in(block_key, rounds), here, wanted, drawn)
        return start + block, filled.at[index].set(drawn, mode="drop")

    _, filled = lax.while_loop(lambda carry: carry[0] < left, one_block, (0, value))
    return filled
