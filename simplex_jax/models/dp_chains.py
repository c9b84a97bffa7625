"""Chains of a Dirichlet-process mixture side by side, with sticks of one number.

Where one of them has to grow, none is updated: all grow together, and do the same update again.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax.models import dp_step
from simplex_jax.models.dp_state import Info, Model, Options, State

# Rows times sticks of a chain from which on chains take turns within an update.
_LARGE = 2**14


def init(
    model: Model,
    alpha: jax.Array,
    key: jax.Array,
    labels: jax.Array,
    *,
    counts: str,
    capacity: int,
    chains: int,
) -> State:
    """Start chains from labels of all rows, int32 [N], or [chains, N]; see `dp_step.init`."""
    start = functools.partial(dp_step.init, counts=counts, capacity=capacity)
    start = jax.vmap(start, in_axes=(None, None, 0, 0 if labels.ndim == 2 else None))
    return start(model, alpha, jax.random.split(key, chains), labels)


def update(
    model: Model, key: jax.Array, state: State, ids: jax.Array, *, options: Options
) -> tuple[State, Info]:
    """Do one update of every chain, leaves [chains, ...], unless one asks for more sticks.

    One batch serves all chains, each with random numbers of its own.
    """
    chains, capacity = state.occupancy.shape

    def one(key: jax.Array, state: State) -> tuple[State, Info]:
        return dp_step.update(model, key, state, ids, options=options)

    keys = jax.random.split(key, chains)
    if ids.shape[0] * capacity < _LARGE:
        moved, info = jax.vmap(one)(keys, state)
    else:
        # Under vmap both sides of every condition are computed, in every update and for all.
        moved, info = lax.map(lambda chain: one(*chain), (keys, state))
    most = jnp.max(moved.needed)
    short = most > capacity
    moved = moved._replace(needed=jnp.full_like(state.needed, most))
    state = state._replace(needed=moved.needed)
    return (
        jax.tree.map(lambda now, new: jnp.where(short, now, new), state, moved),
        jax.tree.map(lambda told: jnp.where(short, jnp.zeros_like(told), told), info),
    )
