"""Room for more sticks, where the slices of a Dirichlet-process mixture ask for them."""

import jax
import jax.numpy as jnp

from simplex_jax.base import PyTree
from simplex_jax.draws import arguments
from simplex_jax.models.dp_state import BLOCK, Mixture, State


def grown(state: State) -> State | None:
    """Return a state with room for what its last update asked for; None where it has that.

    The capacity is doubled until it suffices, so that a run compiles few programs. For `run(...,
    grow=grown)`; chains grow together.
    """
    capacity = state.occupancy.shape[-1]
    needed = int(jnp.max(state.needed))
    if needed <= capacity:
        return None
    while capacity < needed:
        capacity *= 2
    return grow(state, capacity)


def grow(state: State, capacity: int) -> State:
    """Return a state with room for `capacity` sticks, and otherwise the same.

    New sticks have no weight until the next update draws them; what they weigh then is part of
    `log_rest` until then. The state may be that of several chains.

    Args:
        state: The state.
        capacity: At least that of the state; rounded up to a multiple of 16.

    Raises:
        ValueError: It is less.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.models import dp_families, dp_mixture
        >>> rows = dp_families.multinomial_rows([[2, 0], [1, 1]])
        >>> kernel, _ = dp_mixture.build(rows, dp_families.multinomial(2), capacity=16)
        >>> state = kernel.init(jax.random.key(0), jnp.array([0, 1]))
        >>> dp_mixture.grow(state, 48).position.log_weights.shape
        (48,)
    """
    now, axis = state.occupancy.shape[-1], state.occupancy.ndim - 1
    capacity = arguments.at_least("capacity", capacity, now)
    more = -(-capacity // BLOCK) * BLOCK - now

    def pad(tree: PyTree, value: float = 0) -> PyTree:
        return jax.tree.map(
            lambda leaf: jnp.pad(
                leaf,
                [(0, more if i == axis else 0) for i in range(leaf.ndim)],
                constant_values=value,
            ),
            tree,
        )

    log_weights, log_rest, atoms = state.position
    return state._replace(
        position=Mixture(pad(log_weights, -jnp.inf), log_rest, pad(atoms)),
        occupancy=pad(state.occupancy),
        sticks=pad(state.sticks),
        totals=pad(state.totals),
        needed=jnp.zeros_like(state.needed),
    )
