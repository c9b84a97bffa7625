r"""The sticks of a Dirichlet process and its concentration, given which stick every row is at.

Given labels with :math:`m_j` rows at stick j and :math:`M_j = \sum_{l > j} m_l` beyond it,
:math:`v_j \sim \mathrm{Beta}(1 + m_j, \alpha + M_j)` independently (Papaspiliopoulos and Roberts
2008; the uniforms of the slices are integrated out). The pair (v, 1 - v) is a point of a simplex of
two categories, with concentrations (1, alpha), so any kernel of the simplex moves it.
"""

from collections.abc import Callable
from types import ModuleType

import jax
import jax.numpy as jnp

from simplex_jax import draws
from simplex_jax.base import PyTree
from simplex_jax.estimators import Estimator
from simplex_jax.models.dp_families import Simplex
from simplex_jax.models.dp_state import Gamma, by_blocks, last_occupied, later, where
from simplex_jax.samplers import scir, sgrld, smld
from simplex_jax.schedules import StepSize

SAMPLERS: dict[str, ModuleType] = {"scir": scir, "sgrld": sgrld, "smld": smld}


def _nothing(key: jax.Array) -> tuple:
    del key
    return ()


def _given(key: jax.Array, memory: PyTree, position: PyTree, counts: PyTree) -> tuple:
    del key, position
    return counts, memory


_GIVEN = Estimator(_nothing, _given)


def move_simplexes(
    key: jax.Array,
    sampler: str,
    log_p: PyTree,
    counts: PyTree,
    alpha: PyTree,
    step_size: StepSize,
    step: jax.Array,
) -> PyTree:
    """Move log-probabilities, leaves [C, K], by one step of a kernel of the simplex.

    The total of the weights behind a point is drawn anew: counts change from step to step.
    """
    module = SAMPLERS[sampler]

    def move(key: jax.Array, log_p: PyTree, counts: PyTree) -> PyTree:
        state = module.State(log_p, step, (), None)
        options = {"estimator": _GIVEN, "alpha": alpha, "step_size": step_size}
        return module.update(key, state, counts, **options)[0].position

    return by_blocks(move, key, log_p, counts)


def move_sticks(
    key: jax.Array,
    sampler: str,
    sticks: jax.Array,
    counts: jax.Array,
    occupancy: jax.Array,
    alpha: jax.Array,
    step_size: StepSize,
    step: jax.Array,
) -> jax.Array:
    """Move the sticks given the counts of rows.

    Args:
        key: A PRNG key.
        sampler: "exact" draws them anew; else one of `SAMPLERS`. Sticks beyond the last one in use
            are always drawn anew, from their prior.
        sticks: Logs of v and 1 - v, [C, 2].
        counts: Rows of every stick, counted or estimated, [C].
        occupancy: Rows of every stick, by all labels, [C].
        alpha: The concentration.
        step_size: Of the sampler.
        step: Number of updates done.
    """
    key_draw, key_move = jax.random.split(key)
    counts = counts.astype(sticks.dtype)
    pairs = jnp.stack([counts, later(counts)], axis=1)
    prior = jnp.stack([jnp.ones_like(alpha), alpha])
    drawn = by_blocks(lambda key, pairs: draws.log_dirichlet(key, prior + pairs), key_draw, pairs)
    if sampler == "exact":
        return drawn
    moved = move_simplexes(key_move, sampler, sticks, pairs, prior, step_size, step)
    in_use = jnp.arange(sticks.shape[0]) < last_occupied(occupancy)
    return where(in_use, moved, drawn)


def move_atoms(
    key: jax.Array,
    sampler: str,
    draw: Callable[[jax.Array, PyTree], PyTree],
    simplex: Simplex | None,
    atoms: PyTree,
    statistics: PyTree,
    occupancy: jax.Array,
    step_size: StepSize,
    step: jax.Array,
) -> PyTree:
    """Move the atoms given the statistics of their rows; those without rows are drawn from G0.

    Args:
        key: A PRNG key.
        sampler: "exact" or one of `SAMPLERS`.
        draw: `draw` of the family.
        simplex: `simplex` of the family; not needed for exact draws.
        atoms: Leaves [C, ...].
        statistics: Of every stick, leaves [C, ...].
        occupancy: Rows of every stick, by all labels, [C].
        step_size: Of the sampler.
        step: Number of updates done.
    """
    key_draw, key_move = jax.random.split(key)
    # Sums of floats that come and go leave rounding errors behind.
    none = jax.tree.map(jnp.zeros_like, statistics)
    statistics = where(occupancy > 0, statistics, none)
    if sampler == "exact":
        return by_blocks(draw, key_draw, statistics)
    assert simplex is not None
    drawn = by_blocks(draw, key_draw, none)
    counts = simplex.counts(statistics)
    moved = move_simplexes(key_move, sampler, atoms, counts, simplex.alpha, step_size, step)
    return where(occupancy > 0, moved, drawn)


def draw_alpha(key: jax.Array, prior: Gamma, sticks: jax.Array, occupancy: jax.Array) -> jax.Array:
    r"""Draw alpha given the z* sticks up to the last one in use, later ones integrated out.

    .. math:: \alpha \mid v \sim \mathrm{Gamma}\Big(a_0 + z^*,\;
        b_0 - \textstyle\sum_{j \le z^*} \log(1 - v_j)\Big)

    The later sticks must be drawn anew afterwards.
    """
    in_use = last_occupied(occupancy)
    logs = jnp.where(jnp.arange(sticks.shape[0]) < in_use, sticks[:, 1], 0)
    shape = prior.shape + in_use.astype(sticks.dtype)
    return jnp.exp(draws.loggamma(key, shape)) / (prior.rate - jnp.sum(logs))
