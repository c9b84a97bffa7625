"""The Gibbs sampler of a mixture of unigrams."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import draws
from simplex_jax._src.base import Kernel, static
from simplex_jax._src.precision import full_precision


class State(NamedTuple):
    """Log shares [K] and log topics [K, V], given which a label is drawn for every document."""

    position: dict[str, jax.Array]
    step: jax.Array


def build(num_topics: int, alpha: float, beta: float) -> Kernel:
    """Return the kernel; a batch is all counts, float [D, V]."""
    return Kernel(_init, static(_update, num_topics=num_topics, alpha=alpha, beta=beta))


def _init(key: jax.Array, topics: jax.Array) -> State:
    del key
    shares = jnp.full(topics.shape[0], -jnp.log(topics.shape[0]))
    return State({"shares": shares, "topics": jax.nn.log_softmax(topics)}, jnp.int32(0))


@full_precision
def log_joint(position: dict[str, jax.Array], counts: jax.Array) -> jax.Array:
    """Return the log-probabilities of words and label of each document, [D, K]."""
    return position["shares"] + counts @ position["topics"].T


@full_precision
def _update(
    key: jax.Array, state: State, counts: jax.Array, *, num_topics: int, alpha: float, beta: float
) -> tuple[State, Any]:
    keys = jax.random.split(key, 3)
    labels = jax.random.categorical(keys[0], log_joint(state.position, counts))
    hot = jax.nn.one_hot(labels, num_topics)
    position = {
        "shares": draws.log_dirichlet(keys[1], alpha + hot.sum(axis=0)),
        "topics": draws.log_dirichlet(keys[2], beta + hot.T @ counts),
    }
    return State(position, state.step + 1), ()
