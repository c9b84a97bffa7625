"""State of a Dirichlet-process mixture, and the updates of sticks, atoms and their order."""

import dataclasses
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from simplex_jax._src import arguments, draws
from simplex_jax._src.base import PyTree
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.bits import use_up
from simplex_jax._src.draws.keys import words_by_native_code
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.models import growth
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families.family import draw_atoms
from simplex_jax._src.samplers import scir, sgrld, smld
from simplex_jax._src.schedules import StepSize

BLOCK = 16
"""Number of sticks drawn with one key; capacities are multiples of it."""

_STATIC = {"static": True}


class Mixture(NamedTuple):
    """The sticks of a state: clusters in use, and draws from the prior."""

    log_weights: jax.Array  # log of the weight of every stick, [C]
    log_rest: jax.Array  # log of the weight of all sticks beyond these
    atoms: PyTree  # the parameters of every stick's component, leaves [C, ...]


class Totals(NamedTuple):
    """Running sums of sufficient statistics."""

    values: PyTree  # the sums, leaves [C, ...]
    lost: PyTree  # rounding errors of the float sums, of the same shapes


class LogTotals(NamedTuple):
    """Logs of the totals of the weights behind sticks and atoms, +inf until a step draws them."""

    sticks: PyTree  # [C, 1]
    atoms: PyTree  # leaves [C, 1]


class State(NamedTuple):
    """State of the mixture, of capacity C, for N rows."""

    position: Mixture  # weights and atoms
    step: jax.Array  # number of updates done, int32
    labels: jax.Array  # stick of every row, int32 [N]
    occupancy: jax.Array  # rows of every stick, int32 [C]
    sticks: jax.Array  # logs of v_j and 1 - v_j, [C, 2]
    alpha: jax.Array  # concentration of the process, a scalar
    totals: Totals | None  # statistics of the rows of every stick; None with subsampled counts
    # Sticks that the last update needed, int32. Above C it was not done, nor will others be until
    # the state has grown.
    needed: jax.Array
    log_totals: LogTotals | None = None  # of carried weights; None if refreshed
    # Values of the missing cells, [N, m] each, if the family draws them (`families.Missing`)
    cells: tuple[jax.Array, ...] | None = None

    def grown(self) -> "State | None":
        """Return a state with room for the sticks that its last update needed, None if it has it.

        For `run(..., grow=State.grown)`; chains grow together.
        """
        capacity, needed = self.occupancy.shape[-1], int(np.asarray(self.needed).max())
        return None if needed <= capacity else grow(self, growth.doubled(capacity, needed))


class Info(NamedTuple):
    """Diagnostics of an update, scalars; zeros if it was not done."""

    occupied: jax.Array  # number of clusters with rows after it, int32
    moved: jax.Array  # share of the rows of the batch that changed their cluster
    swapped: jax.Array  # acceptance rate of the label moves
    split_merged: jax.Array  # acceptance rate of the split-merge moves


