r"""Exact split-merge moves of all clusters at once, for any number of rows.

A round proposes for about half of the clusters to be split, or to be merged with another one. As in
Jain and Neal (2004), a move has two rows as anchors, which say what would be split or merged, and a
split comes from a launch state that uses only the set of rows involved, not their labels, so that a
merge can compute the probability of the reverse split. Their sequential scans are replaced by
parallel steps: two atoms are drawn given one anchor each; all other rows choose between them
independently; shares and atoms are drawn given both groups, and so on for some rounds.

**Moves at the same time.** Some rows are listed, at random and independently of the partition.
Each cluster is active or not, by a coin. An active one is to be split or merged, with a blind move
or not, by coins too; its first anchor is one of its listed rows, and the second another one of them
(split), or a listed row of another cluster (merge), with a probability that depends on the rows of
the first cluster and on the list alone. All this is redrawn in each round, and extends the target
by one factor for each cluster,

.. math:: \prod_c \alpha\, \Gamma(m_c)\, f(x_{(c)})\, p(\text{choices of } c \mid x_{(c)}).

The cell of an active cluster are the clusters of its two anchors. A cell is moved if no active
cluster whose first anchor is listed earlier has a cell that overlaps it, and, of two clusters, if
the second is not active. A merge leaves one cluster to be split, with the same anchors, and a split
leaves one to be merged with another that is not active. Then:

1. Cells that are moved are disjoint, so that their factors of the target are different ones.
2. A move keeps the union of the rows of its cell, and its anchors. So the same cells are moved
   afterwards, whatever the others do: an overlap with a cell that is moved remains one, because a
   row in it remains in it; and of two overlapping cells that are not moved, either the cluster that
   they share is in no cell that is moved, and stays, or both overlap with the one that has it. A
   merge that is refused because its second cluster is active stays refused: either none of its
   clusters changes, or a cell that is moved has its second cluster, and still excludes it.

Hence, given what is the same before and after, each cell has a target and proposals of its own, and
Metropolis-Hastings moves of all of them, independently accepted, keep the target.

The second anchor of a merge is with probability 1/2 any listed row of another cluster, and
otherwise one in proportion to its density under an atom drawn given the rows of the first.

A launch that has settled hardly ever ends in the groups of a bad split, so that a few rows that
left their cluster for one of their own would not find back: the merge is far more probable, and its
reverse far more improbable. A quarter of the moves, chosen beforehand, are therefore blind: the
other rows go to the second group with a probability that is uniform, whatever they are, so that
their number is uniform. Such a split is hardly ever accepted, and such a merge often (compare Wang
and Russell 2015, smart and dumb proposals).

Sticks, atoms and the assignment of clusters to sticks are integrated out. The order of the
clusters, sticks and atoms must be redrawn given the partition before they are used again: see
`state.size_biased`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
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
from simplex_jax._src.models.dpm.state import BLOCK, block_of, by_blocks, in_blocks, where
from simplex_jax._src.models.dpm.totals import add, no_loss

# Number of rows processed together; fewer if the clusters involved may be smaller: of few rows, and
# where statistics are large, as those of a covariance of many columns.
_CHUNK, _LEAST_CHUNK = 4096, 256
_PIECES = 64
_STATISTICS_AT_ONCE = 2**21
# Number of rows listed.
_LISTED = 2048
_ACTIVE = 0.5  # probability that a cluster is active
_BLIND = 0.25  # share of blind moves
# Anchors of smaller weight are drawn uniformly alone: a running sum in float32 resolves only 2^-24,
# and the actual proposal probabilities have to match the computed ones.
_LEAST = 2.0**-13


class Proposal(NamedTuple):
    """Outcome of a round."""

    labels: jax.Array  # stick of every row, int32 [N]
    statistics: PyTree  # of every stick, leaves [C, ...]; fresh sums where something changed
    occupancy: jax.Array  # rows of every stick, int32 [C]
    proposed: jax.Array  # number of moves proposed, int32
    accepted: jax.Array  # number of them accepted, int32
    # sticks needed, int32: above C if splits found no empty stick and nothing was done; repeat the
    # round with the same key once there is room
    needed: jax.Array


class _Cells(NamedTuple):
    """Cells that are moved, G at most, the others without rows."""

    first: jax.Array  # stick of the cluster of the first anchor, int32 [G]; C where there is none
    second: jax.Array  # that of the second anchor: the same one for a split
    split: jax.Array  # bool [G]
    blind: jax.Array  # bool [G]
    places: jax.Array  # of both anchors in the list, int32 [G, 2]
    weight: jax.Array  # twice the probability of the second anchor of a merge, [G]
    number: jax.Array  # number of cells, int32


class _Members(NamedTuple):
    """The rows of the cells, cell by cell, in pieces of one cell each."""

    ids: jax.Array  # their indices, int32 [N], then those of the other rows
    cell: jax.Array  # cell of every row, int32 [N]; G for other rows
    ends: jax.Array  # last of the rows of every cell in `ids`, and one more, int32 [G]
    sizes: jax.Array  # number of rows of every cell, int32 [G]
    anchors: jax.Array  # rows, int32 [G, 2]


class _Groups(NamedTuple):
    """The rows of the cells, in two groups each; those of a merge are its clusters."""

    sides: jax.Array  # group 0 or 1 of every row, int32 [N]; 2 for the rows of other clusters
    statistics: PyTree  # of both groups, leaves [G, 2, ...]
    sizes: jax.Array  # their numbers of rows, int32 [G, 2]
    log_q: jax.Array  # log probability of the sides of all rows but the anchors, [G]


class _Anchors(NamedTuple):
    """Probabilities of the second anchors of mergers, of listed rows outside of a cluster."""

    by_chance: jax.Array  # of any of them, [G]
    by_density: jax.Array  # of each, [G, L]
    differ: jax.Array  # whether these are others than by chance, bool [G]

    def weight(self, places: jax.Array) -> jax.Array:
        """Return twice the probability of one anchor of each cluster, [G]."""
        return self.by_chance + self.by_density[jnp.arange(places.shape[0]), places]


class _Turn(NamedTuple):
    """What the first of two turns of `propose` leaves to the second, and that to the rest."""

    anchors: _Anchors
    sums: PyTree  # statistics of the clusters of first anchors, leaves [G, ...]
    clusters: jax.Array  # the cluster of every listed row, G if it is in none of them, int32 [L]
    launched: tuple[_Cells, _Members, _Groups]


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
    """Do one round of Metropolis-Hastings splits and merges.

    With groups A and B of m and l rows, of which a and b are listed, a split of their union has the
    ratio

        alpha Gamma(m) Gamma(l) f(A) f(B) / (Gamma(m + l) f(A and B))
            (1 - p) p(t | A) (a + b) (a + b - 1) / (a q(A, B)),

    where q is the probability that the launch ends in these groups, in a blind move Gamma(m)
    Gamma(l) / Gamma(m + l), p that of a cluster to be active, and p(t | A) that of the second
    anchor t, if A is to be merged; a merge has the inverse ratio. The cost is `rounds` + 1 passes
    over the rows involved with two atoms, the sort of all labels, int32 [N], and two evidences of
    each cell.
    New clusters go to the first empty sticks. The family needs a `log_evidence`;
    statistics and occupancy are those of all sticks, leaves [C, ...].
    """
    if family.log_evidence is None:
        raise ValueError("split-merge moves need a family that has a log_evidence")
    n, capacity = labels.shape[0], occupancy.shape[0]
    alpha = jnp.asarray(alpha, jnp.result_type(float))
    if n < 2:
        none = jnp.int32(0)
        return Proposal(labels, statistics, occupancy, none, none, none)
    key_list, key_cells, key_launch, key_after, key_accept = jax.random.split(key, 5)
    listed = _draw_list(key_list, n)
    listed_rows, listed_labels = family_rows.take(rows, listed), labels[listed]
    width = -(-capacity // BLOCK) * BLOCK

    def padded(tree: PyTree) -> PyTree:
        return jax.tree.map(
            lambda leaf: jnp.pad(leaf, [(0, width - capacity), *[(0, 0)] * (leaf.ndim - 1)]), tree
        )

    def weigh(key: jax.Array, sums: PyTree, clusters: jax.Array) -> _Anchors:
        number = _numbers(clusters, width)
        by_chance = 1 / jnp.maximum(listed.shape[0] - number, 1).astype(alpha.dtype)

        def draw(i: jax.Array | int) -> tuple[jax.Array, jax.Array]:
            atoms = draw_atoms(family, jax.random.fold_in(key, i), block_of(sums, i))
            outside = clusters != i * BLOCK + jnp.arange(BLOCK)[:, None]
            log_f = family.log_likelihood(listed_rows, atoms).T
            return _by_density(log_f, outside, block_of(by_chance, i))

        some = jnp.max(jnp.where(clusters < width, clusters + 1, 0))
        return _Anchors(by_chance, *in_blocks(draw, some, width))

    def launch(anchors: _Anchors) -> tuple[_Cells, _Members, _Groups]:
        cells = _draw_cells(key_cells, anchors, listed_labels)
        members = _find_members(labels, occupancy, cells, listed)
        groups = _launch(key_launch, family, rows, labels, cells, members, rounds)
        return cells, members, groups

    # The weights of second anchors are needed before the launch, for merges, and after it, given
    # the first group of each cell: a loop of two, so that what finds them is compiled once.
    def turn(i: jax.Array, now: _Turn) -> _Turn:
        anchors = weigh(jax.random.fold_in(key_after, i), now.sums, now.clusters)

        def go() -> _Turn:
            cells, members, groups = launch(anchors)
            sums = jax.tree.map(lambda leaf: leaf[:, 0], groups.statistics)
            clusters = jnp.where(groups.sides[listed] == 0, members.cell[listed], width)
            return _Turn(anchors, sums, clusters, (cells, members, groups))

        return lax.cond(i > 0, lambda: now._replace(anchors=anchors), go)

    every = jnp.arange(width)
    sums, clusters = padded(statistics), listed_labels.astype(jnp.int32)

    def all_of(sums: PyTree, clusters: jax.Array) -> tuple:
        anchors = weigh(key, sums, clusters)
        return anchors, launch(anchors)

    nothing, none = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(all_of, sums, clusters)
    )
    last = lax.fori_loop(0, 2, turn, _Turn(nothing, sums, clusters, none))
    cells, members, groups = last.launched
    weight = last.anchors.weight(cells.places[:, 1])
    weight = jnp.where(cells.split, weight, cells.weight)
    numbers = _count_listed(members, groups, listed)
    together = jnp.sum(numbers, axis=1)
    ways = together * (together - 1) / jnp.maximum(numbers[:, 0], 1)
    log_anchors = jnp.log(weight / 2) + jnp.log(ways) + jnp.log1p(-_ACTIVE)
    log_beta, log_apart = _log_apart(family, groups, cells.number)
    log_q = jnp.where(cells.blind, log_beta, groups.log_q)
    log_split = jnp.log(alpha) + log_beta + log_apart + log_anchors - log_q
    log_ratio = jnp.where(cells.split, log_split, -log_split)
    accepted = _are_accepted(key_accept, log_ratio) & (every < cells.number)
    return _done(labels, statistics, occupancy, cells, members, groups, accepted)


def _are_accepted(key: jax.Array, log_ratio: jax.Array) -> jax.Array:
    """Return which moves are accepted, bool [G]: with probability min(1, ratio), 0 if it is NaN.

    A uniform number may be 0, and would accept any ratio; an exponential one is finite.
    """

    def accept(key: jax.Array, log_ratio: jax.Array) -> jax.Array:
        return -jax.random.exponential(key, log_ratio.shape, log_ratio.dtype) <= log_ratio

    return by_blocks(accept, key, log_ratio, at_once=True)


def _draw_list(key: jax.Array, n: int) -> jax.Array:
    """Return distinct rows from all over, in random order, int32 [min(N, _LISTED)]."""
    key_place, key_order = jax.random.split(key)
    size = min(n, _LISTED)
    ends = (np.arange(size + 1) * n // size).astype(np.int32)
    some = jax.random.randint(key_place, (size,), ends[:-1], ends[1:])
    return jax.random.permutation(key_order, some)


def _numbers(clusters: jax.Array, width: int) -> jax.Array:
    """Return the number of listed rows of each cluster, int32 [width]."""
    return jnp.zeros(width, jnp.int32).at[clusters].add(1, mode="drop")


def _by_density(
    log_f: jax.Array, outside: jax.Array, by_chance: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return `by_density` and `differ` of `_Anchors` for some clusters.

    `log_f` has the log densities of the listed rows and `outside` those that count, [G, L].
    """
    least = jnp.finfo(log_f.dtype).min
    log_f = jnp.where(jnp.isnan(log_f), least, jnp.maximum(log_f, least))
    largest = jnp.max(log_f, axis=1, keepdims=True, where=outside, initial=least)
    weights = jnp.where(outside, jnp.exp(log_f - largest), 0)
    weights = weights / jnp.maximum(jnp.sum(weights, axis=1, keepdims=True), 1)  # the largest is 1
    weights = jnp.where(weights < _LEAST, 0, weights)
    total = jnp.sum(weights, axis=1, keepdims=True)
    chance = jnp.where(outside, by_chance[:, None], 0)
    weights = jnp.where(total > 0, weights / jnp.maximum(total, _LEAST), chance)
    return weights, jnp.any(weights != chance, axis=1)


