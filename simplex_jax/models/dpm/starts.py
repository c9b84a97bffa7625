"""The search for initial labels of chains.

A chain drops clusters faster than it discovers them. If clusters are tight it does neither, and its
end depends on its start. The start is therefore the best of several partitions by prediction. For
several numbers of clusters, clusters given rows and labels given clusters are drawn alternately
from random labels, for a few rounds, with a fifth of the rows held out. The density of the held-out
rows selects the partition; among equally good ones, the one with the most clusters. Exactness does
not depend on the start.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import logsumexp
from jax.typing import ArrayLike

from simplex_jax import draws
from simplex_jax.base import PyTree
from simplex_jax.draws import uniform
from simplex_jax.draws.categorical import choose_by_native_code
from simplex_jax.draws.keys import by_native_code, words_by_native_code
from simplex_jax.models.dpm import families
from simplex_jax.models.dpm.families import Family
from simplex_jax.models.dpm.families.family import draw_atoms
from simplex_jax.models.dpm.labels import in_parts, rows_at_once

_NUMBERS = (1, 2, 4, 8, 15, 30, 60)
_ROUNDS = 30
# Number of rows on which partitions are compared: enough to find the best.
_ROWS = 10_000
# One in this many of them is held out.
_LEFT_OUT = 5


@partial(jax.jit, static_argnames="most")
def predictive_labels(key: jax.Array, family: Family, rows: PyTree, most: int) -> jax.Array:
    """Return labels of a partition into at most `most` clusters that predicts well, int32 [N].

    Partitions are compared on at most 10,000 random rows; all rows are then assigned to the
    clusters of the best one.
    """
    size = families.size(rows)
    if most == 1:
        return jnp.zeros(size, jnp.int32)
    key = by_native_code(key)
    key_some, key_candidates, key_rest = jax.random.split(key, 3)
    some = jax.random.permutation(key_some, size)[:_ROWS]
    compared = families.take(rows, some)
    numbers = jnp.asarray(sorted({min(number, most) for number in _NUMBERS}))

    def candidate(pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        key, number = pair
        return _candidate(key, number, family, compared, most)

    keys = jax.random.split(key_candidates, len(numbers))
    densities, labels = lax.map(candidate, (keys, numbers))
    best = labels[_chosen(densities[:, len(some) - len(some) // _LEFT_OUT :])]
    if size == len(some):
        return jnp.zeros_like(best).at[some].set(best)
    key_clusters, key_rows = jax.random.split(key_rest)
    log_shares, atoms = _draw_clusters(key_clusters, family, compared, best, most, most)

    def part(ids: jax.Array) -> jax.Array:
        logits = family.log_likelihood(families.take(rows, ids), atoms) + log_shares
        return _draw_labels(jax.random.fold_in(key_rows, ids[0]), logits)

    parts = in_parts(lax.iota(jnp.int32, size), rows_at_once(rows, size, most), size - 1)
    return lax.map(part, parts).ravel()[:size]


def _candidate(
    key: jax.Array, number: jax.Array, family: Family, rows: PyTree, most: int
) -> tuple[jax.Array, jax.Array]:
    """Return log densities of the rows, up to a constant, and labels of a partition.

    The rows are in random order; the last ones are held out.
    """
    size = families.size(rows)
    places = lax.iota(jnp.int32, size)
    learned = places < size - size // _LEFT_OUT
    key_start, key_turns = jax.random.split(key)

    def turn(i: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        labels, total = now
        key_clusters, key_labels = jax.random.split(jax.random.fold_in(key_turns, i))
        labels = jnp.where(learned, labels, most)
        log_shares, atoms = _draw_clusters(key_clusters, family, rows, labels, number, most)
        logits = family.log_likelihood(rows, atoms) + log_shares
        # The first half is burn-in.
        density = logsumexp(logits, axis=1)
        total = jnp.where(i < _ROUNDS // 2, total, jnp.logaddexp(total, density))
        return _draw_labels(key_labels, logits), total

    random = jax.random.randint(key_start, (size,), 0, number, jnp.int32)
    start = random, jnp.full(size, -jnp.inf)
    labels, total = lax.fori_loop(0, _ROUNDS, turn, start)
    return total, labels


def _chosen(densities: jax.Array) -> jax.Array:
    """Return the partition with the most clusters among those that predict as well as the best.

    That is within one standard error of the difference. The log densities of rows are
    [partitions, n], in ascending order of the number of clusters.
    """
    behind = densities[jnp.argmax(jnp.mean(densities, axis=1))] - densities
    error = jnp.std(behind, axis=1) / math.sqrt(densities.shape[1])
    level = jnp.mean(behind, axis=1) <= error
    return jnp.max(jnp.where(level, jnp.arange(len(level)), 0))


def _draw_clusters(
    key: jax.Array, family: Family, rows: PyTree, labels: jax.Array, number: ArrayLike, most: int
) -> tuple[jax.Array, PyTree]:
    """Draw log shares, -inf from cluster `number` on, and atoms, given the labels of rows."""
    key_shares, key_atoms = jax.random.split(key)
    sizes = jnp.zeros(most, jnp.result_type(float)).at[labels].add(1, mode="drop")
    log_shares = draws.log_dirichlet(key_shares, sizes + 1 / most)
    log_shares = jnp.where(jnp.arange(most) < number, log_shares, -jnp.inf)
    return log_shares, draw_atoms(family, key_atoms, family.statistics(rows, labels, most))


def _draw_labels(key: jax.Array, logits: jax.Array) -> jax.Array:
    """Draw the cluster of each row, int32 [n]."""
    weights = jnp.exp(logits - jnp.max(logits, axis=1, keepdims=True))
    words, _ = words_by_native_code(key, weights.shape[0], weights.dtype)
    return choose_by_native_code(weights.T, uniform.uniform(words, weights.dtype))