class Gamma(NamedTuple):
    """A Gamma prior of the concentration.

    Attributes:
        shape: Its shape, positive.
        rate: Its rate, positive; the mean is shape / rate.
    """

    shape: float | jax.Array
    rate: float | jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A mixture and its sampler options, arrays or static; see `model.build`."""

    rows: PyTree
    family: Family
    prior: Gamma | None  # of the concentration; None if it is given
    start: jax.Array  # concentration to start from
    atom_step_size: StepSize
    stick_step_size: StepSize
    decay: float | jax.Array
    sampler: str = dataclasses.field(metadata=_STATIC)
    carried: bool = dataclasses.field(metadata=_STATIC)  # whether totals of weights are
    counts: str = dataclasses.field(metadata=_STATIC)
    variant: str = dataclasses.field(metadata=_STATIC)
    alpha_update: str = dataclasses.field(metadata=_STATIC)
    label_moves: bool = dataclasses.field(metadata=_STATIC)
    split_merge: int = dataclasses.field(metadata=_STATIC)
    # sums of floats are recomputed after this many updates; 0 for never
    refresh: int = dataclasses.field(metadata=_STATIC)
    capacity: int = dataclasses.field(metadata=_STATIC)  # sticks of a first state
    chains: int | None = dataclasses.field(metadata=_STATIC)


def last_occupied(occupancy: jax.Array) -> jax.Array:
    """Return the number of sticks up to the last one with rows, int32."""
    number = jnp.arange(1, occupancy.shape[0] + 1, dtype=jnp.int32)
    return jnp.max(jnp.where(occupancy > 0, number, 0))


def mixture(sticks: jax.Array, atoms: PyTree) -> Mixture:
    """Return the position with these sticks, [C, 2], and atoms."""
    log_v, log_left = sticks[:, 0], jnp.cumsum(sticks[:, 1])
    before = jnp.concatenate([jnp.zeros(1, log_left.dtype), log_left[:-1]])
    return Mixture(log_v + before, log_left[-1], atoms)


def by_blocks(draw: Callable, key: jax.Array, *trees: PyTree, at_once: bool = False) -> PyTree:
    """Return `draw(key, *trees)` of all sticks, leaves [C, ...], in blocks with one key each.

    The draws of a stick then do not depend on the number of sticks: a state that has grown
    continues as if it had been larger from the start. `at_once` draws all blocks together, without
    a loop to compile, for small draws; otherwise blocks are drawn in turn, in the memory of one.
    """
    blocks = jax.tree.map(lambda leaf: leaf.reshape(-1, BLOCK, *leaf.shape[1:]), trees)
    count = jax.tree.leaves(blocks)[0].shape[0]
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(count))
    if at_once:
        drawn = jax.vmap(draw)(keys, *blocks)
    else:
        drawn = lax.map(lambda block: draw(block[0], *block[1]), (keys, blocks))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), drawn)


def block_of(tree: PyTree, i: jax.Array | int) -> PyTree:
    """Return a block of sticks or cells."""
    return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, i * BLOCK, BLOCK), tree)


def in_blocks(make: Callable[[jax.Array | int], PyTree], number: jax.Array, width: int) -> PyTree:
    """Return what `make` returns for each block, leaves [width, ...]; 0 beyond the first number."""

    def turn(i: jax.Array, made: PyTree) -> PyTree:
        return jax.tree.map(
            lambda leaf, new: lax.dynamic_update_slice_in_dim(leaf, new, i * BLOCK, axis=0),
            made,
            make(i),
        )

    none = jax.tree.map(
        lambda leaf: jnp.zeros((width, *leaf.shape[1:]), leaf.dtype), jax.eval_shape(make, 0)
    )
    return lax.fori_loop(0, -(-number // BLOCK), turn, none)


def where(condition: jax.Array, yes: PyTree, no: PyTree) -> PyTree:
    """Choose between two trees stick by stick: condition [C], leaves [C, ...]."""
    return jax.tree.map(
        lambda a, b: jnp.where(condition.reshape((-1,) + (1,) * (a.ndim - 1)), a, b), yes, no
    )


def grow(state: State, capacity: int) -> State:
    """Return the state with room for `capacity` sticks, rounded up to a multiple of 16.

    New sticks have no weight until the next update draws them; until then `log_rest` includes their
    weight. The state may have several chains. A smaller capacity is a ValueError.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax._src.models.dpm import model
        >>> from simplex_jax.dpm import families
        >>> rows = families.multinomial_rows([[2, 0], [1, 1]])
        >>> kernel, _ = model.build(rows, families.multinomial(2), capacity=16)
        >>> state = kernel.init(jax.random.key(0), jnp.array([0, 1]))
        >>> model.grow(state, 48).position.log_weights.shape
        (48,)
    """
    size, axis = state.occupancy.shape[-1], state.occupancy.ndim - 1
    capacity = arguments.at_least("capacity", capacity, size)
    more = -(-capacity // BLOCK) * BLOCK - size

    def pad(tree: PyTree, value: float = 0) -> PyTree:
        def of_leaf(leaf: jax.Array) -> jax.Array:
            widths = [(0, more if i == axis else 0) for i in range(leaf.ndim)]
            return jnp.pad(leaf, widths, constant_values=value)

        return jax.tree.map(of_leaf, tree)

    log_weights, log_rest, atoms = state.position
    return state._replace(
        position=Mixture(pad(log_weights, -jnp.inf), log_rest, pad(atoms)),
        occupancy=pad(state.occupancy),
        sticks=pad(state.sticks),
        totals=pad(state.totals),
        log_totals=pad(state.log_totals, jnp.inf),
        needed=jnp.zeros_like(state.needed),
    )


# Updates of sticks, atoms and concentration given the labels of the rows.
#
# Given labels with :math:`m_j` rows at stick j and :math:`M_j = \sum_{l > j} m_l` beyond it,
# :math:`v_j \sim \mathrm{Beta}(1 + m_j, \alpha + M_j)` independently (Papaspiliopoulos and Roberts
# 2008; the slice variables are integrated out). The pair (v, 1 - v) is a point of a simplex with
# two categories and concentrations (1, alpha), so any simplex kernel can move it.

SAMPLERS: dict[str, ModuleType] = {"scir": scir, "sgrld": sgrld, "smld": smld}
WEIGHTED = ("scir", "sgrld")
"""Samplers that move unnormalised weights, which have a total."""

# The batch is the counts themselves.
_COUNTED = Estimator(lambda key: (), lambda key, memory, position, counts: (counts, memory))


def _move_simplexes(
    key: jax.Array,
    sampler: str,
    log_p: PyTree,
    log_total: PyTree,
    counts: PyTree,
    alpha: PyTree,
    step_size: StepSize,
    step: jax.Array,
) -> tuple[PyTree, PyTree]:
    """Move log-probabilities, leaves [C, K], by one step of a simplex kernel.

    `log_total` is the carried total of the weights behind each point; if it is None the total is
    redrawn, because counts change from step to step. Return both.
    """
    module = SAMPLERS[sampler]

    def move(key: jax.Array, log_p: PyTree, log_total: PyTree, counts: PyTree) -> tuple:
        state = module.State(log_p, step, (), log_total)
        options = {"estimator": _COUNTED, "alpha": alpha, "step_size": step_size}
        log_p, _, _, log_total = module.update(key, state, counts, **options)[0]
        return log_p, log_total

    return by_blocks(move, key, log_p, log_total, counts)


def not_drawn(state: State) -> LogTotals:
    """Return totals that mark that the first step has to draw them."""
    inf = jax.tree.map(lambda leaf: jnp.full_like(leaf[..., :1], jnp.inf), state.position.atoms)
    return LogTotals(jnp.full_like(state.sticks[..., :1], jnp.inf), inf)


def move_sticks(
    key: jax.Array, model: Model, state: State, counts: jax.Array
) -> tuple[jax.Array, jax.Array | None]:
    """Return new sticks, and totals, given the number of rows of each, exact or estimated, [C].

    Sticks beyond the last one in use are always drawn from their prior.
    """
    key_draw, key_move = jax.random.split(key)
    sticks, alpha = state.sticks, state.alpha
    counts = counts.astype(sticks.dtype)
    pairs = jnp.stack([counts, jnp.cumsum(counts[::-1])[::-1] - counts], axis=1)
    prior = jnp.stack([jnp.ones_like(alpha), alpha])
    drawn = by_blocks(
        lambda key, pairs: draws.log_dirichlet(key, prior + pairs), key_draw, pairs, at_once=True
    )
    if model.sampler == "exact":
        return drawn, None
    log_totals = state.log_totals
    moved, log_total = _move_simplexes(
        key_move,
        model.sampler,
        sticks,
        None if log_totals is None else log_totals.sticks,
        pairs,
        prior,
        model.stick_step_size,
        state.step,
    )
    in_use = jnp.arange(sticks.shape[0]) < last_occupied(state.occupancy)
    return where(in_use, moved, drawn), _in_use(in_use, log_total)


def _in_use(in_use: jax.Array, log_total: PyTree) -> PyTree:
    """Reset the totals of draws from the prior: the next step in use draws them."""
    return where(
        in_use, log_total, jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.inf), log_total)
    )


def move_atoms(
    key: jax.Array, model: Model, state: State, statistics: PyTree
) -> tuple[PyTree, PyTree]:
    """Return new atoms, and totals, given the statistics of their rows.

    Those without rows are drawn from G0.
    """
    key_draw, key_move = jax.random.split(key)
    family, in_use = model.family, state.occupancy > 0
    # Sums of floats of empty clusters can have rounding errors.
    none = jax.tree.map(jnp.zeros_like, statistics)
    statistics = where(in_use, statistics, none)
    if model.sampler == "exact":
        return by_blocks(partial(draw_atoms, family), key_draw, statistics), None
    assert family.simplex is not None
    drawn = by_blocks(partial(draw_atoms, family), key_draw, none)
    log_totals = state.log_totals
    moved, log_total = _move_simplexes(
        key_move,
        model.sampler,
        state.position.atoms,
        None if log_totals is None else log_totals.atoms,
        family.simplex.counts(statistics),
        family.simplex.alpha,
        model.atom_step_size,
        state.step,
    )
    return where(in_use, moved, drawn), _in_use(in_use, log_total)


def draw_alpha(key: jax.Array, prior: Gamma, state: State) -> jax.Array:
    r"""Draw alpha given the z* sticks up to the last one in use, later ones integrated out.

    .. math:: \alpha \mid v \sim \mathrm{Gamma}\Big(a_0 + z^*,\;
        b_0 - \textstyle\sum_{j \le z^*} \log(1 - v_j)\Big)

    The later sticks must be redrawn afterwards.
    """
    sticks, in_use = state.sticks, last_occupied(state.occupancy)
    logs = jnp.where(jnp.arange(sticks.shape[0]) < in_use, sticks[:, 1], 0)
    shape = prior.shape + in_use.astype(sticks.dtype)
    return jnp.exp(draws.loggamma(key, shape)) / (prior.rate - jnp.sum(logs))


def escobar_west(key: jax.Array, prior: Gamma, state: State) -> jax.Array:
    r"""Draw alpha given the number k of clusters of n rows (Escobar and West 1995, section 6).

    With :math:`\eta \sim \mathrm{Beta}(\alpha + 1, n)` it is Gamma(a + k, b - log eta), or with
    odds of :math:`n (b - \log \eta)` to a + k - 1 it is Gamma(a + k - 1, b - log eta). This is the
    distribution given the partition, not given the sticks of the clusters, so their order must be
    redrawn: see `size_biased`.
    """
    alpha = state.alpha
    key_eta, key_odds, key_draw = jax.random.split(key, 3)
    n = jnp.asarray(state.labels.shape[0], alpha.dtype)
    rate = prior.rate - draws.log_dirichlet(key_eta, jnp.stack([alpha + 1, n]))[0]
    shape = prior.shape + jnp.sum(state.occupancy > 0).astype(alpha.dtype)
    less = jax.random.uniform(key_odds, (), alpha.dtype) * (n * rate + shape - 1) >= shape - 1
    return jnp.exp(draws.loggamma(key_draw, shape - less)) / rate


# Moves that reorder clusters and sticks and leave the posterior invariant.
#
# The weights of the sticks decrease on average, so other orders of the clusters are less probable,
# and slices alone hardly ever exchange two clusters (Papaspiliopoulos and Roberts 2008, section
# 3.4). An order is int32 [C]: stick j gets the cluster that was at stick order[j].

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

    def random(key: jax.Array, _: jax.Array) -> jax.Array:
        words, more = words_by_native_code(key, 2 * BLOCK, dtype)
        drawn = uniform.exponential(jnp.concatenate([words, more]), dtype)
        return drawn.reshape(4, BLOCK).T[:, :3]

    clocks, waits, stays = by_blocks(random, key_turns, occupancy, at_once=True).T
    # log(1 - b), where a new stick has the share b ~ Beta(1, alpha) of the other weights, and what
    # they weigh before each new stick, and after the last
    log_stay = -stays / alpha
    log_left = log_rest + jnp.append(0, jnp.cumsum(log_stay))
    log_new = log_left[:-1] + jnp.log(-jnp.expm1(log_stay))
    # Choosing in proportion to the weights is a race: a cluster arrives after an exponential time
    # at the rate of its weight, and new sticks one after another, at the rate of the weight left.
    of_clusters = jnp.log(clocks) - log_gamma
    of_new = lax.cumlogsumexp(jnp.log(waits) - log_left[:-1])
    first = jnp.argsort(jnp.concatenate([of_clusters, of_new]), stable=True)[:capacity]
    old = first < capacity
    taken = jnp.sum(old)
    new = jnp.cumsum(~old)  # new sticks so far
    log_old = jnp.where(old, log_gamma[jnp.where(old, first, 0)], -jnp.inf)
    log_weight = jnp.where(old, log_old, log_new[jnp.maximum(new, 1) - 1])
    later = jnp.append(lax.cumlogsumexp(log_old, reverse=True)[1:], -jnp.inf)
    log_after = jnp.logaddexp(later, log_left[new])
    log_before = jnp.logaddexp(log_weight, log_after)
    cluster = jnp.where(old, first, -1).astype(jnp.int32)
    sticks = jnp.minimum(jnp.stack([log_weight, log_after], axis=1) - log_before[:, None], 0)
    # Empty sticks get the places without rows, in order: their atoms are redrawn.
    free = jnp.argsort(occupancy > 0, stable=True).astype(jnp.int32)
    order = jnp.where(cluster >= 0, cluster, free[jnp.cumsum(cluster < 0) - 1])
    short = jnp.sum(occupancy > 0) - taken
    needed = jnp.where(short > 0, capacity + short, 0).astype(jnp.int32)
    return Ordered(order, sticks, needed, jnp.ones((), dtype))
