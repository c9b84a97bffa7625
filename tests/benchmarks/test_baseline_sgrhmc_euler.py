"""SGRHMC with Euler steps: its law at a small step, and what a forgotten correction does to it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import sgrhmc_euler
from support import statistics_checks as checks
from support import tiny_lda

from simplex_jax._src import batches, estimators
from simplex_jax._src.runtime import driver

ALPHA, COUNTS = np.array([1.5, 1.5, 2.5]), np.array([1.0, 2.0, 3.0])
SHAPES = ALPHA + COUNTS  # above 1/2, where the force repels from 0
CHAINS, STEP, STEPS = 4_000, 0.004, 750


def nothing(state, info):
    """What the driver collects."""
    return ()


def law_checks(getkey, seed, build):
    """P-values of the moments of weights, totals and momenta, three units of time after the start.

    Chains start at exact draws; the bias of the step is far below the standard errors.
    """
    rng = np.random.default_rng(seed)
    start = rng.dirichlet(SHAPES, CHAINS) * rng.gamma(ALPHA.sum(), size=(CHAINS, 1))
    kernel = build(estimators.multinomial(size=1), jnp.asarray(ALPHA, jnp.float32), STEP)
    state = kernel.init(getkey(), jnp.asarray(start, jnp.float32))
    stream = batches.full(jnp.broadcast_to(jnp.asarray(COUNTS, jnp.float32), (1, CHAINS, 3)))
    state, _ = driver.run(getkey(), kernel, state, stream, STEPS, collect=nothing)
    omega = np.exp(np.asarray(state.position, np.float64))
    total = np.exp(np.asarray(state.log_total, np.float64))[:, 0]
    mean = SHAPES / SHAPES.sum()
    variance = mean * (1 - mean) / (SHAPES.sum() + 1)
    p_values = {
        "total": checks.mean_z(total, ALPHA.sum(), ALPHA.sum()),
        "momenta": checks.mean_z(np.asarray(state.momentum, np.float64).ravel() ** 2, 1.0, 2.0),
    }
    for j in range(3):
        p_values["mean", j] = checks.mean_z(omega[:, j], mean[j], variance[j])
        fourth = np.mean(((omega[:, j] - mean[j]) ** 2 - variance[j]) ** 2)
        squares = (omega[:, j] - mean[j]) ** 2
        p_values["variance", j] = checks.mean_z(squares, variance[j], fourth)
    return p_values


@pytest.mark.slow
def test_small_steps_leave_the_dirichlet(getkey, seed):
    """Rate 1e-3 over all moments."""
    assert not checks.family(law_checks(getkey, seed, sgrhmc_euler.build))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("correction = 0.5 / root", "correction = 0 / root"),
        ("- theta * state.momentum", "- 0.5 * theta * state.momentum"),
        ("(1 + each) * root", "each * root"),
    ],
    ids=["no Gamma", "half the friction", "no prior of the total"],
)
def test_mutants_are_seen(old, new, getkey, seed):
    mutant = tiny_lda.mutated(sgrhmc_euler, old, new)
    assert checks.family(law_checks(getkey, seed, mutant.build))


def test_the_first_total_is_that_of_the_weights(getkey):
    kernel = sgrhmc_euler.build(estimators.categorical(size=4), 1.0, 0.01)
    state = kernel.init(getkey(), jnp.array([[1.0, 2.0], [3.0, 5.0]]))
    np.testing.assert_allclose(np.exp(state.log_total), [[3.0], [8.0]], rtol=1e-6)
    np.testing.assert_allclose(np.exp(state.position).sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(("alpha", "step_size"), [(-1.0, 0.1), (1.0, 0.0), (np.nan, 0.1)])
def test_bad_arguments_are_named(alpha, step_size):
    with pytest.raises(ValueError, match="alpha" if step_size else "step_size"):
        sgrhmc_euler.build(estimators.categorical(size=4), alpha, step_size)


@pytest.mark.slow
def test_a_sparse_weight_heats_the_momenta(getkey):
    """As the docstring says: their mean square should be 1."""
    kernel = sgrhmc_euler.build(estimators.categorical(size=4), 0.1, 0.01)
    state = kernel.init(getkey(), jnp.ones((200, 2)))

    def step(state, i):
        state, info = kernel.update(jax.random.fold_in(key, i), state, jnp.zeros((4, 200), int))
        return state, info.temperature

    key = getkey()
    _, temperature = jax.lax.scan(step, state, jnp.arange(2_000))
    assert temperature.max() > 5
