"""State, growth and model of the hierarchical Dirichlet process."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments
from simplex_jax._src.models import growth
from simplex_jax._src.models.topics.concentrations import Prior

_STATIC = {"static": True}

BETA = 0.05
"""Default concentration of a topic, per word."""

MOST_TOPICS = 2**16 - 1
"""Maximum number of topics; also the label of no topic."""


class State(NamedTuple):
    """State of the process, of capacity C, for T tokens of V words."""

    position: jax.Array  # logarithm of the topics, with tokens or not, [C, V]
    step: jax.Array  # number of updates done, int32
    log_weights: jax.Array  # logarithm of the weight b of each topic, [C]
    log_rest: jax.Array  # logarithm of the total weight of all other topics
    alpha: jax.Array  # concentration of the shares of a document, a scalar
    gamma: jax.Array  # concentration of the weights, a scalar
    labels: jax.Array  # topic of every token, uint16 [T]
    counts: jax.Array  # tokens of each topic and word, int32 [C, V]
    # Topics that the last update needed, int32. Above C it was not done, nor will others be until
    # the state has grown.
    needed: jax.Array


class Info(NamedTuple):
    """Diagnostics of an update, scalars; zeros if it was not done."""

    topics: jax.Array  # number of topics with tokens after it, int32
    tables: jax.Array  # number of tables of all documents
    waited: jax.Array  # share of the documents that waited for a lower level


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """The process and its sampler options, arrays or static; see `build`."""

    beta: jax.Array  # concentration of the topics, a scalar or [V]
    alpha: jax.Array  # initial values
    gamma: jax.Array
    alpha_prior: Prior | None  # None if it is given
    gamma_prior: Prior | None
    capacity: int = dataclasses.field(metadata=_STATIC)  # of a first state
    chains: int | None = dataclasses.field(metadata=_STATIC)
    engine: str = dataclasses.field(metadata=_STATIC)


def check_capacity(capacity: int) -> int:
    """Return a capacity, or raise a ValueError if it exceeds the range of labels."""
    if capacity > MOST_TOPICS:
        raise ValueError(
            f"capacity must be at most {MOST_TOPICS:,} topics; it is {capacity:,}. If the data "
            "need more, use a smaller gamma, or a prior of it with a smaller mean (a larger "
            "rate in gamma_prior), for fewer topics"
        )
    return capacity


def grown(state: State) -> State | None:
    """Return a state with room for the topics its last update needed, or None if it has it.

    For `run(..., grow=grown)`; chains grow together.
    """
    capacity, needed = state.counts.shape[-2], int(jnp.max(state.needed))
    if needed <= capacity:
        return None
    larger = growth.by_quarters(capacity, check_capacity(needed))
    return grow(state, min(larger, MOST_TOPICS))


def grow(state: State, capacity: int) -> State:
    """Return the state with room for `capacity` topics; a smaller capacity is a ValueError.

    New topics have no weight until the next update draws them. The state may have several chains.
    """
    more = arguments.at_least("capacity", capacity, state.counts.shape[-2]) - state.counts.shape[-2]
    lead = [(0, 0)] * (state.counts.ndim - 2)

    def pad(rows: jax.Array, value: float, trailing: int) -> jax.Array:
        widths = [*lead, (0, more), *[(0, 0)] * trailing]
        return jnp.pad(rows, widths, constant_values=value)

    return state._replace(
        position=pad(state.position, -jnp.inf, 1),
        log_weights=pad(state.log_weights, -jnp.inf, 0),
        counts=pad(state.counts, 0, 1),
        needed=jnp.zeros_like(state.needed),
    )
