"""SGRHMC: its dynamics against the recipe, exact invariance, and its bias where it has one.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed; `invariance.rejects` has a rate of its own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats
from support import invariance
from support import statistics_checks as checks

from simplex_jax._src import batches, estimators
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import dynamics, sgrhmc

# Batches are the counts themselves.
GIVEN = estimators.Estimator(lambda key: (), lambda key, memory, position, batch: (batch, memory))


SAMPLES = 15_000


def info_of(state, info):
    return info


def moved(kernel, log_theta, momentum, counts, steps, getkey):
    """The kernel's log theta and momenta after some steps from given ones, leaves [SAMPLES, 3]."""
    state = kernel.init(getkey(), jnp.ones((SAMPLES, 3)))
    if momentum is not None:
        state = state._replace(
            log_total=jax.nn.logsumexp(log_theta, axis=-1, keepdims=True), momentum=momentum
        )
    state = state._replace(position=jax.nn.log_softmax(log_theta))
    stream = batches.full(jnp.asarray(counts, jnp.float32))
    state, info = driver.run(getkey(), kernel, state, stream, steps, collect=info_of)
    log_theta = np.asarray(state.position, float) + np.asarray(state.log_total, float)
    return log_theta, np.asarray(state.momentum, float), info


@pytest.mark.slow
def test_small_steps_follow_the_dynamics_of_the_recipe(getkey):
    """Mean changes in a short time against -(D + Q) grad H + Gamma, with Q of G^(-1/2)."""
    a, theta, r = np.array([0.1, 3.0, 0.3]), np.array([0.4, 2.0, 0.5]), np.array([0.7, 0.3, -0.2])
    model = dynamics.Dynamics(
        diffusion=lambda z, v: (0, 0 * v[1]),
        curl=lambda z, v: (-jnp.sqrt(z[0]) * v[1], jnp.sqrt(z[0]) * v[0]),
        kinetic=lambda z: (z[1] ** 2).sum() / 2,
    )
    z = (jnp.asarray(theta, jnp.float32), jnp.asarray(r, jnp.float32))
    slope = jnp.asarray((a - 1) / theta - 1, jnp.float32)
    expected = dynamics.drift(model, z, slope, dynamics.correction(model, z, True))
    # By hand; without Gamma the 1/2 would be a 1.
    np.testing.assert_allclose(expected[0], np.sqrt(theta) * r, rtol=1e-5)
    np.testing.assert_allclose(expected[1], (a - 0.5) / np.sqrt(theta) - np.sqrt(theta), rtol=1e-4)

    start = [
        jnp.broadcast_to(jnp.asarray(x, jnp.float32), (SAMPLES, 3)) for x in (np.log(theta), r)
    ]
    h = 0.01
    kernel = sgrhmc.build(GIVEN, np.full(3, 0.05), h, friction=1e-3)
    log_theta, momentum, info = moved(kernel, *start, a - 0.05, 1, getkey)
    for before, after, rate in zip(
        (theta, r), (np.exp(log_theta), momentum), expected, strict=True
    ):
        error = 5 * after.std(axis=0) / np.sqrt(SAMPLES) + 3 * h**2
        assert np.all(np.abs(after.mean(axis=0) - before - h * np.asarray(rate)) < error)
    assert float(info.temperature[0]) == pytest.approx((momentum**2).mean(), rel=1e-4)
    # Friction and noise, large against the rest.
    kernel = sgrhmc.build(GIVEN, np.full(3, 0.05), h, friction=20.0)
    _, momentum, _ = moved(kernel, *start, a - 0.05, 1, getkey)
    np.testing.assert_allclose(momentum.mean(axis=0), np.exp(-0.2) * r, atol=0.03)
    np.testing.assert_allclose(momentum.var(axis=0), 1 - np.exp(-0.4), rtol=0.06)


@pytest.mark.slow
def test_an_orbit_solves_its_equation(getkey):
    """du = r dt, dr = -s^2 / u dt, against a general solver; and run backwards it returns."""
    for a, u, r, time in ((0.1, 1.5, 0.8, 0.7), (0.4, 0.3, -0.2, 0.2), (0.01, 2.0, -0.5, 1.0)):
        s2 = 1 - 2 * a
        solved = integrate.solve_ivp(
            lambda t, z, s2=s2: [z[1], -s2 / z[0]], (0, time), [u, r], rtol=1e-10, atol=1e-12
        ).y[:, -1]
        start = [jnp.float32(x) for x in (np.log(u), r, a, time)]
        log_u, moved = sgrhmc._attracted(getkey(), *start)
        np.testing.assert_allclose([np.exp(log_u), moved], solved, rtol=2e-4)
    # Through 0, once or more: forward, turn round, forward.
    a, time = jnp.float32(0.2), jnp.float32(2.5)
    u, r = jnp.array([1.0, 0.5, 0.4, 2.0]), jnp.array([-1.0, 0.3, -1.2, 1.5])
    log_u, moved = sgrhmc._attracted(getkey(), jnp.log(u), r, a, time)
    energy = np.asarray(moved**2 / 2 + 0.6 * log_u)
    np.testing.assert_allclose(energy, r**2 / 2 + 0.6 * jnp.log(u), atol=1e-4)
    log_u, moved = sgrhmc._attracted(getkey(), log_u, -moved, a, time)
    np.testing.assert_allclose(np.exp(log_u), u, rtol=2e-3)
    np.testing.assert_allclose(-moved, r, rtol=2e-3)


