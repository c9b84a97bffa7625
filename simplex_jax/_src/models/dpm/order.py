r"""Moves that reorder clusters and sticks and leave the posterior invariant.

The weights of the sticks decrease on average, so other orders of the clusters are less probable,
and slices alone hardly ever exchange two clusters (Papaspiliopoulos and Roberts 2008, section 3.4).
An order is int32 [C]: stick j gets the cluster that was at stick order[j].
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import draws
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.bits import use_up
from simplex_jax._src.draws.keys import words_by_native_code
from simplex_jax._src.models.dpm.state import BLOCK, by_blocks, mixture

ROUNDS = 8
"""Pairs of swaps proposed per update."""


class Ordered(NamedTuple):
    """An order and its sticks."""

    order: jax.Array  # int32 [C]
    sticks: jax.Array  # logs of v and 1 - v, [C, 2]
    needed: jax.Array  # sticks needed, int32; above C the state has to grow
    accepted: jax.Array  # acceptance rate of the proposals; 1 for exact draws


def unchanged(sticks: jax.Array) -> Ordered:
    """Return the identity order."""
    order = jnp.arange(sticks.shape[0], dtype=jnp.int32)
    return Ordered(order, sticks, jnp.int32(0), jnp.zeros((), sticks.dtype))


def swaps(key: jax.Array, sticks: jax.Array, occupancy: jax.Array) -> Ordered:
    r"""Swap clusters, and neighbouring sticks together with their clusters, by Metropolis moves.

    Two clusters j and l with rows change places with probability
    :math:`\min\{1, (w_j / w_l)^{m_l - m_j}\}`; a cluster with rows and a neighbour, empty or not,
    change places and sticks with probability
    :math:`\min\{1, (1 - v_{j+1})^{m_j} / (1 - v_j)^{m_{j+1}}\}` (Papaspiliopoulos and Roberts
    2008). Both proposals are symmetric, because they choose among the clusters with rows, whose
    number does not change. Sticks are [C, 2], the occupancy int32 [C].
    """
    capacity, dtype = sticks.shape[0], sticks.dtype
    occupied = jnp.sum(occupancy > 0)
    use_up(key)
    words, more = words_by_native_code(key, 3 * ROUNDS, dtype)
    chance = uniform.uniform(jnp.concatenate([words, more]), dtype).reshape(ROUNDS, 6)

    def pick(u: jax.Array, order: jax.Array) -> jax.Array:
        """Return for each u the stick of a cluster with rows, by its rank among their sticks."""
        rank = jnp.minimum((u * occupied).astype(jnp.int32), occupied - 1)
        return jnp.sum(jnp.cumsum(occupancy[order] > 0) <= rank[:, None], axis=1)

    def swap(leaf: jax.Array, j: jax.Array, k: jax.Array, accept: jax.Array) -> jax.Array:
        place = jnp.arange(capacity)
        other = jnp.where(place == j, k, jnp.where(place == k, j, place))
        return leaf[jnp.where(accept, other, place)]

    def turn(i: jax.Array, state: Ordered) -> Ordered:
        u = chance[i]
        order, sticks = state.order, state.sticks
        log_w = mixture(sticks, None).log_weights
        # A swap of clusters with rows does not change which sticks have rows, so the second move
        # can be picked before the first is done.
        j, k, moving = pick(jnp.stack([u[0], u[1], u[3]]), order)
        m_j, m_k = occupancy[order[j]], occupancy[order[k]]
        log_ratio = (m_k - m_j) * (log_w[j] - log_w[k])
        first = (j != k) & (jnp.log(u[2]) < log_ratio)
        order = swap(order, j, k, first)

        j = moving - (u[4] < 0.5)
        inside = (j >= 0) & (j + 1 < capacity)
        beyond = j + 1 >= capacity
        j = jnp.clip(j, 0, capacity - 2)
        m_j, m_k = occupancy[order[j]], occupancy[order[j + 1]]
        log_ratio = m_j * sticks[j + 1, 1] - m_k * sticks[j, 1]
        second = inside & (jnp.log(u[5]) < log_ratio)
        order = swap(order, j, j + 1, second)
        sticks = swap(sticks, j, j + 1, second)
        done = (first.astype(dtype) + second.astype(dtype)) / (2 * ROUNDS)
        needed = jnp.maximum(state.needed, jnp.where(beyond, capacity + 1, 0))
        return Ordered(order, sticks, needed, state.accepted + done)

    return lax.fori_loop(0, ROUNDS, turn, unchanged(sticks))


def size_biased(key: jax.Array, alpha: jax.Array, occupancy: jax.Array) -> Ordered:
    r"""Draw the order of the clusters and all sticks given the partition.

    The weights of the k clusters and the total of all others are Dirichlet(m_1, ..., m_k, alpha),
    and the other weights are again those of a Dirichlet process. Sticks are the weights in
    size-biased order (Pitman 1996): the next stick is chosen from the remaining ones with
    probability proportional to its weight. Nothing else of the old state is used.
    """
    capacity, dtype = occupancy.shape[0], alpha.dtype
    key_weights, key_rest, key_turns = jax.random.split(key, 3)
    concentration = jnp.where(occupancy > 0, occupancy, 1).astype(dtype)
    log_gamma = by_blocks(draws.loggamma, key_weights, concentration, at_once=True)
    log_gamma = jnp.where(occupancy > 0, log_gamma, -jnp.inf)
    log_rest = draws.loggamma(key_rest, alpha)

    words = by_blocks(
        lambda key, _: jnp.stack(words_by_native_code(key, BLOCK, dtype), axis=1),
        key_turns,
        occupancy,
        at_once=True,
    )
    choices = uniform.uniform(words[:, 0], dtype)
    # log(1 - b), where a new stick has the share b ~ Beta(1, alpha) of the other weights.
    log_stay = -uniform.exponential(words[:, 1], dtype) / alpha

    def turn(left: tuple, random: tuple) -> tuple[tuple, tuple[jax.Array, jax.Array]]:
        log_gamma, log_rest, taken = left
        choice, log_stay = random
        peak = jnp.maximum(jnp.max(log_gamma), log_rest)
        sums = jnp.cumsum(jnp.exp(log_gamma - peak))
        total = sums[-1] + jnp.exp(log_rest - peak)
        old = choice * total < sums[-1]
        place = jnp.minimum(jnp.sum(sums <= choice * total), capacity - 1)
        log_new = jnp.where(old, log_gamma[place], log_rest + jnp.log(-jnp.expm1(log_stay)))
        log_gamma = log_gamma.at[place].set(jnp.where(old, -jnp.inf, log_gamma[place]))
        log_rest = jnp.where(old, log_rest, log_rest + log_stay)
        log_after = jnp.logaddexp(jax.nn.logsumexp(log_gamma), log_rest)
        log_v = log_new - (peak + jnp.log(total))
        log_rest_v = log_after - (peak + jnp.log(total))
        cluster = jnp.where(old, place, -1).astype(jnp.int32)
        pair = jnp.minimum(jnp.stack([log_v, log_rest_v]), 0)
        return (log_gamma, log_rest, taken + old), (cluster, pair)

    start = (log_gamma, log_rest, jnp.int32(0))
    (*_, taken), (cluster, sticks) = lax.scan(turn, start, (choices, log_stay))
    # Empty sticks get the places without rows, in order: their atoms are redrawn.
    free = jnp.argsort(occupancy > 0, stable=True).astype(jnp.int32)
    order = jnp.where(cluster >= 0, cluster, free[jnp.cumsum(cluster < 0) - 1])
    short = jnp.sum(occupancy > 0) - taken
    needed = jnp.where(short > 0, capacity + short, 0).astype(jnp.int32)
    return Ordered(order, sticks, needed, jnp.ones((), dtype))
