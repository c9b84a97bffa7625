"""The search for initial labels of chains.

A chain drops clusters faster than it discovers them. If clusters are tight it does neither, and its
end depends on its start. The start is therefore the best of several partitions by prediction. For
several numbers of clusters, clusters given rows and labels given clusters are drawn alternately
from random labels, for a few rounds, with a fifth of the rows held out. The density of the held-out
rows selects the partition; among equally good ones, the one with the most clusters. More than 60
are tried as long as the largest number so far is selected. Exactness does not depend on the start.

In many dimensions, rows of one cluster that a random start has split are certain of their halves,
and neither a Gibbs update nor a split-merge move brings them together again. Such clusters are
merged as long as the joint probability of rows and partition gains more than what their labels
leave open, the entropy: a bound of the evidence rises, as in the merges of Hughes and Sudderth
(2013, NeurIPS 26). Where rows are not certain of their cluster, a chain finds its way.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp, xlogy
from jax.typing import ArrayLike
from scipy import special

from simplex_jax._src import draws
from simplex_jax._src.base import PyTree
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.categorical import choose_by_native_code
from simplex_jax._src.draws.keys import by_native_code, to_jax_key, words_by_native_code
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.families.family import draw_atoms
from simplex_jax._src.models.dpm.state import BLOCK, block_of, in_blocks
from simplex_jax._src.models.dpm.totals import (
    completed,
    in_parts,
    jit,
    rows_at_once,
    statistics_of,
)

_NUMBERS = (1, 2, 4, 8, 15, 30, 60)
# Numbers that are tried as long as the one before is chosen.
_MORE = (120, 240)
# The chosen partition has more rounds as long as they gain so much, in nats a row: of hundreds of
# columns, groups that are not yet clusters would be merged.
_AGAIN, _RISE = 5, 0.1
_ROUNDS = 30
# Number of rows on which partitions are compared: enough to find the best.
_ROWS = 10_000
# One in this many of them is held out.
_LEFT_OUT = 5
# Nats a row that the labels of a pair may leave open if it is to be merged.
_CERTAIN = 0.2


@partial(jit, static_argnames="most")
def predictive_labels(key: jax.Array, family: Family, rows: PyTree, most: int) -> jax.Array:
    """Return labels of a partition into at most `most` clusters that predicts well, int32 [N].

    Partitions are compared on at most 10,000 random rows; all rows are then assigned to the
    clusters of the best one.
    """
    size = family_rows.size(rows)
    if most == 1:
        return jnp.zeros(size, jnp.int32)
    key = by_native_code(key)
    key_some, key_candidates, key_rest = jax.random.split(key, 3)
    some = jax.random.permutation(key_some, size)[:_ROWS]
    compared = family_rows.take(rows, some)
    compared_means = family_rows.fill_means(compared)
    numbers = sorted({min(number, most) for number in (*_NUMBERS, *_MORE)})
    first = sum(number <= _NUMBERS[-1] for number in numbers)

    def choose(densities: jax.Array) -> jax.Array:
        return _chosen(densities[:, len(some) - len(some) // _LEFT_OUT :])

    def is_new(i: jax.Array, densities: jax.Array) -> jax.Array:
        return (i < first) | ((i < len(numbers)) & (choose(densities) == i - 1))

    def go_on(loop: tuple) -> jax.Array:
        i, again, gain, (densities, _, _) = loop
        return is_new(i, densities) | ((again < _AGAIN) & (gain > _RISE))

    def candidate(loop: tuple) -> tuple:
        i, again, _, tried = loop
        new = is_new(i, tried[0])
        place = jnp.where(new, i, choose(tried[0]))
        start = jax.tree.map(lambda leaf: leaf[place], tried[1:])
        key = jax.random.fold_in(key_candidates, i + again)
        number = jnp.asarray(numbers)[place]
        found = _candidate(key, number, family, compared, most, start, new)
        gain = jnp.mean(found[0] - tried[0][place])
        tried = jax.tree.map(lambda leaf, one: leaf.at[place].set(one), tried, found)
        return i + new, again + ~new, jnp.where(new, jnp.inf, gain), tried

    begin = jnp.zeros(len(some), jnp.int32), family_rows.missing_values(compared, compared_means)
    shapes = jax.eval_shape(
        lambda: _candidate(key, jnp.int32(1), family, compared, most, begin, jnp.bool_(True))
    )
    nothing = jax.tree.map(
        lambda leaf: jnp.full((len(numbers), *leaf.shape), -jnp.inf).astype(leaf.dtype), shapes
    )
    loop = jnp.int32(0), jnp.int32(0), jnp.asarray(jnp.inf, nothing[0].dtype), nothing
    densities, labels, cells = lax.while_loop(go_on, candidate, loop)[-1]
    chosen = choose(densities)
    best = labels[chosen]
    if size == len(some):
        return jnp.zeros_like(best).at[some].set(best)
    key_clusters, key_rows = jax.random.split(key_rest)
    complete = family_rows.fill(compared, [values[chosen] for values in cells])
    number = jnp.max(best) + 1
    drawn = _draw_clusters(key_clusters, family, complete, best, number, most)

    def part(ids: jax.Array) -> jax.Array:
        logits = _logits(family, family_rows.take(rows, ids), drawn, number)
        return _draw_labels(jax.random.fold_in(key_rows, ids[0]), logits)

    parts = in_parts(lax.iota(jnp.int32, size), rows_at_once(rows, size, most), size - 1)
    return lax.map(part, parts).ravel()[:size]


def merged(key: jax.Array, family: Family, rows: PyTree, labels: jax.Array) -> np.ndarray:
    """Return labels with the clusters merged that are better together, int32 [N]; see above."""
    names = np.asarray(labels)
    count = int(names.max()) + 1
    if count == 1 or family.log_evidence is None:
        return names
    width = _width(count)  # few shapes to compile
    statistics, own, open_ = _pairs_open(key, family, rows, labels, width=width)
    # The entropy of a merged cluster with a third is the sum of both parts'.
    entropy, evidence = np.array(open_, np.float64), np.array(own, np.float64)
    sizes = np.bincount(names, minlength=width).astype(np.float64)
    together = np.array(
        [np.asarray(_evidences_with(family, statistics, i)) for i in range(count)], np.float64
    )
    alive = np.arange(width) < count
    alive[:count] &= sizes[:count] > 0

    def gains(a: int) -> np.ndarray:
        n, m = sizes[a], np.maximum(sizes[:count], 1)
        process = special.gammaln(n + m) - special.gammaln(n) - special.gammaln(m)
        gained = together[a] + process - evidence[a] - evidence[:count] - entropy[a, :count]
        return np.where(entropy[a, :count] < _CERTAIN * (n + m), gained, -np.inf)

    together, alive = together[:, :count], alive[:count]
    table = np.array([gains(a) for a in range(count)])
    table[~alive], table[:, ~alive] = -np.inf, -np.inf
    np.fill_diagonal(table, -np.inf)
    while True:
        a, b = np.unravel_index(np.argmax(table), table.shape)
        if not table[a, b] > 0:
            break
        names = np.where(names == b, a, names)
        alive[b] = False
        sizes[a] += sizes[b]
        evidence[a] = together[a, b]
        entropy[a] += entropy[b]
        entropy[:, a] += entropy[:, b]
        statistics = _joined(statistics, a, b)
        together[a] = together[:, a] = np.asarray(_evidences_with(family, statistics, a))[:count]
        table[b], table[:, b] = -np.inf, -np.inf
        table[a] = np.where(alive & (np.arange(count) != a), gains(int(a)), -np.inf)
        table[:, a] = table[a]
    return names


@jit
def _joined(statistics: PyTree, a: ArrayLike, b: ArrayLike) -> PyTree:
    return jax.tree.map(lambda leaf: leaf.at[a].add(leaf[b]), statistics)


@jit
def _evidences_with(family: Family, statistics: PyTree, a: ArrayLike) -> jax.Array:
    """Return the log evidence of each cluster together with cluster a, [K]."""
    assert family.log_evidence is not None
    return family.log_evidence(jax.tree.map(lambda leaf: leaf + leaf[a], statistics))


@partial(jit, static_argnames="width")
def _pairs_open(
    key: jax.Array, family: Family, rows: PyTree, labels: jax.Array, *, width: int
) -> tuple[PyTree, jax.Array, jax.Array]:
    """Return statistics and evidence of clusters, and the entropy of labels in each pair, [K, K].

    The entropy is that of at most 10,000 rows, scaled up, with one draw of the clusters.
    """
    assert family.log_evidence is not None
    size = family_rows.size(rows)
    key_some, key_atoms = jax.random.split(by_native_code(key))
    complete = completed(jax.random.fold_in(key_some, 1), family, rows, labels, width)
    statistics = statistics_of(family, complete, labels, lax.iota(jnp.int32, size), width)
    atoms = draw_atoms(family, key_atoms, statistics)
    sizes = jnp.zeros(width, jnp.int32).at[labels].add(1).astype(jnp.result_type(float))
    log_sizes = jnp.where(sizes > 0, jnp.log(sizes), -jnp.inf)
    some = jax.random.permutation(key_some, size)[:_ROWS]
    parts = in_parts(some, rows_at_once(rows, some.shape[0], width), size)

    def part(total: jax.Array, ids: jax.Array) -> tuple[jax.Array, None]:
        logits = family.log_likelihood(family_rows.take(rows, ids), atoms) + log_sizes
        p = jnp.where((ids < size)[:, None], jax.nn.softmax(logits, axis=1), 0)

        def with_cluster(q: jax.Array) -> jax.Array:
            both = p + q[:, None]
            return -jnp.sum(xlogy(p, p) + xlogy(q, q)[:, None] - xlogy(both, both), axis=0)

        return total + lax.map(with_cluster, p.T), None

    total, _ = lax.scan(part, jnp.zeros((width, width), log_sizes.dtype), parts)
    return statistics, family.log_evidence(statistics), total * (size / some.shape[0])


def _candidate(
    key: jax.Array,
    number: jax.Array,
    family: Family,
    rows: PyTree,
    most: int,
    start: tuple[jax.Array, tuple[jax.Array, ...]],
    new: jax.Array,
) -> tuple[jax.Array, jax.Array, tuple[jax.Array, ...]]:
    """Return log densities of the rows, up to a constant, and labels of a partition.

    Also the values of missing cells, if the family draws them. It starts at random if it is new,
    and else from labels and cells.

    The rows are in random order; the last ones are held out.
    """
    size = family_rows.size(rows)
    places = lax.iota(jnp.int32, size)
    learned = places < size - size // _LEFT_OUT
    key_start, key_turns = jax.random.split(key)

    def turn(i: jax.Array, now: tuple) -> tuple:
        labels, total, cells = now
        key_clusters, key_labels = jax.random.split(jax.random.fold_in(key_turns, i))
        labels = jnp.where(learned, labels, _width(most))  # beyond all clusters
        complete = family_rows.fill(rows, cells)
        drawn = _draw_clusters(key_clusters, family, complete, labels, number, most)
        logits = _logits(family, rows, drawn, number)
        # The first half is burn-in.
        density = logsumexp(logits, axis=0)
        total = jnp.where(i < _ROUNDS // 2, total, jnp.logaddexp(total, density))
        labels = _draw_labels(key_labels, logits)
        if cells:
            assert family.missing is not None
            keys = jax.random.split(to_jax_key(jax.random.fold_in(key_labels, 1)), size)
            complete = family.missing.draw(keys, rows, drawn[1], labels)
            cells = family_rows.missing_values(rows, complete)
        return labels, total, cells

    random = jax.random.randint(key_start, (size,), 0, number, jnp.int32)
    means = family_rows.missing_values(rows, family_rows.fill_means(rows))
    labels, cells = jax.tree.map(lambda a, b: jnp.where(new, a, b), (random, means), start)
    none = jnp.full(size, -jnp.inf)
    labels, total, cells = lax.fori_loop(0, _ROUNDS, turn, (labels, none, cells))
    return total, labels, cells


def _width(number: int) -> int:
    """Return a number of clusters rounded up to whole blocks."""
    return -(-number // BLOCK) * BLOCK


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
    key: jax.Array, family: Family, rows: PyTree, labels: jax.Array, number: jax.Array, most: int
) -> tuple[jax.Array, PyTree]:
    """Draw log shares, -inf from cluster `number` on, and atoms, given the labels of rows.

    There are `most`, rounded up to blocks of which only those in use are drawn.
    """
    key_shares, key_atoms = jax.random.split(key)
    width = _width(most)
    sizes = jnp.zeros(width, jnp.result_type(float)).at[labels].add(1, mode="drop")
    log_shares = draws.log_dirichlet(key_shares, sizes + 1 / most)
    log_shares = jnp.where(jnp.arange(width) < number, log_shares, -jnp.inf)
    statistics = family.statistics(rows, labels, width)

    def draw(i: jax.Array | int) -> PyTree:
        return draw_atoms(family, jax.random.fold_in(key_atoms, i), block_of(statistics, i))

    return log_shares, in_blocks(draw, number, width)


def _logits(
    family: Family, rows: PyTree, drawn: tuple[jax.Array, PyTree], number: jax.Array
) -> jax.Array:
    """Return log weights of the first clusters for each row, -inf for the others, [K, n]."""

    def some(i: jax.Array | int) -> jax.Array:
        log_shares, atoms = block_of(drawn, i)
        return (family.log_likelihood(rows, atoms) + log_shares).T

    width = len(drawn[0])
    inside = (jnp.arange(width) < number)[:, None]
    return jnp.where(inside, in_blocks(some, number, width), -jnp.inf)


def _draw_labels(key: jax.Array, logits: jax.Array) -> jax.Array:
    """Draw the cluster of each row, int32 [n], given logits [K, n]."""
    weights = jnp.exp(logits - jnp.max(logits, axis=0))
    words, _ = words_by_native_code(key, weights.shape[1], weights.dtype)
    return choose_by_native_code(weights, uniform.uniform(words, weights.dtype))
