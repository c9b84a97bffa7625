"""The Dirichlet-process mixture against the enumerated posterior of five rows.

Chains start from exact draws of the posterior (`tiny_dpm`), which an exact kernel leaves invariant:
after any number of updates they are independent exact draws, and are compared with others. Unless a
test says otherwise its p-values are judged by Holm's procedure at 1e-3: with a fresh seed a correct
library fails a test with a probability of at most 1e-3.
"""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from support import statistics_checks as checks
from support import tiny_dpm

from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm import model as dpm_mixture
from simplex_jax._src.models.dpm.state import Totals
from simplex_jax._src.runtime.driver import run

COUNTS = [[2, 0, 0], [1, 1, 0], [0, 0, 3], [0, 2, 1], [0, 0, 0]]
BASE = [0.5, 0.8, 0.3]
PRIOR = dpm_mixture.Gamma(3.0, 4.0)
LAW = tiny_dpm.posterior(COUNTS, BASE, *PRIOR)
ROWS = families.multinomial_rows(COUNTS)
FAMILY = families.multinomial(3, concentration=BASE)
CHAINS = 8000
STEPS = 6


@functools.cache
def reference(seed):
    """Features of exact draws."""
    drawn = tiny_dpm.draw(LAW, np.random.default_rng([seed, 1]), 3 * CHAINS)
    return tiny_dpm.features(LAW, drawn)


def state_of(drawn):
    """The state of chains at exact draws."""
    totals = jnp.asarray(tiny_dpm.totals(LAW, drawn.labels), jnp.int32)
    log_left = np.cumsum(drawn.sticks[:, :, 1], axis=1)
    log_weights = drawn.sticks[:, :, 0] + log_left - drawn.sticks[:, :, 1]
    size = len(drawn.alpha)
    return dpm_mixture.State(
        position=dpm_mixture.Mixture(
            *(jnp.asarray(x, jnp.float32) for x in (log_weights, log_left[:, -1], drawn.log_atoms))
        ),
        step=jnp.zeros(size, jnp.int32),
        labels=jnp.asarray(drawn.labels, jnp.int32),
        occupancy=jnp.asarray(
            (drawn.labels[:, :, None] == np.arange(tiny_dpm.STICKS)).sum(axis=1), jnp.int32
        ),
        sticks=jnp.asarray(drawn.sticks, jnp.float32),
        alpha=jnp.asarray(drawn.alpha, jnp.float32),
        totals=Totals(totals, jnp.zeros_like(totals)),
        needed=jnp.zeros(size, jnp.int32),
    )


def draws_of(state):
    """What `tiny_dpm.features` takes, of the first sticks."""
    first = slice(tiny_dpm.STICKS)
    assert int(state.labels.max()) < tiny_dpm.STICKS
    return tiny_dpm.Draws(
        state.alpha, state.labels, state.sticks[:, first], state.position.atoms[:, first]
    )


def compared(state, seed):
    """P-values of the features of the chains against those of exact draws."""
    expected = reference(seed)
    p_values = {}
    for name, value in tiny_dpm.features(LAW, draws_of(state)).items():
        other = expected[name]
        variance = value.var() + other.var() * len(value) / len(other)
        p_values[name] = checks.mean_z(value, other.mean(), variance)
    return p_values


def after(kernel, stream, getkey, seed, steps=STEPS):
    """P-values of chains that started from exact draws, after some updates."""
    state = state_of(tiny_dpm.draw(LAW, np.random.default_rng([seed, 2]), CHAINS))
    grow = dpm_mixture.State.grown
    state, _ = run(getkey(), kernel, state, stream, steps, collect=nothing, grow=grow, chunk=steps)
    assert (state.step == steps).all()
    return compared(state, seed)


def nothing(state, info):
    return ()


def build(**options):
    return dpm_mixture.build(ROWS, FAMILY, alpha=PRIOR, chains=CHAINS, **options)


SCIR = {"sampler": "scir", "atom_step_size": 0.5, "stick_step_size": 0.5, "batch_size": 2}
CASES = {
    "exact": {},
    "scir": SCIR | {"alpha_update": "escobar-west", "variant": "independent"},
    "scir without label moves": SCIR | {"label_moves": False},
    "exact, split-merge": {"split_merge": 1, "batch_size": 3},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_kernels_leave_the_posterior_invariant(case, getkey, seed):
    assert not checks.family(after(*build(**CASES[case]), getkey, seed))


def test_exact_draws_agree_with_the_enumeration(seed):
    """Of the partition and alpha by the enumeration itself, of labels by p(z | alpha)."""
    values = reference(seed)
    p = LAW.probabilities
    expected = {"alpha": LAW.joint.sum(axis=0) @ tiny_dpm.GRID}
    expected["clusters"] = p @ (LAW.partitions.max(axis=1) + 1)
    for i in range(5):
        for j in range(i):
            expected["together", i, j] = p[LAW.partitions[:, i] == LAW.partitions[:, j]].sum()
    # All rows at the first stick, p(z | alpha) = B(1 + n, alpha) / B(1, alpha), as a share of all
    # rows together, (n - 1)! / (alpha + 1) ... (alpha + n - 1).
    a, one = tiny_dpm.GRID, (LAW.partitions == 0).all(axis=1)
    log_first = special.betaln(6, a) - special.betaln(1, a)
    log_one = special.gammaln(5) - special.gammaln(a + 5) + special.gammaln(a + 1)
    expected["all first"] = float((LAW.joint[one] @ np.exp(log_first - log_one)).sum())
    values = values | {"all first": np.all([values["at 0", i] for i in range(5)], axis=0)}
    assert not checks.family(
        {name: checks.mean_z(values[name], e, values[name].var()) for name, e in expected.items()}
    )