def transcribed(log_u, r, a, h, friction, rng, mutant=None):
    """One step in NumPy, with a bug if one is named."""
    kept = np.exp(-friction * h / 2)
    scale = 1.1 if mutant == "noise x 1.1" else 1.0

    def refresh(r):
        return kept * r + scale * np.sqrt(1 - kept**2) * rng.standard_normal(r.shape)

    kick, time = np.tan(h / np.sqrt(8)) / np.sqrt(2), np.sqrt(2) * np.sin(h / np.sqrt(2))
    kick = kick * (0.9 if mutant == "kick" else 1.0)
    u, r = np.exp(log_u), refresh(r)
    r = r - kick * u
    if mutant == "no correction":  # without div G^(-1/2) the force is (a - 1) / sqrt(theta)
        a = np.maximum(a - 0.5, 0.5)
    shapes = np.maximum(a - 0.5, 0) * (1.1 if mutant == "shape" else 1.0)
    across = 2 * rng.gamma(np.broadcast_to(shapes, u.shape))
    if mutant == "mean for random":
        across = np.broadcast_to(np.maximum(2 * a - 1, 0), u.shape)
    ahead = u + time * r
    away = np.sqrt(ahead**2 + time**2 * across)
    out = (ahead * r + time * across) / away
    if mutant not in ("reflection", "no correction") and (a < 0.5).any():
        s = np.sqrt(np.where(a < 0.5, 1 - 2 * a, 1))
        push = {"sign": -1.0, "plain force": 0.0}.get(mutant, 1.0)
        phase = special.ndtr(-r / s) + push * time * s * stats.norm.pdf(r / s) / u
        phase = np.where(phase < 1e9, phase % 1, rng.random(u.shape))
        x = -s * special.ndtri(np.clip(phase, 1e-300, 1 - 1e-16))
        orbit = np.exp(np.minimum(log_u + (r**2 - x**2) / (2 * s**2), 50))
        if mutant == "plain force":  # a Verlet step, the force bounded so that it stays finite
            half = r + time / 2 * (2 * a - 1) / np.maximum(u, 0.05)
            orbit = np.maximum(np.abs(u + time * half), 1e-30)
            x = np.sign(u + time * half) * half + time / 2 * (2 * a - 1) / np.maximum(orbit, 0.05)
        away, out = np.where(a < 0.5, orbit, away), np.where(a < 0.5, x, out)
    return np.log(np.maximum(away, 1e-300)), refresh(out - kick * away)


def law_checks(log_u, r, a):
    """The law of omega, of r, and their independence."""
    share = np.exp(2 * log_u - 2 * log_u.max(axis=1, keepdims=True))
    omega = share / share.sum(axis=1, keepdims=True)
    p_values = {"temperature": checks.variance_z(r, 0, 1, 3)}
    for j in range(len(a)):
        law = stats.beta(a[j], a.sum() - a[j])
        p_values["law", j] = checks.dkwm(omega[:, j], law.cdf)
        p_values["mean", j] = checks.mean_z(omega[:, j], law.mean(), law.var())
        p_values["momentum", j] = checks.dkwm(r[:, j], special.ndtr)
        score = special.ndtri(np.clip(law.cdf(omega[:, j]), 1e-12, 1 - 1e-12))
        p_values["independence", j] = checks.mean_z(score * r[:, j], 0, 1)
    return p_values


def exact_draws(a, n, rng):
    """log u, u = 2 sqrt(theta), by theta = Gamma(a + 1) U^(1 / a), which does not underflow."""
    log_theta = np.log(rng.gamma(a + 1, 1, (n, len(a)))) + np.log(rng.random((n, len(a)))) / a
    return np.log(2) + log_theta / 2, rng.standard_normal((n, len(a)))


class Problem(NamedTuple):
    alpha: np.ndarray
    counts: np.ndarray
    h: float
    friction: float
    steps: int


# Exact at any step, from shapes of 1/2 on; and shapes of 0.1 and 0.3, with a bias below 1%.
DENSE = Problem(np.array([0.5, 0.6, 2.0]), np.array([0.0, 0.0, 6.0]), 1.0, 0.5, 2)
SPARSE = Problem(np.array([0.1, 0.3, 1.0]), np.array([0.0, 0.0, 4.0]), 0.2, 2.0, 30)


