"""CIR on the positive numbers: its transition, its invariance, and SCIR with minibatches.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed; the sequential test of invariance, of at most 1e-5.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import transitions
from support import reference_laws
from support import statistics_checks as checks
from support.invariance import rejects

from simplex_jax._src import batches, estimators
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import cir
from simplex_jax._src.samplers.positive import Evidence

# Batches are the evidence itself.
GIVEN = estimators.Estimator(lambda key: (), lambda key, memory, position, batch: (batch, memory))

# Four coordinates, no two alike in anything; the data dominate some and not others.
SHAPE = np.array([0.05, 0.3, 2.0, 1.0])
RATE = np.array([0.4, 2.0, 3.0, 1.0])
SIGMA = np.array([1.1, 0.8, 0.3, 1.4])
COUNTS = np.array([0.0, 0.0, 5.0, 20.0])
EXPOSURE = np.array([1.0, 0.0, 2.5, 7.0])
A, B = SHAPE + COUNTS, RATE + EXPOSURE
START = np.array([0.2, 1.5, 1.0, 6.0])
H = 0.6
ROWS = 100_000
EVIDENCE = Evidence(jnp.asarray(COUNTS, jnp.float32), jnp.asarray(EXPOSURE, jnp.float32))


@jax.jit
def move(update, key, state, evidence):
    return update(key, state, evidence)[0]


def run(getkey, theta, steps, shape=SHAPE, rate=RATE, sigma=SIGMA, evidence=EVIDENCE):
    kernel = cir.build(GIVEN, shape, rate, H, sigma=sigma)
    state = kernel.init(getkey(), jnp.asarray(theta, jnp.float32))
    for _ in range(steps):
        state = move(kernel.update, getkey(), state, evidence)
    return np.asarray(state.position, np.float64)


def nothing(state, info):
    return ()


@functools.cache
def transition_law(j):
    """The noncentral chi-square law of log theta_j after one step from START."""
    time = SIGMA[j] ** 2 * B[j] * H / 2
    phi = np.log(np.float32(START[j])) + np.log(B[j])
    poisson_rate, log_scale = reference_laws.cir_rate(phi, time)
    return reference_laws.cir_law(A[j], poisson_rate).shifted(log_scale - np.log(B[j]))


@functools.cache
def target_law(j):
    return reference_laws.cir_law(A[j], 0.0).shifted(-np.log(B[j]))


def law_checks(log_theta, law_of):
    p_values = {}
    for j in range(4):
        p_values |= checks.prefixed(j, checks.check_law(log_theta[:, j], law_of(j), ulps=8))
    return p_values


def transition_checks(log_theta):
    return law_checks(log_theta, transition_law)


def test_one_step_is_the_exact_transition(getkey):
    log_theta = run(getkey, np.broadcast_to(START, (ROWS, 4)), 1)
    assert not checks.family(transition_checks(log_theta))


# What a wrong formula would do, said in terms of the parameters of the right one.
MUTANTS = {
    "time without 1 / 2": {"sigma": SIGMA * np.sqrt(2)},
    "time without the rate": {"sigma": SIGMA / np.sqrt(B)},
    "sigma for sigma^2": {"sigma": np.sqrt(SIGMA)},
    "shape 2 % up": {"shape": 1.02 * A - COUNTS},
    "rate 2 % up": {"rate": 1.02 * B - EXPOSURE},
    "exposure forgotten": {"evidence": EVIDENCE._replace(exposure=jnp.zeros(4))},
    "counts forgotten": {"evidence": EVIDENCE._replace(counts=jnp.zeros(4))},
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_of_one_step_sees_mutants(mutant, getkey):
    log_theta = run(getkey, np.broadcast_to(START, (ROWS, 4)), 1, **MUTANTS[mutant])
    assert checks.family(transition_checks(log_theta))


def invariance_of(getkey, seed, spoil=lambda log_theta: log_theta, **changed):
    rng = np.random.default_rng(seed)

    def sample_and_test(rows):
        # What float32 cannot hold is as good as 0: the next value does not depend on it.
        theta = np.maximum(rng.gamma(A, size=(rows, 4)) / B, 1e-37)
        return law_checks(spoil(run(getkey, theta, 3, **changed)), target_law)

    return rejects(sample_and_test, samples=20_000, rounds=4)


def test_gamma_is_invariant(getkey, seed):
    assert not invariance_of(getkey, seed)


@pytest.mark.parametrize(
    "changed",
    [
        MUTANTS["shape 2 % up"],
        MUTANTS["rate 2 % up"],
        {"spoil": lambda log_theta: 1.1 * log_theta - 0.1 * log_theta.mean(axis=0)},
    ],
    ids=["shape 2 % up", "rate 2 % up", "noise 10 % up"],
)
def test_the_check_of_invariance_sees_mutants(changed, getkey, seed):
    assert invariance_of(getkey, seed, **changed)


def batch_of_each_chain(events, n, chains):
    """Independent minibatches of Poisson counts of unit exposure, one for every chain."""

    def draw(key, step):
        key = jax.random.fold_in(key, step)
        seen = events[jax.random.randint(key, (chains, n), 0, len(events))]
        scale = len(events) / n
        return Evidence(scale * seen.sum(axis=1), jnp.asarray(float(len(events))))

    return draw


@pytest.mark.slow
def test_minibatch_moments_follow_corollary_3_2_with_a_rate(getkey):
    events = jnp.array([0.0, 0, 0, 0, 1, 1, 2, 3, 7, 26])
    n, chains, h, steps, sigma = 4, 40_000, 0.3, 4, 0.6
    shape, rate, start = 0.5, 2.0, 1.0
    kernel = cir.build(GIVEN, shape, rate, h, sigma=sigma)
    state = kernel.init(getkey(), jnp.full(chains, start))
    stream = batch_of_each_chain(events, n, chains)
    state, _ = driver.run(getkey(), kernel, state, stream, steps, collect=nothing)
    theta = np.exp(np.asarray(state.position, np.float64))

    a, b = shape + float(events.sum()), rate + 10
    noise = 10**2 / n * float(events.var())

    def p_values(variance, sigma):
        law = transitions.scir_over_batches(start, a, h, steps, variance, rate=b, sigma=sigma)
        mean, spread = float(law.mean), float(law.variance)
        return {
            "mean": checks.mean_z(theta, mean, spread),
            "variance": checks.variance_z(theta, mean, spread),
        }

    assert not checks.family(p_values(noise, sigma))
    for wrong in ((0.0, sigma), (1.2 * noise, sigma), (noise, sigma * 1.05)):
        assert checks.family(p_values(*wrong)), "the check has no power"


@pytest.mark.slow
def test_an_estimated_exposure_gives_a_mean_of_the_order_of_h(getkey):
    """Both parts of the evidence noisy: the mean follows its exact recursion, right as h -> 0."""
    chains, size, sigma = 40_000, 20, 0.5
    time = np.where(np.arange(size) < 10, 3.0, 0.2)  # and one event in each
    pairs = size / 2 * (time[:, None] + time)
    b_hat, a_hat = 1 + pairs, 21.0

    def decay_and_pull(h):
        decay = np.exp(-(sigma**2) * b_hat * h / 2)
        return decay.mean(), ((1 - decay) * a_hat / b_hat).mean()

    def bias(h):
        decay, pull = decay_and_pull(h)
        return pull / (1 - decay) / (a_hat / (1 + time.sum())) - 1

    assert bias(0.5) > 0.3
    assert bias(0.02) / bias(0.01) == pytest.approx(2, rel=0.02)
    assert bias(0.001) < 1e-3

    def stream(key, step):
        place = jax.random.randint(jax.random.fold_in(key, step), (chains, 2), 0, size)
        return Evidence(jnp.asarray(20.0), size / 2 * jnp.asarray(time)[place].sum(axis=1))

    kernel = cir.build(GIVEN, 1.0, 1.0, 0.5, sigma=sigma)
    state = kernel.init(getkey(), jnp.full(chains, 0.6))
    state, _ = driver.run(getkey(), kernel, state, stream, 6, collect=nothing)
    theta = np.exp(np.asarray(state.position, np.float64))
    mean, (decay, pull) = 0.6, decay_and_pull(0.5)
    for _ in range(6):
        mean = decay * mean + pull
    assert not checks.family({"mean": checks.mean_z(theta, mean, theta.var())})
    exact = a_hat / (1 + time.sum())
    assert checks.family({"mean": checks.mean_z(theta, exact, theta.var())})


def test_scaled_evidence_of_a_batch_over_a_tree(getkey):
    data = {"x": jnp.array([[1.0, 2.0], [3.0, 4.0], [0.0, 5.0], [2.0, 0.0]]), "y": jnp.ones(4)}

    def evidence_of(key, log_theta, batch):
        counts = {name: leaf.sum(axis=0) for name, leaf in batch.items()}
        return Evidence(counts, jnp.asarray(float(len(batch["y"]))))

    kernel = cir.build(estimators.subsampled(evidence_of, 4), {"x": [0.5, 1.5], "y": 1.0}, 2.0, 0.1)
    state = kernel.init(getkey(), {"x": jnp.ones(2), "y": 1.0})
    state, info = jax.jit(kernel.update)(getkey(), state, batches.full(data)(getkey(), 0))
    assert jax.tree.map(jnp.shape, state.position) == {"x": (2,), "y": ()}
    assert float(info.shape) == pytest.approx((6.5 + 12.5 + 5.0) / 3)
    assert float(info.rate) == 6.0
    assert float(info.relaxation) == pytest.approx(0.6)


def test_negative_estimates_are_taken_as_zero_and_reported(getkey):
    kernel = cir.build(GIVEN, 1.0, 2.0, 0.1)
    state = kernel.init(getkey(), jnp.ones(2))
    evidence = Evidence(jnp.array([-3.0, 4.0]), jnp.array([1.0, 1.0]))
    state, info = kernel.update(getkey(), state, evidence)
    assert float(info.clamped) == 0.25
    assert float(info.shape) == 3.0
    assert np.isfinite(state.position).all()


def test_bad_input_is_named(getkey):
    for name in ("shape", "rate", "sigma"):
        for value in (0.0, -1.0, np.nan, np.inf, "1", {"x": [1.0, -1.0]}):
            values = {"shape": 1.0, "rate": 1.0, "sigma": 1.0, name: value}
            with pytest.raises(ValueError, match=name):
                cir.build(GIVEN, step_size=0.1, **values)
    for h in (0.0, -1.0, np.nan, np.inf, lambda step: -0.1):
        with pytest.raises(ValueError, match="step_size"):
            cir.build(GIVEN, 1.0, 1.0, h)
    kernel = cir.build(GIVEN, 1.0, 1.0, 0.1)
    for position in (0.0, -1.0, np.nan, np.inf, [1.0, 0.0], {}):
        with pytest.raises(ValueError, match="position"):
            kernel.init(getkey(), position)
    with pytest.raises(ValueError, match=r"position\['b'\]"):
        kernel.init(getkey(), {"a": 1.0, "b": -1.0})
    state = kernel.init(getkey(), jnp.ones(3))
    with pytest.raises(ValueError, match=r"must return samplers\.cir\.Evidence;"):
        kernel.update(getkey(), state, jnp.ones(3))
    with pytest.raises(ValueError, match=r"estimated counts .*\(2,\) .*\(3,\)$"):
        kernel.update(getkey(), state, Evidence(jnp.ones(2), 1.0))
    kernel = cir.build(GIVEN, 1.0, [1.0, 2.0], 0.1)
    with pytest.raises(ValueError, match="rate of shape"):
        kernel.init(getkey(), jnp.ones(3))
    with pytest.raises(ValueError, match="rate of shape"):
        kernel.update(getkey(), state, Evidence(1.0, 1.0))


def test_bad_evidence_gives_nan_under_jit(getkey):
    kernel = cir.build(GIVEN, 1.0, 1.0, 0.1)
    state = kernel.init(getkey(), jnp.ones(2))
    for evidence in (Evidence(jnp.nan, 1.0), Evidence(1.0, jnp.nan), Evidence(jnp.inf, 1.0)):
        moved, _ = jax.jit(kernel.update)(getkey(), state, evidence)
        assert np.isnan(moved.position).all()