def _draw_cells(key: jax.Array, anchors: _Anchors, clusters: jax.Array) -> _Cells:
    """Draw the choices of all clusters, and return the cells that are moved.

    Clusters are those of the listed rows, int32 [L].
    """
    width, size = anchors.by_density.shape
    number = _numbers(clusters, width)

    def draw(key: jax.Array, number: jax.Array) -> tuple:
        key_coins, key_first, key_other, key_density = jax.random.split(key, 4)
        coins = jax.random.uniform(key_coins, (BLOCK, 4))
        ranks = [
            jax.random.randint(key, (BLOCK,), 0, jnp.maximum(among, 1))
            for key, among in (
                (key_first, number),
                (jax.random.fold_in(key_other, 0), number - 1),
                (jax.random.fold_in(key_other, 1), size - number),
            )
        ]
        return coins, *ranks, jax.random.uniform(key_density, (BLOCK,), anchors.by_density.dtype)

    coins, rank, rank_split, rank_merge, u = by_blocks(draw, key, number, at_once=True)
    active, split, blind, chance = (coins < jnp.array([_ACTIVE, 0.5, _BLIND, 0.5])).T
    order = jnp.argsort(clusters, stable=True).astype(jnp.int32)
    first_place = _place_within(order, number, rank)
    # The second anchor of a split is another row than the first.
    another = _place_within(order, number, rank_split + (rank_split >= rank))
    differ = anchors.differ
    drawn = choose_by_native_code(jnp.where(differ, anchors.by_density.T, 1), u)
    other = jnp.where(chance | ~differ, _place_outside(order, clusters, number, rank_merge), drawn)
    second_place = jnp.where(split, another, other).astype(jnp.int32)
    target = clusters[second_place]
    able = active & (number > 0) & jnp.where(split, number > 1, number < size)
    moved = able & _are_moved(jnp.where(able, first_place, size), target, split, active)
    order = jnp.argsort(~moved, stable=True).astype(jnp.int32)
    is_cell = moved[order]
    return _Cells(
        first=jnp.where(is_cell, order, width),
        second=jnp.where(is_cell, target[order], width),
        split=split[order],
        blind=blind[order],
        places=jnp.stack([first_place, second_place], axis=1)[order],
        weight=anchors.weight(second_place)[order],
        number=jnp.sum(moved, dtype=jnp.int32),
    )