def of_kernel(problem, getkey, seed):
    """Exact draws, moved by the kernel: a function of their number."""
    kernel = sgrhmc.build(GIVEN, problem.alpha, problem.h, friction=problem.friction)
    a, rng = problem.alpha + problem.counts, np.random.default_rng(seed)

    def sample_and_test(n):
        log_u, _ = exact_draws(a, n, rng)
        start = jnp.asarray(2 * log_u, jnp.float32)
        log_theta, r, _ = moved(kernel, start, None, problem.counts, problem.steps, getkey)
        return law_checks(log_theta / 2, r, a)

    return sample_and_test


def of_transcription(problem, seed, mutant):
    a, rng = problem.alpha + problem.counts, np.random.default_rng(seed)

    def sample_and_test(n):
        moved = exact_draws(a, n, rng)
        for _ in range(problem.steps):
            moved = transcribed(*moved, a, problem.h, problem.friction, rng, mutant)
        return law_checks(*moved, a)

    return sample_and_test


def test_steps_of_any_size_are_exact_for_shapes_from_a_half(getkey, seed):
    sample_and_test = of_kernel(DENSE, getkey, seed)
    assert not invariance.rejects(sample_and_test, samples=SAMPLES, growth=1)


@pytest.mark.parametrize(
    "mutant",
    [None, "mean for random", "shape", "noise x 1.1", "no correction", "kick"],
)
def test_the_check_of_exactness_sees_mutants(mutant, seed):
    rejected = invariance.rejects(of_transcription(DENSE, seed, mutant), samples=SAMPLES, growth=1)
    assert bool(rejected) == (mutant is not None)


def test_small_steps_leave_a_sparse_law(getkey, seed):
    p_values = of_kernel(SPARSE, getkey, seed)(SAMPLES)
    assert not checks.family(p_values)


@pytest.mark.parametrize("mutant", [None, "reflection", "plain force", "sign", "noise x 1.1"])
def test_the_check_of_the_sparse_law_sees_mutants(mutant, seed):
    p_values = of_transcription(SPARSE, seed, mutant)(SAMPLES)
    assert bool(checks.family(p_values)) == (mutant is not None)


def test_noisy_counts_inflate_the_variance_as_stated(seed):
    """By V h / (2 c): 31 on top of 100; the standard error is 2."""
    a, noise, h, c, rng = 100.0, 50.0, 0.1, 4.0, np.random.default_rng(seed)
    state = exact_draws(np.full(3, a), 4000, rng)
    for _ in range(200):
        estimated = a + noise * rng.choice([-1, 1], (4000, 3))
        state = transcribed(*state, estimated, h, c, rng)
    theta = np.exp(2 * state[0]) / 4
    assert theta.mean() == pytest.approx(a, rel=0.02)
    assert theta.var() - a == pytest.approx(noise**2 * h / (2 * c), rel=0.35)


def test_bad_arguments_are_named(getkey):
    for friction in (0.0, np.nan, [1.0, 2.0]):
        with pytest.raises(ValueError, match="friction"):
            sgrhmc.build(GIVEN, 0.1, 0.1, friction=friction)
    for h in (0.0, 4.45):
        with pytest.raises(ValueError, match="step_size"):
            sgrhmc.build(GIVEN, 0.1, h)
    with pytest.raises(ValueError, match="total"):
        sgrhmc.build(GIVEN, 0.1, 0.1, total="forgotten")
    with pytest.raises(ValueError, match="alpha"):
        sgrhmc.build(GIVEN, 0.0, 0.1)
    with pytest.raises(ValueError, match="position"):
        sgrhmc.build(GIVEN, 0.1, 0.1).init(getkey(), [0.5, -0.5])
    with pytest.raises(ValueError, match=r"position .* index \(1,\)"):
        sgrhmc.build(GIVEN, 0.1, 0.1).init(getkey(), [0.5, 0.0, 0.5])


def test_a_traced_start_without_mass_is_nan(getkey):
    """No move leaves a weight of 0: without an error it would stay there, unnoticed."""
    kernel = sgrhmc.build(GIVEN, 0.1, 0.1)
    position = jax.jit(lambda p: kernel.init(getkey(), p).position)(jnp.array([0.5, 0.0, 0.5]))
    assert np.isnan(position[1])


@pytest.mark.slow
def test_no_weight_is_nearer_to_0_than_the_law_has_it(getkey):
    """P(theta < e^-80) is 4e-11, for 8 million; phases that are rounded to 0 led to e^-187."""
    kernel = sgrhmc.build(GIVEN, 0.3, 0.5)
    state = kernel.init(getkey(), jnp.ones((2000, 4)))
    stream = batches.full(jnp.zeros((2000, 4)))
    log_thetas = driver.run(
        getkey(), kernel, state, stream, 1000, collect=lambda s, _: s.position + s.log_total
    )[1]
    assert float(log_thetas.min()) > -80
