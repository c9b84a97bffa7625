"""Each part of an update of the mixture leaves the posterior alone, and a mutant of it does not.

The method and its rate of false alarms are those of `test_dpm_mixture`. A mutant sees as many
samples as the right part.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.dpm.test_dpm_mixture import CHAINS, LAW, PRIOR, build, compared, state_of
from scipy import stats
from support import statistics_checks as checks
from support import tiny_dpm
from support.tiny_lda import mutated

from simplex_jax._src.models.dpm import model as dp_labels
from simplex_jax._src.models.dpm import model as dp_step
from simplex_jax._src.models.dpm import model as dpm_mixture
from simplex_jax._src.models.dpm import state
from simplex_jax._src.models.dpm import state as dp_state
from simplex_jax._src.models.dpm import state as dp_sticks

TURNS = 3
IDS = jnp.arange(5, dtype=jnp.int32)
MODEL = build()[0].update.args[0]
INDEPENDENT = build(variant="independent", decay=0.6)[0].update.args[0]


def sticks(module, key, state):
    return placed(state, module.move_sticks(key, MODEL, state, state.occupancy)[0])


def placed(state, drawn):
    return state._replace(sticks=drawn, position=dp_state.mixture(drawn, state.position.atoms))


def alpha(module, key, state):
    drawn = module.draw_alpha(key, PRIOR, state)
    # The sticks beyond the last in use were integrated out.
    state = state._replace(alpha=drawn)
    fresh = sticks(dp_sticks, jax.random.fold_in(key, 1), state)
    in_use = jnp.arange(state.occupancy.shape[0]) < dp_state.last_occupied(state.occupancy)
    return placed(state, dp_state.where(in_use, state.sticks, fresh.sticks))


def atoms(module, key, state):
    moved, _ = module.move_atoms(key, MODEL, state, state.totals.values)
    return placed(state._replace(position=state.position._replace(atoms=moved)), state.sticks)


def swaps(module, key, state):
    return dp_step._reorder(state, module.swaps(key, state.sticks, state.occupancy))


def size_biased(module, key, state):
    """With the atoms of empty sticks, which come in any order, redrawn."""
    moved = dp_step._reorder(state, module.size_biased(key, state.alpha, state.occupancy))
    fresh = atoms(dp_sticks, jax.random.fold_in(key, 1), moved)
    kept = dp_state.where(moved.occupancy > 0, moved.position.atoms, fresh.position.atoms)
    return moved._replace(position=moved.position._replace(atoms=kept))


def escobar_west(module, key, state):
    drawn = module.escobar_west(key, PRIOR, state)
    return size_biased(dp_state, jax.random.fold_in(key, 2), state._replace(alpha=drawn))


def labels(module, key, state, model=MODEL):
    keys = jax.random.split(key)
    sliced = module.draw_slices(keys[0], model, state, IDS)
    drawn, _ = module.draw_labels(keys[1], model, state, IDS, sliced)
    return drawn._replace(needed=jnp.maximum(state.needed, sliced.needed))


def independent(module, key, state):
    return labels(module, key, state, INDEPENDENT)


def sampled_counts(module, key, state):
    """Labels, and then what goes by their counts."""
    keys = jax.random.split(key, 3)
    state = labels(module, keys[0], state)
    return atoms(dp_sticks, keys[1], sticks(dp_sticks, keys[2], state))


PARTS = {
    sticks: dp_sticks,
    alpha: dp_sticks,
    atoms: dp_sticks,
    swaps: state,
    size_biased: state,
    escobar_west: dp_sticks,
    labels: dp_labels,
    independent: dp_labels,
    sampled_counts: dp_labels,
}


def after(part, module, getkey, seed):
    """P-values after some turns of a part, from exact draws of the posterior."""

    @jax.jit
    @jax.vmap
    def turns(key, state):
        return jax.lax.fori_loop(
            0, TURNS, lambda i, state: part(module, jax.random.fold_in(key, i), state), state
        )

    state = state_of(tiny_dpm.draw(LAW, np.random.default_rng([seed, 3]), CHAINS))
    state = turns(jax.random.split(getkey(), CHAINS), dpm_mixture.grow(state, 96))
    # In the mutants some chains may want more sticks; what they lack is far below what is seen.
    assert (state.needed > 96).mean() < 1e-3
    return compared(state, seed)


@pytest.mark.slow  # the kernels made of them are tested anyway
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_a_part_leaves_the_posterior_invariant(part, getkey, seed):
    assert not checks.family(after(part, PARTS[part], getkey, seed))


MUTANTS = {
    "M_j off by one": (
        sticks,
        "jnp.cumsum(counts[::-1])[::-1] - counts]",
        "jnp.cumsum(counts[::-1])[::-1]]",
    ),
    "no alpha in the prior": (
        sticks,
        "jnp.ones_like(alpha), alpha]",
        "jnp.ones_like(alpha), alpha / alpha]",
    ),
    "one stick too few": (
        alpha,
        "shape = prior.shape + in_use",
        "shape = prior.shape - 1 + in_use",
    ),
    "all sticks": (alpha, "< in_use, sticks[:, 1], 0)", "< in_use + 1, sticks[:, 1], 0)"),
    "a wrong base": (
        atoms,
        "by_blocks(partial(draw_atoms, family), key_draw, statistics)",
        "by_blocks(partial(draw_atoms, family), key_draw, statistics * 2)",
    ),
    "swaps the wrong way": (swaps, "(m_k - m_j) * (log_w[j]", "(m_j - m_k) * (log_w[j]"),
    "neighbours by weight": (swaps, "m_j * sticks[j + 1, 1] - m_k", "m_k * sticks[j + 1, 1] - m_j"),
    "sizes off by one": (
        size_biased,
        "jnp.where(occupancy > 0, occupancy, 1)",
        "jnp.where(occupancy > 0, occupancy + 1, 1)",
    ),
    "odds turned": (escobar_west, ">= shape - 1", "< shape - 1"),
    "u not uniform": (
        labels,
        "log_uniform = -uniform.exponential(words, dtype)",
        "log_uniform = -0.5 * uniform.exponential(words, dtype)",
    ),
    "weights forgotten": (
        independent,
        "tilt = position.log_weights - sliced.log_bounds",
        "tilt = 0 * sliced.log_bounds",
    ),
    "leftover dropped": (
        labels,
        "bounds[:, None] >= log_u[i]",
        "(bounds[:, None] >= log_u[i]) & (first + jnp.arange(block)[:, None] <= jnp.max(labels))",
    ),
    "stale statistics": (sampled_counts, "totals = add_moves(", "add_moves("),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_rejected(name, getkey, seed):
    part, old, new = MUTANTS[name]
    assert checks.family(after(part, mutated(PARTS[part], old, new), getkey, seed))


def test_clusters_come_in_size_biased_order():
    """Closed forms of the first two sticks; a correct draw fails in 1 of 10,000 runs."""
    occupancy, alpha, draws = (
        jnp.zeros(32, jnp.int32).at[:4].set(jnp.array([5, 0, 3, 1])),
        2.0,
        40_000,
    )
    keys = jax.random.split(jax.random.key(11), draws)
    drawn = jax.jit(jax.vmap(lambda key: dp_state.size_biased(key, jnp.float32(alpha), occupancy)))(
        keys
    )
    assert not drawn.needed.any()
    first, second = np.asarray(occupancy[drawn.order])[:, :2].T
    total = 9 + alpha
    z = []

    def check(hits, p):
        z.append((np.mean(hits) - p) * np.sqrt(np.size(hits) / (p * (1 - p))))

    for size in (5, 3, 1):
        check(first == size, size / total)
        check(second[first == 0] == size, size / total)
    check(second[first == 5] == 3, 3 / (total - 5))
    check(second[first == 5] == 0, alpha / (total - 5))
    share = np.exp(np.asarray(drawn.sticks, np.float64))
    np.testing.assert_allclose(share.sum(axis=2), 1, atol=1e-5)
    for size, rows in ((5, first == 5), (3, first == 3), (0, first == 0)):
        of = stats.beta(size + 1, total - size)
        z.append((share[rows, 0, 0].mean() - of.mean()) / of.std() * np.sqrt(rows.sum()))
    # All sticks beyond the last cluster are those of the process.
    tail = share[:, 24:, 0].ravel()
    z.append((tail.mean() - 1 / (1 + alpha)) / stats.beta(1, alpha).std() * np.sqrt(tail.size))
    assert np.abs(z).max() < stats.norm.isf(0.5e-4 / len(z)), z