def _are_moved(
    place: jax.Array, target: jax.Array, split: jax.Array, active: jax.Array
) -> jax.Array:
    """Return which clusters have cells that are moved, bool [G].

    `place` is that of the first anchor in the list, the length of the list without anchors, and
    `target` the cluster of the second one.
    """
    earliest = place.at[target].min(place)
    return (earliest == place) & (earliest[target] == place) & (split | ~active[target])


def _place_within(order: jax.Array, number: jax.Array, rank: jax.Array) -> jax.Array:
    """Return the place in the list of the row of each cluster that has a rank in it, from 0 on.

    `order` has the places of all listed rows, cluster by cluster, int32 [L], and `number` their
    numbers.
    """
    return order[jnp.minimum(jnp.cumsum(number) - number + rank, order.shape[0] - 1)]


def _place_outside(
    order: jax.Array, clusters: jax.Array, number: jax.Array, rank: jax.Array
) -> jax.Array:
    """Return the place of the listed row that has a rank among those of other clusters."""
    size = order.shape[0]
    rank_within = jnp.zeros(size, jnp.int32).at[order].set(jnp.arange(size, dtype=jnp.int32))
    rank_within -= (jnp.cumsum(number) - number)[clusters]
    # A row of the cluster comes before the place if no more rows of others than `rank` precede it.
    before = jnp.arange(size, dtype=jnp.int32) - rank_within <= rank[clusters]
    return jnp.minimum(
        rank + _numbers(jnp.where(before, clusters, number.shape[0]), number.shape[0]), size - 1
    )


