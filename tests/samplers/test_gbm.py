"""Geometric Brownian motion with a pull: its transition, its invariance, and minibatches.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed; the sequential test of invariance, of at most 1e-5.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import transitions
from scipy import special
from support import statistics_checks as checks
from support.invariance import rejects

from simplex_jax._src import estimators
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import gbm
from simplex_jax._src.samplers.positive import LogEvidence

# Batches are the evidence itself.
GIVEN = estimators.Estimator(lambda key: (), lambda key, memory, position, batch: (batch, memory))

MEAN = np.array([-1.0, 2.0, 0.5])
PRECISION = np.array([0.5, 2.0, 1.0])
SIGMA = np.array([1.1, 0.5, 0.9])
WEIGHTED = np.array([0.0, 6.0, -8.0])
MORE = np.array([0.0, 4.0, 2.5])
P = PRECISION + MORE
M = (PRECISION * MEAN + WEIGHTED) / P
START = np.array([0.5, 4.0, 1.5])
H = 0.7
ROWS = 100_000
EVIDENCE = LogEvidence(jnp.asarray(WEIGHTED, jnp.float32), jnp.asarray(MORE, jnp.float32))


@jax.jit
def move(update, key, state, evidence):
    return update(key, state, evidence)[0]


def run(getkey, theta, steps, mean=MEAN, precision=PRECISION, sigma=SIGMA, evidence=EVIDENCE):
    kernel = gbm.build(GIVEN, mean, precision, H, sigma=sigma)
    state = kernel.init(getkey(), jnp.asarray(theta, jnp.float32))
    for _ in range(steps):
        state = move(kernel.update, getkey(), state, evidence)
    return np.asarray(state.position, np.float64)


def normal_checks(log_theta, mean, variance):
    p_values = {}
    for j in range(log_theta.shape[1]):
        scores = (log_theta[:, j] - mean[j]) / np.sqrt(variance[j])
        p_values["mean", j] = checks.mean_z(scores, 0, 1, 1e-6)
        p_values["variance", j] = checks.variance_z(scores, 0, 1, 3, 1e-6)
        width = checks.float_resolution(scores, ulps=8)
        p_values["law", j] = checks.dkwm(scores, special.ndtr, resolution=width)
    return p_values


def transition_checks(log_theta):
    decay = np.exp(-(SIGMA**2) * P * H / 2)
    mean = M + decay * (np.log(START) - M)
    return normal_checks(log_theta, mean, (1 - decay**2) / P)


def test_one_step_is_the_exact_transition(getkey):
    log_theta = run(getkey, np.broadcast_to(START, (ROWS, 3)), 1)
    assert not checks.family(transition_checks(log_theta))
    # The law in `laws` is the same one.
    result = transitions.ornstein_uhlenbeck(np.log(START), M, P, H, sigma=SIGMA)
    assert not checks.family(normal_checks(log_theta, *map(np.asarray, result)))


MUTANTS = {
    "time without 1 / 2": {"sigma": SIGMA * np.sqrt(2)},
    "time without the precision": {"sigma": SIGMA / np.sqrt(P)},
    "sigma for sigma^2": {"sigma": np.sqrt(SIGMA)},
    "precision 2 % up": {"precision": 1.02 * P - MORE},
    "sign of the evidence": {"evidence": EVIDENCE._replace(weighted=-EVIDENCE.weighted)},
    "precision forgotten": {"evidence": EVIDENCE._replace(precision=jnp.zeros(3))},
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_of_one_step_sees_mutants(mutant, getkey):
    log_theta = run(getkey, np.broadcast_to(START, (ROWS, 3)), 1, **MUTANTS[mutant])
    assert checks.family(transition_checks(log_theta))


def test_the_check_of_one_step_sees_more_noise(getkey):
    log_theta = run(getkey, np.broadcast_to(START, (ROWS, 3)), 1)
    centre = log_theta.mean(axis=0)
    assert checks.family(transition_checks(centre + 1.1 * (log_theta - centre)))
    # The curvature term of Ito's formula, with the sign of a drift taken for that of log theta.
    assert checks.family(transition_checks(log_theta - SIGMA**2 / 2 * H))


def invariance_of(getkey, seed, **changed):
    rng = np.random.default_rng(seed)

    def sample_and_test(rows):
        theta = np.exp(M + rng.standard_normal((rows, 3)) / np.sqrt(P))
        return normal_checks(run(getkey, theta, 3, **changed), M, 1 / P)

    return rejects(sample_and_test, samples=20_000, rounds=4)


def test_lognormal_is_invariant(getkey, seed):
    assert not invariance_of(getkey, seed)


@pytest.mark.parametrize(
    "changed",
    [MUTANTS["precision 2 % up"], {"mean": MEAN * 1.1}],
    ids=["precision 2 % up", "mean 10 % up"],
)
def test_the_check_of_invariance_sees_mutants(changed, getkey, seed):
    assert invariance_of(getkey, seed, **changed)


def test_without_a_pull_it_is_geometric_brownian_motion(getkey):
    """p = 1e-12 with p m fixed: drift mu = sigma^2 (1 + p m) / 2, and no stationary law."""
    pull = np.array([0.8, -2.0, 3.0])
    mean, precision = pull * 1e12, np.full(3, 1e-12)
    nothing = LogEvidence(0.0, 0.0)
    start = np.broadcast_to(START, (ROWS, 3))
    log_theta = run(getkey, start, 2, mean=mean, precision=precision, evidence=nothing)
    drift = SIGMA**2 * (1 + pull) / 2
    law = transitions.geometric_brownian(START, drift, 2 * H, sigma=SIGMA)
    assert not checks.family(normal_checks(log_theta, *map(np.asarray, law)))
    # Without the curvature term of Ito's formula.
    wrong = np.log(START) + 2 * H * drift
    assert checks.family(normal_checks(log_theta, wrong, np.asarray(law.variance)))


def test_minibatch_moments(getkey):
    """Independent batches of a known precision: the mean stays and the variance grows by tanh."""
    x = jnp.array([-1.0, 0.0, 0.2, 0.4, 5.0])
    tau, chains, h, steps, sigma = 0.5, 40_000, 0.4, 3, 0.9
    kernel = gbm.build(GIVEN, 1.0, 2.0, h, sigma=sigma)

    def stream(key, step):
        key = jax.random.fold_in(key, step)
        seen = x[jax.random.randint(key, (chains, 2), 0, 5)]
        return LogEvidence(tau * 5 / 2 * seen.sum(axis=1), jnp.asarray(5 * tau))

    state = kernel.init(getkey(), jnp.full(chains, 3.0))
    state, _ = driver.run(getkey(), kernel, state, stream, steps, collect=lambda *_: ())
    log_theta = np.asarray(state.position, np.float64)
    p = 2 + 5 * tau
    m = (2 * 1.0 + tau * float(x.sum())) / p
    noise = (tau * 5) ** 2 / 2 * float(x.var()) / p**2

    def p_values(variance):
        law = transitions.ornstein_uhlenbeck(
            np.log(3.0), m, p, steps * h, sigma=sigma, variance=variance, step_size=h
        )
        mean, spread = float(law.mean), float(law.variance)
        return {
            "mean": checks.mean_z(log_theta, mean, spread),
            "variance": checks.variance_z(log_theta, mean, spread),
        }

    assert not checks.family(p_values(noise))
    for wrong in (0.0, 1.2 * noise):
        assert checks.family(p_values(wrong)), "the check has no power"


def test_negative_precisions_are_taken_as_zero_and_reported(getkey):
    kernel = gbm.build(GIVEN, 0.0, 2.0, 0.1)
    state = kernel.init(getkey(), jnp.ones(2))
    state, info = kernel.update(getkey(), state, LogEvidence(0.0, jnp.array([-3.0, 4.0])))
    assert float(info.clamped) == 0.5
    assert float(info.precision) == 4.0
    assert float(info.relaxation) == pytest.approx(0.4)


def test_bad_input_is_named(getkey):
    for name, wrong in {
        "mean": (np.nan, np.inf, "1"),
        "precision": (0.0, -1.0, np.nan, [1.0, -1.0]),
        "sigma": (0.0, -1.0, np.inf),
    }.items():
        for value in wrong:
            values = {"mean": 0.0, "precision": 1.0, "sigma": 1.0, name: value}
            with pytest.raises(ValueError, match=name):
                gbm.build(GIVEN, step_size=0.1, **values)
    for h in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="step_size"):
            gbm.build(GIVEN, 0.0, 1.0, h)
    kernel = gbm.build(GIVEN, 0.0, 1.0, 0.1)
    with pytest.raises(ValueError, match="position"):
        kernel.init(getkey(), [1.0, 0.0])
    with pytest.raises(ValueError, match="precision of shape"):
        gbm.build(GIVEN, 0.0, [1.0, 2.0], 0.1).init(getkey(), jnp.ones(3))
    state = kernel.init(getkey(), jnp.ones(3))
    with pytest.raises(ValueError, match=r"must return samplers\.gbm\.LogEvidence;"):
        kernel.update(getkey(), state, (1.0, 1.0))
    moved, _ = jax.jit(kernel.update)(getkey(), state, LogEvidence(1.0, jnp.nan))
    assert np.isnan(moved.position).all()
