"""The Barker kernel leaves laws invariant, and SGBD's step has its law, corrected or not.

A correct kernel is rejected by `invariance.rejects` with a probability of at most 1e-5 at a fresh
seed, and by `checks.family` with one of at most 1e-3.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from support import convex_laws as laws
from support import invariance
from support import statistics_checks as checks

from simplex_jax._src import gradients
from simplex_jax._src.estimators import Estimator, no_memory
from simplex_jax._src.samplers import barker, sgbd

A = np.array([0.7, 3.0])


def log_gammas(x):
    """Of logs of gamma variates of shapes A: skewed, with a tail that is exp(-exp(x))."""
    return (A.astype(np.float32) * x - jnp.exp(x)).sum()


def log_gamma_draws(rng, rows):
    return np.log(rng.gamma(A, size=(rows, 2)))


def log_gamma_checks(x):
    u = special.gammainc(A, np.exp(x))
    result = {j: checks.dkwm(u[:, j], stats.uniform.cdf, resolution=1e-5) for j in range(2)}
    return result | {"both": checks.mean_z(np.prod(u - 0.5, axis=1), 0, 1 / 144)}


def sampler(seed, log_density=log_gammas, accepted=(0.4, 0.9)):
    kernel = barker.build(log_density, 0.5, preconditioner=jnp.array([2.0, 0.4]))
    return laws.sampler(kernel, log_gamma_draws, log_gamma_checks, seed, accepted)


def test_exact_draws_stay_exact(seed):
    assert not invariance.rejects(sampler(seed), samples=laws.SAMPLES)


SOFTPLUS = jax.nn.softplus
MUTANTS = {
    "density": {"log_density": lambda x: log_gammas(x) + 0.02 * x.sum()},
    "no signs": {"softplus": lambda x: jnp.zeros_like(x)},
    "signs turned": {"softplus": lambda x: SOFTPLUS(-x)},
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_of_invariance_sees_mutants(mutant, seed, monkeypatch):
    changes = dict(MUTANTS[mutant])
    if "softplus" in changes:
        monkeypatch.setattr(jax.nn, "softplus", changes.pop("softplus"))
        jax.clear_caches()  # programs of other tests have the right one
    assert invariance.rejects(sampler(seed, accepted=(0, 1), **changes), samples=laws.SAMPLES)
    jax.clear_caches()


# --- SGBD ----------------------------------------------------------------------------------------

ROWS, H, M = 40_000, 0.3, np.array([1.0, 0.5])
SLOPE = np.array([1.5, -0.8])


def noisy(sd):
    """Estimates of a constant gradient, with normal noise."""

    def estimate(key, memory, position, batch):
        return jnp.asarray(SLOPE, jnp.float32) + sd * jax.random.normal(key, (2,)), memory

    return Estimator(no_memory, estimate)


def chance(z, slope, sd=0.0, noise=0.0):
    """That z is kept: the mean over normal gradients, where a noise variance is corrected for."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100 if sd else 1)
    left = np.maximum(1 - z**2 * noise / 1.702**2, np.finfo(np.float32).eps)
    kept = special.expit((z / np.sqrt(left))[..., None] * (slope + sd * nodes))
    return kept @ weights / weights.sum()


def flip_checks(moved, slope, sd=0.0, noise=0.0):
    """Of the move from 0: |z| is half normal, and z > 0 with the chance that it has."""
    result = {}
    for j in range(2):
        scale = np.sqrt(2 * H * M[j])
        size = np.abs(moved[:, j]) / scale
        result["size", j] = checks.dkwm(size, stats.halfnorm.cdf)
        kept = chance(scale * size, slope[j], sd, noise)
        for power in (1, 3):
            error = (np.sign(moved[:, j]) - 2 * kept + 1) * size**power
            spread = (4 * kept * (1 - kept) * size ** (2 * power)).mean()
            result["sign", power, j] = checks.mean_z(error, 0, spread)
    return result


def moves(getkey, sd, **options):
    kernel = sgbd.build(noisy(sd), H, preconditioner=M, **options)
    state = kernel.init(getkey(), jnp.zeros(2))
    many = jax.jit(jax.vmap(kernel.update, in_axes=(0, None, None)))
    return np.asarray(many(jax.random.split(getkey(), ROWS), state, None)[0].position, np.float64)


def test_one_step_has_its_law_and_mutants_have_not(getkey):
    moved = moves(getkey, 0.0)
    assert not checks.family(flip_checks(moved, SLOPE))
    assert checks.family(flip_checks(1.05 * moved, SLOPE))
    assert checks.family(flip_checks(-moved, SLOPE))
    assert checks.family(flip_checks(moved, 1.1 * SLOPE))


@pytest.mark.slow
def test_a_step_with_noise_has_its_law_corrected_or_not(getkey):
    sd = 1.2
    plain, corrected = moves(getkey, sd), moves(getkey, sd, noise_estimate=sd**2)
    assert not checks.family(flip_checks(plain, SLOPE, sd))
    assert not checks.family(flip_checks(corrected, SLOPE, sd, sd**2))
    assert checks.family(flip_checks(plain, SLOPE, sd, sd**2))
    assert checks.family(flip_checks(corrected, SLOPE, sd, 0.5 * sd**2))


def test_the_correction_undoes_normal_noise():
    """Up to the error of taking the logistic function for a normal one, below 0.01 each way."""
    z = np.linspace(0.01, 1.6, 50)
    for slope in (0.3, 1.0, 4.0):
        assert np.abs(chance(z, slope, 1.0, 1.0) - special.expit(z * slope)).max() < 0.02
    assert np.abs(chance(z, 1.0, 1.0) - special.expit(z)).max() > 0.05


def excess_variance(h, sd=0.0, noise=0.0):
    """Of the stationary law on N(0, 1), by quadrature."""
    x = np.linspace(-8, 8, 501)
    z = x - x[:, None]
    kept = np.stack([chance(row, -at, sd, noise) for row, at in zip(z, x, strict=True)])
    transition = 2 * stats.norm.pdf(z, scale=np.sqrt(2 * h)) * kept * (x[1] - x[0])
    balance = transition.T - np.eye(x.size)
    balance[-1] = 1
    return np.linalg.solve(balance, np.eye(x.size)[-1]) @ x**2 - 1


@pytest.mark.slow
def test_the_bias_is_as_stated():
    assert excess_variance(0.01) == pytest.approx(0.015, rel=0.05)
    assert excess_variance(0.02) == pytest.approx(0.03, rel=0.05)
    assert excess_variance(0.01, 3.0) == pytest.approx(0.122, rel=0.05)
    assert excess_variance(0.01, 3.0, 9.0) == pytest.approx(0.043, rel=0.05)


def test_bad_input_is_named(getkey):
    with pytest.raises(ValueError, match="preconditioner"):
        barker.build(log_gammas, 0.1, preconditioner=-1.0)
    with pytest.raises(ValueError, match="noise_estimate"):
        sgbd.build(gradients.density(log_gammas), 0.1, noise_estimate=-1.0)
    with pytest.raises(ValueError, match=r"log density .*(inf|nan)$"):
        barker.build(lambda x: jnp.log(x).sum(), 0.1).init(getkey(), jnp.zeros(2))
    kernel = barker.build(log_gammas, 0.1, preconditioner=jnp.ones(3))
    state = kernel.init(getkey(), jnp.zeros(2))
    with pytest.raises(ValueError, match="preconditioner"):
        kernel.update(getkey(), state, None)