def _find_members(
    labels: jax.Array, occupancy: jax.Array, cells: _Cells, listed: jax.Array
) -> _Members:
    width, capacity = cells.first.shape[0], occupancy.shape[0]
    numbers = jnp.arange(width, dtype=jnp.int32)
    of_stick = jnp.full(capacity, width, jnp.int32)
    for sticks in (cells.first, cells.second):
        of_stick = of_stick.at[sticks].set(numbers, mode="drop")
    cell = of_stick[labels]
    sizes = jnp.zeros(width, jnp.int32).at[of_stick].add(occupancy, mode="drop")
    return _Members(
        ids=jnp.argsort(cell).astype(jnp.int32),
        cell=cell,
        ends=jnp.cumsum(sizes),
        sizes=sizes,
        anchors=listed[cells.places],
    )


def _launch(
    key: jax.Array,
    family: Family,
    rows: PyTree,
    labels: jax.Array,
    cells: _Cells,
    members: _Members,
    rounds: int,
) -> _Groups:
    """Return the groups in which the launch of each cell ends; of a merge, its clusters."""
    width, n = cells.first.shape[0], labels.shape[0]
    key_groups, key_sides = jax.random.split(key)
    dtype = jnp.result_type(float)

    def of_anchors(cell: jax.Array | int) -> PyTree:
        some = family_rows.take(rows, members.anchors[cell])
        return family.statistics(some, jnp.arange(2, dtype=jnp.int32), 2)

    none = jax.tree.map(
        lambda leaf: jnp.zeros((width, *leaf.shape), leaf.dtype), jax.eval_shape(of_anchors, 0)
    )
    statistics = lax.fori_loop(
        0,
        cells.number,
        lambda i, sums: jax.tree.map(lambda leaf, new: leaf.at[i].set(new), sums, of_anchors(i)),
        none,
    )
    start = _Groups(
        jnp.full(n, 2, jnp.int32),
        statistics,
        jnp.ones((width, 2), jnp.int32),
        jnp.zeros(width, dtype),
    )

    def turn(i: jax.Array, groups: _Groups) -> _Groups:
        sizes = jnp.where(cells.blind[:, None], 1, groups.sizes).astype(dtype)
        key_turn = jax.random.fold_in(key_groups, i)

        def draw(block: jax.Array | int) -> tuple[jax.Array, PyTree]:
            key_shares, key_atoms = jax.random.split(jax.random.fold_in(key_turn, block))
            statistics, own = block_of((groups.statistics, sizes), block)
            pairs = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), statistics)
            atoms = draw_atoms(family, key_atoms, pairs)
            return draws.log_dirichlet(key_shares, own), jax.tree.map(
                lambda leaf: leaf.reshape(-1, 2, *leaf.shape[1:]), atoms
            )

        log_shares, atoms = in_blocks(draw, cells.number, width)
        # For a merge, the last round scores the present groups instead of drawing.
        drawn = cells.split | (i < rounds)
        present = (labels == cells.second.at[members.cell].get(mode="clip")).astype(jnp.int32)
        key = jax.random.fold_in(key_sides, i)
        return _choose(key, family, rows, cells, members, atoms, log_shares, present, drawn)

    return lax.fori_loop(0, rounds + 1, turn, start)


