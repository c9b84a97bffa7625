r"""Exact split-merge moves of the partition, for any number of rows.

The first anchor is a random row. With probability 1/2 a split of its cluster is proposed, otherwise
a merge with another cluster; the second anchor is another row of the same cluster, or a row of the
other one. As in Jain and Neal (2004), the split comes from a launch state that uses only the set of
rows involved, not their labels, so that a merge can compute the probability of the reverse split.
Their sequential scans are replaced by parallel steps: two atoms are drawn given one anchor each;
all other rows choose between them independently; shares and atoms are drawn given both groups, and
so on for some rounds.

Jain and Neal draw both anchors from all rows, so that with many clusters two that belong together
hardly ever meet. Here half of the partners are drawn in proportion to their sizes, as there, and
the other half in proportion to the square root of the posterior ratio of the merge, a locally
balanced proposal (Zanella 2020), except for small weights, which float32 cannot resolve.

A launch that has settled hardly ever ends in the groups of a bad split, so that a few rows that
left their cluster for one of their own would not find back: the merge is far more probable, and its
reverse far more improbable. A quarter of the moves, chosen beforehand, are therefore blind: the
other rows go to the second group with a probability that is uniform, whatever they are, so that
their number is uniform. Such a split is hardly ever accepted, and such a merge often (compare Wang
and Russell 2015, smart and dumb proposals).

Sticks, atoms and the assignment of clusters to sticks are integrated out: the target is the
posterior of the partition into clusters of :math:`m_1, \dots, m_k` rows,

.. math:: p(\text{partition} \mid x) \propto
    \prod_c \alpha\, \Gamma(m_c)\, f(x_{(c)}),

with f the evidence of the rows of a cluster. The order of the clusters, sticks and atoms must be
redrawn given the partition before they are used again: see `order.size_biased`.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import gammaln
from jax.typing import ArrayLike

from simplex_jax._src import draws
from simplex_jax._src.base import PyTree
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.categorical import choose_by_native_code
from simplex_jax._src.draws.keys import words_by_native_code
from simplex_jax._src.geometry.rising import log_rising
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.families.family import draw_atoms
from simplex_jax._src.models.dpm.state import BLOCK, where
from simplex_jax._src.models.dpm.totals import add, no_loss

# Number of rows processed together; fewer if their statistics are large, as those of a covariance
# of many columns, because the clusters involved may be smaller.
_CHUNK, _LEAST_CHUNK = 4096, 256
_STATISTICS_AT_ONCE = 2**21
_BLIND = 0.25  # share of blind moves
# Partners of smaller weight are drawn by their sizes alone: a running sum in float32 resolves only
# 2^-24, and the actual proposal probabilities have to match the computed ones.
_LEAST = 2.0**-13


class Proposal(NamedTuple):
    """Outcome of a move."""

    labels: jax.Array  # stick of every row, int32 [N]
    statistics: PyTree  # of every stick, leaves [C, ...]; fresh sums where something changed
    occupancy: jax.Array  # rows of every stick, int32 [C]
    accepted: jax.Array  # whether the labels changed, bool
    # sticks needed, int32: C + 1 if a split found no empty stick and was not done; repeat it with
    # the same key once there is room
    needed: jax.Array


class _Members(NamedTuple):
    """The rows involved: all rows of the clusters of the anchors."""

    ids: jax.Array  # their indices in order, int32 [N], padded with N
    size: jax.Array  # their number, int32
    anchors: jax.Array  # one row of each group, int32 [2]


class _Partners(NamedTuple):
    """Merge partners of a cluster: their proposal probabilities and posterior ratios.

    The probabilities are 0 for the cluster itself and for empty ones. A partner is drawn from
    either with probability 1/2; if both are 0 there is none.
    """

    by_size: jax.Array  # [C]
    by_ratio: jax.Array  # [C]
    # of both clusters to their union, but for alpha; meaningless where the probabilities are 0
    log_apart: jax.Array  # [C]
    log_beta: jax.Array  # what their sizes alone contribute to it, [C]

    def log_p(self, one: jax.Array) -> jax.Array:
        """Return the log probability of a partner."""
        return jnp.log((self.by_size[one] + self.by_ratio[one]) / 2)


class _Groups(NamedTuple):
    """The rows involved, in two groups."""

    sides: jax.Array  # group 0 or 1 of every row, int32 [N]; 2 for the rows of other clusters
    statistics: PyTree  # of both groups, leaves [2, ...]
    sizes: jax.Array  # their numbers of rows, int32 [2]
    log_q: jax.Array  # log probability of the sides of all rows but the anchors


def propose(
    key: jax.Array,
    family: Family,
    rows: PyTree,
    labels: jax.Array,
    statistics: PyTree,
    occupancy: jax.Array,
    alpha: ArrayLike,
    *,
    rounds: int = 3,
) -> Proposal:
    """Do one Metropolis-Hastings split or merge.

    With groups A and B of m and l rows, the first anchor in A, a split of their union has the ratio

        alpha Gamma(m) Gamma(l) f(A) f(B) / (Gamma(m + l) f(A and B))
            (m + l - 1) p(B | A) / (l q(A, B)),

    where q is the probability that the launch ends in these groups, in a blind move Gamma(m)
    Gamma(l) / Gamma(m + l), and p(B | A) that of B as the partner of A; a merge has the inverse
    ratio. The cost is `rounds` + 1 passes over the rows involved with two atoms, one pass over all
    labels, int32 [N], and two evidences of all clusters.
    A new cluster goes to the first empty stick. The family needs a `log_evidence`;
    statistics and occupancy are those of all sticks, leaves [C, ...].
    """
    if family.log_evidence is None:
        raise ValueError("split-merge moves need a family that has a log_evidence")
    n, capacity = labels.shape[0], occupancy.shape[0]
    alpha = jnp.asarray(alpha, jnp.result_type(float))
    if n < 2:
        return Proposal(labels, statistics, occupancy, jnp.bool_(False), jnp.int32(0))
    key_anchors, key_launch, key_accept = jax.random.split(key, 3)
    key_first, key_kind, key_partner, key_second = jax.random.split(key_anchors, 4)
    key_shares, key_atoms, key_sides = jax.random.split(key_launch, 3)
    blind = jax.random.bernoulli(jax.random.fold_in(key_kind, 1), _BLIND)
    anchor = jax.random.randint(key_first, (), 0, n)
    first = labels[anchor]
    split = jax.random.bernoulli(key_kind)
    empty = jnp.argmin(occupancy > 0).astype(labels.dtype)

    def launch(partners: _Partners) -> tuple:
        second = jnp.where(split, first, _draw_partner(key_partner, partners, labels, first))
        members = _find_members(key_second, labels, anchor, second)
        present = (labels == second).astype(jnp.int32)

        def turn(i: jax.Array, groups: _Groups) -> _Groups:
            sizes = jnp.where(blind, 1, groups.sizes).astype(jnp.result_type(float))
            log_shares = draws.log_dirichlet(jax.random.fold_in(key_shares, i), sizes)
            atoms = draw_atoms(family, jax.random.fold_in(key_atoms, i), groups.statistics)
            # For a merge, the last round scores the present groups instead of drawing.
            drawn = split | (i < rounds)
            key = jax.random.fold_in(key_sides, i)
            return _choose(key, family, rows, members, atoms, log_shares, present, drawn, blind)

        start = _Groups(
            jnp.full(n, 2, jnp.int32),
            family.statistics(family_rows.take(rows, members.anchors), jnp.arange(2), 2),
            jnp.ones(2, jnp.int32),
            jnp.zeros((), jnp.result_type(float)),
        )
        groups = lax.fori_loop(0, rounds + 1, turn, start)
        return partners, second, groups, _after_split(statistics, occupancy, groups, first, empty)

    def find(i: jax.Array, now: tuple) -> tuple:
        partners, second, groups, (sums, sizes) = now
        partners = lax.cond(
            split == (i > 0), lambda: _find_partners(family, sums, sizes, first), lambda: partners
        )
        keep = partners, second, groups, (sums, sizes)
        return lax.cond(i > 0, lambda: keep, lambda: launch(partners))

    # A merge needs the partners before the launch, a split those after it: a loop of two, so that
    # what finds them is compiled once.
    no_groups = _Groups(
        jnp.full(n, 2, jnp.int32),
        jax.tree.map(lambda leaf: jnp.zeros((2, *leaf.shape[1:]), leaf.dtype), statistics),
        jnp.zeros(2, jnp.int32),
        jnp.zeros((), jnp.result_type(float)),
    )
    no_partners = _Partners(*jnp.zeros((4, capacity), alpha.dtype))
    start = no_partners, first, no_groups, (statistics, occupancy)
    partners, second, groups, _ = lax.fori_loop(0, 2, find, start)
    # A cluster of one row cannot be split, and a single cluster has no partner.
    possible = jnp.where(split, occupancy[first] > 1, second != first)
    full = possible & split & jnp.all(occupancy > 0)
    # The stick of the second group after a split, or before a merge.
    other = jnp.where(split, empty, second)
    sizes = groups.sizes.astype(alpha.dtype)
    log_anchors = partners.log_p(other) + jnp.log((jnp.sum(sizes) - 1) / sizes[1])
    log_q = jnp.where(blind, partners.log_beta[other], groups.log_q)
    log_split = jnp.log(alpha) + partners.log_apart[other] + log_anchors - log_q
    log_ratio = jnp.where(split, log_split, -log_split)
    chance = jax.random.uniform(key_accept, (), log_ratio.dtype)
    accepted = (jnp.log(chance) < log_ratio) & possible & ~full
    targets = jnp.stack([first, jnp.where(split, other, first), labels.dtype.type(capacity)])
    moved = jnp.where(groups.sides < 2, targets[groups.sides], labels)
    sums = jax.tree.map(
        lambda leaf: jnp.where(split, leaf, jnp.stack([leaf[0] + leaf[1], leaf[1] * 0])),
        (groups.statistics, groups.sizes),
    )
    places = jnp.where(accepted, jnp.stack([first, other]), capacity)
    statistics, occupancy = jax.tree.map(
        lambda leaf, new: leaf.at[places].set(new.astype(leaf.dtype), mode="drop"),
        (statistics, occupancy),
        sums,
    )
    return Proposal(
        labels=jnp.where(accepted, moved, labels),
        statistics=statistics,
        occupancy=occupancy,
        accepted=accepted,
        needed=jnp.where(full, capacity + 1, 0).astype(jnp.int32),
    )


def _find_partners(
    family: Family, statistics: PyTree, occupancy: jax.Array, first: jax.Array
) -> _Partners:
    """Return the merge partners of `first`, by evidences of the clusters with rows, in blocks.

    The smaller of two clusters is scored alone and given the larger one, so that the subtracted
    numbers are only as large as its evidence.
    """
    assert family.log_evidence is not None
    log_evidence = family.log_evidence
    capacity = occupancy.shape[0]
    block = math.gcd(BLOCK, capacity)
    (clusters,) = jnp.nonzero(occupancy > 0, size=capacity, fill_value=capacity)

    def of_block(i: jax.Array, evidences: jax.Array) -> jax.Array:
        some = lax.dynamic_slice(clusters, (i * block,), (block,))
        theirs = jax.tree.map(lambda leaf: leaf.at[some].get(mode="clip"), statistics)
        own = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf[first], (block, *leaf.shape[1:])), statistics
        )
        smaller = occupancy.at[some].get(mode="clip") < occupancy[first]
        few, many = where(smaller, theirs, own), where(smaller, own, theirs)
        # Evidences alone and given the larger cluster, in one call to save compile time.
        given = jax.tree.map(lambda leaf: jnp.concatenate([jnp.zeros_like(leaf), leaf]), many)
        twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), few)
        both = log_evidence(twice, given).reshape(2, block)
        return evidences.at[:, some].set(both.astype(evidences.dtype), mode="drop")

    none = jnp.zeros((2, capacity), jnp.result_type(float))
    number = jnp.sum(occupancy > 0)
    alone, together = lax.fori_loop(0, -(-number // block), of_block, none)
    others = (occupancy > 0) & (jnp.arange(capacity) != first)
    sizes = jnp.maximum(occupancy, 1).astype(alone.dtype)
    log_beta = _log_beta(sizes, sizes[first])
    log_apart = log_beta + (alone - together)
    by_size = jnp.where(others, sizes, 0)
    by_size = by_size / jnp.maximum(jnp.sum(by_size), 1)
    logits = -log_apart / 2
    largest = jnp.max(logits, where=others, initial=jnp.finfo(alone.dtype).min)
    weights = jnp.where(others, jnp.exp(jnp.where(others, logits - largest, 0)), 0)
    weights = weights / jnp.maximum(jnp.sum(weights), 1)  # the largest is 1 unless all are 0
    weights = jnp.where(weights < _LEAST, 0, weights)
    total = jnp.sum(weights)
    by_ratio = jnp.where(total > 0, weights / jnp.maximum(total, _LEAST), by_size)
    return _Partners(by_size, by_ratio, log_apart, log_beta)


def _log_beta(one: jax.Array, other: jax.Array) -> jax.Array:
    """Return log Gamma(m) Gamma(l) / Gamma(m + l), without the difference of large numbers."""
    few, many = jnp.minimum(one, other), jnp.maximum(one, other)
    return gammaln(few) - log_rising(many, few)


def _draw_partner(
    key: jax.Array, partners: _Partners, labels: jax.Array, first: jax.Array
) -> jax.Array:
    """Draw a merge partner; `first` itself if there is no other cluster."""
    key_kind, key_row, key_ratio = jax.random.split(key, 3)
    # By size: the cluster of a random row, drawn by its integer rank.
    others = jnp.cumsum(labels != first)
    rank = jax.random.randint(key_row, (), 0, jnp.maximum(others[-1], 1))
    of_row = labels[_row_of_rank(others, rank)]
    # By a single uniform: the partner must not depend on the empty sticks at the end.
    u = jax.random.uniform(key_ratio, (1,), partners.by_ratio.dtype)
    by_ratio = choose_by_native_code(partners.by_ratio[:, None], u)[0].astype(labels.dtype)
    drawn = jax.random.bernoulli(key_kind) & jnp.any(partners.by_ratio != partners.by_size)
    partner = jnp.where(drawn, by_ratio, of_row)
    return jnp.where(others[-1] > 0, partner, first)


def _row_of_rank(counted: jax.Array, rank: jax.Array) -> jax.Array:
    """Return the row with a rank, from 0 on, among the rows that a running sum [N] counts."""
    return jnp.minimum(jnp.sum(counted <= rank, dtype=jnp.int32), counted.shape[0] - 1)


def _after_split(
    statistics: PyTree, occupancy: jax.Array, groups: _Groups, first: jax.Array, empty: jax.Array
) -> tuple[PyTree, jax.Array]:
    """Return statistics and occupancy after a split that puts the second group at `empty`."""
    both = jnp.stack([first, empty])
    apart, sizes = jax.tree.map(
        lambda leaf, new: leaf.at[both].set(new.astype(leaf.dtype)),
        (statistics, occupancy),
        (groups.statistics, groups.sizes),
    )
    return apart, sizes


def _find_members(
    key: jax.Array, labels: jax.Array, anchor: jax.Array, second: jax.Array
) -> _Members:
    """Draw the second anchor from a cluster, and find all rows in the clusters of both anchors.

    The result is invalid if the cluster has no other row.
    """
    n = labels.shape[0]
    numbers = lax.iota(jnp.int32, n)
    others = jnp.cumsum((labels == second) & (numbers != anchor))
    rank = jax.random.randint(key, (), 0, jnp.maximum(others[-1], 1))
    anchors = jnp.stack([anchor, _row_of_rank(others, rank).astype(anchor.dtype)])
    inside = (labels == labels[anchor]) | (labels == second)
    place = jnp.where(inside, jnp.cumsum(inside) - 1, n)
    ids = jnp.full(n, n, jnp.int32).at[place].set(numbers, mode="drop")
    return _Members(ids, jnp.sum(inside, dtype=jnp.int32), anchors)


def _choose(
    key: jax.Array,
    family: Family,
    rows: PyTree,
    members: _Members,
    atoms: PyTree,
    log_shares: jax.Array,
    present: jax.Array,
    drawn: jax.Array,
    blind: jax.Array,
) -> _Groups:
    """Draw for every row involved, except the anchors, one of two atoms.

    If `drawn` is false, the choices are those of `present`; if `blind` is true, by shares alone.
    """
    n = members.ids.shape[0]
    shapes = jax.eval_shape(
        lambda: family.statistics(
            family_rows.take(rows, members.ids[:1]), jnp.zeros(1, jnp.int32), 2
        )
    )
    most = _CHUNK
    if family_rows.width(rows) > 1:  # sums of sparse rows take time by their entries
        size = sum(leaf.size for leaf in jax.tree.leaves(shapes)) // 2
        most = min(_CHUNK, max(_LEAST_CHUNK, _STATISTICS_AT_ONCE // size))
    step = min(most, n)
    ids = jnp.pad(members.ids, (0, -n % step), constant_values=n)

    def chunk(loop: tuple[jax.Array, _Groups]) -> tuple[jax.Array, _Groups]:
        first, groups = loop
        numbers = lax.dynamic_slice(ids, (first,), (step,))
        some = family_rows.take(rows, numbers)
        log_f = jnp.where(blind, 0, family.log_likelihood(some, atoms)) + log_shares
        log_odds = log_f[:, 1] - log_f[:, 0]
        words, _ = words_by_native_code(jax.random.fold_in(key, first), step, log_odds.dtype)
        chance = uniform.uniform(words, log_odds.dtype)
        side = (chance < jax.nn.sigmoid(log_odds)).astype(jnp.int32)
        side = jnp.where(drawn, side, present.at[numbers].get(mode="clip"))
        anchor = (numbers == members.anchors[0]) | (numbers == members.anchors[1])
        side = jnp.where(anchor, (numbers == members.anchors[1]).astype(jnp.int32), side)
        inside = numbers < n
        side = jnp.where(inside, side, 2)
        log_p = jax.nn.log_sigmoid(jnp.where(side == 1, log_odds, -log_odds))
        log_q = groups.log_q + jnp.sum(jnp.where(inside & ~anchor, log_p, 0))
        added = family.statistics(some, side, 2)
        return first + step, _Groups(
            groups.sides.at[numbers].set(side, mode="drop"),
            add(groups.statistics, added),
            groups.sizes.at[side].add(1, mode="drop"),
            log_q,
        )

    start = _Groups(
        jnp.full(n, 2, jnp.int32),
        no_loss(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)),
        jnp.zeros(2, jnp.int32),
        jnp.zeros((), log_shares.dtype),
    )
    loop = lax.while_loop(lambda loop: loop[0] < members.size, chunk, (jnp.int32(0), start))
    return loop[1]._replace(statistics=jax.tree.map(jnp.add, *loop[1].statistics))
