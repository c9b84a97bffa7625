r"""Updates of sticks, atoms and concentration given the labels of the rows.

Given labels with :math:`m_j` rows at stick j and :math:`M_j = \sum_{l > j} m_l` beyond it,
:math:`v_j \sim \mathrm{Beta}(1 + m_j, \alpha + M_j)` independently (Papaspiliopoulos and Roberts
2008; the slice variables are integrated out). The pair (v, 1 - v) is a point of a simplex with two
categories and concentrations (1, alpha), so any simplex kernel can move it.
"""

from functools import partial
from types import ModuleType

import jax
import jax.numpy as jnp

from simplex_jax._src import draws
from simplex_jax._src.base import PyTree
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.models.dpm.families.family import draw_atoms
from simplex_jax._src.models.dpm.state import (
    Gamma,
    LogTotals,
    Model,
    State,
    by_blocks,
    last_occupied,
    where,
)
from simplex_jax._src.samplers import scir, sgrld, smld
from simplex_jax._src.schedules import StepSize

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
    redrawn: see `order.size_biased`.
    """
    alpha = state.alpha
    key_eta, key_odds, key_draw = jax.random.split(key, 3)
    n = jnp.asarray(state.labels.shape[0], alpha.dtype)
    rate = prior.rate - draws.log_dirichlet(key_eta, jnp.stack([alpha + 1, n]))[0]
    shape = prior.shape + jnp.sum(state.occupancy > 0).astype(alpha.dtype)
    less = jax.random.uniform(key_odds, (), alpha.dtype) * (n * rate + shape - 1) >= shape - 1
    return jnp.exp(draws.loggamma(key_draw, shape - less)) / rate