def _choose(
    key: jax.Array,
    family: Family,
    rows: PyTree,
    cells: _Cells,
    members: _Members,
    atoms: PyTree,
    log_shares: jax.Array,
    present: jax.Array,
    drawn: jax.Array,
) -> _Groups:
    """Draw for every row of the cells, except the anchors, one of two atoms.

    Where `drawn` is false, the choices are those of `present`; in blind moves, by shares alone.
    """
    n, width = members.ids.shape[0], cells.first.shape[0]
    shapes = jax.eval_shape(
        lambda: family.statistics(
            family_rows.take(rows, members.ids[:1]), jnp.zeros(1, jnp.int32), 2
        )
    )
    most = min(_CHUNK, n // _PIECES)
    if family_rows.width(rows) > 1:  # sums of sparse rows take time by their entries
        size = sum(leaf.size for leaf in jax.tree.leaves(shapes)) // 2
        most = min(most, _STATISTICS_AT_ONCE // size)
    step = min(max(_LEAST_CHUNK, most), n)
    ids = jnp.pad(members.ids, (0, step), constant_values=n)
    last = jnp.cumsum(-(-members.sizes // step))  # the pieces of each cell end before this one

    def piece(i: jax.Array, groups: _Groups) -> _Groups:
        cell = jnp.sum(last <= i)
        place = jnp.where(cell > 0, last[cell - 1], 0)
        begin = members.ends[cell] - members.sizes[cell] + (i - place) * step
        numbers = lax.dynamic_slice(ids, (begin,), (step,))
        numbers = jnp.where(begin + jnp.arange(step) < members.ends[cell], numbers, n)
        own_atoms, shares, anchors = jax.tree.map(
            lambda leaf: leaf[cell], (atoms, log_shares, members.anchors)
        )
        some = family_rows.take(rows, numbers)
        log_f = family.log_likelihood(some, own_atoms)
        log_f = jnp.where(cells.blind[cell], 0, log_f) + shares
        log_odds = log_f[:, 1] - log_f[:, 0]
        words, _ = words_by_native_code(jax.random.fold_in(key, i), step, log_odds.dtype)
        chance = uniform.uniform(words, log_odds.dtype)
        side = (chance < jax.nn.sigmoid(log_odds)).astype(jnp.int32)
        side = jnp.where(drawn[cell], side, present.at[numbers].get(mode="clip"))
        anchor = (numbers == anchors[0]) | (numbers == anchors[1])
        side = jnp.where(anchor, (numbers == anchors[1]).astype(jnp.int32), side)
        exists = numbers < n
        side = jnp.where(exists, side, 2)
        log_p = jax.nn.log_sigmoid(jnp.where(side == 1, log_odds, -log_odds))
        log_q = jnp.sum(jnp.where(exists & ~anchor, log_p, 0))
        own = jax.tree.map(lambda leaf: leaf[cell], groups.statistics)
        added = add(own, family.statistics(some, side, 2))
        return _Groups(
            groups.sides.at[numbers].set(side, mode="drop"),
            jax.tree.map(lambda leaf, new: leaf.at[cell].set(new), groups.statistics, added),
            groups.sizes.at[cell, side].add(1, mode="drop"),
            groups.log_q.at[cell].add(log_q),
        )

    start = _Groups(
        jnp.full(n, 2, jnp.int32),
        no_loss(jax.tree.map(lambda leaf: jnp.zeros((width, *leaf.shape), leaf.dtype), shapes)),
        jnp.zeros((width, 2), jnp.int32),
        jnp.zeros(width, log_shares.dtype),
    )
    groups = lax.fori_loop(0, last[-1], piece, start)
    return groups._replace(statistics=jax.tree.map(jnp.add, *groups.statistics))


def _count_listed(members: _Members, groups: _Groups, listed: jax.Array) -> jax.Array:
    """Return the numbers of listed rows in both groups of each cell, int32 [G, 2]."""
    none = jnp.zeros(groups.sizes.shape, jnp.int32)
    return none.at[members.cell[listed], groups.sides[listed]].add(1, mode="drop")


def _log_apart(family: Family, groups: _Groups, number: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return what sizes and evidences of two groups contribute to the log ratio to their union.

    The smaller of two groups is scored alone and given the larger one, so that the subtracted
    numbers are only as large as its evidence.
    """
    assert family.log_evidence is not None
    log_evidence = family.log_evidence

    def of_block(i: jax.Array | int) -> jax.Array:
        statistics, sizes = block_of((groups.statistics, groups.sizes), i)
        one, other = (jax.tree.map(lambda leaf, j=j: leaf[:, j], statistics) for j in (0, 1))
        smaller = sizes[:, 0] < sizes[:, 1]
        few, many = where(smaller, one, other), where(smaller, other, one)
        # Evidences alone and given the larger group, in one call to save compile time.
        given = jax.tree.map(lambda leaf: jnp.concatenate([jnp.zeros_like(leaf), leaf]), many)
        twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), few)
        return log_evidence(twice, given).reshape(2, BLOCK).T.astype(groups.log_q.dtype)

    alone, together = in_blocks(of_block, number, groups.sizes.shape[0]).T
    sizes = jnp.maximum(groups.sizes, 1).astype(groups.log_q.dtype)
    few, many = jnp.min(sizes, axis=1), jnp.max(sizes, axis=1)
    # log Gamma(m) Gamma(l) / Gamma(m + l): of numbers of the size of few log(many), so that two
    # groups of 500,000 rows have an error of 0.5 in float32, and small groups a small one.
    return gammaln(few) - log_rising(many, few), alone - together


def _done(
    labels: jax.Array,
    statistics: PyTree,
    occupancy: jax.Array,
    cells: _Cells,
    members: _Members,
    groups: _Groups,
    accepted: jax.Array,
) -> Proposal:
    """Return the state after the accepted moves, or with the number of sticks that it needs."""
    capacity = occupancy.shape[0]
    splits = accepted & cells.split
    rank = jnp.cumsum(splits) - 1
    empty = jnp.argsort(occupancy > 0, stable=True).astype(labels.dtype)
    short = jnp.sum(splits) - jnp.sum(occupancy == 0)
    accepted &= short <= 0
    second = jnp.where(cells.split, empty.at[rank].get(mode="clip"), cells.second)
    targets = jnp.stack([cells.first, jnp.where(cells.split, second, cells.first)], axis=1)
    moves = jnp.append(accepted, False)[members.cell]
    side = jnp.minimum(groups.sides, 1)
    moved = targets.at[members.cell, side].get(mode="clip")

    def merged(leaf: jax.Array) -> jax.Array:
        split = cells.split.reshape(-1, *[1] * (leaf.ndim - 1))
        both = jnp.stack([leaf[:, 0] + leaf[:, 1], 0 * leaf[:, 1]], axis=1)
        return jnp.where(split, leaf, both)

    places = jnp.where(accepted[:, None], jnp.stack([cells.first, second], axis=1), capacity)
    sums, sizes = jax.tree.map(merged, (groups.statistics, groups.sizes))
    statistics, occupancy = jax.tree.map(
        lambda leaf, new: leaf.at[places].set(new.astype(leaf.dtype), mode="drop"),
        (statistics, occupancy),
        (sums, sizes),
    )
    return Proposal(
        labels=jnp.where(moves, moved, labels).astype(labels.dtype),
        statistics=statistics,
        occupancy=occupancy,
        proposed=cells.number,
        accepted=jnp.sum(accepted, dtype=jnp.int32),
        needed=jnp.where(short > 0, capacity + short, 0).astype(jnp.int32),
    )
