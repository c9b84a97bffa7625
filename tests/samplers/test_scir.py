"""SCIR against the exact posterior and the theory of its paper.

A check of a setting is a family of p-values judged by Holm's procedure at 1e-3
(`statistics_checks.family`): with a fresh seed a correct sampler fails a test here with a
probability of at most 1e-3.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import reflected_cir, rld
from baselines.parameterisations import REDUCED_MEAN
from scipy import special, stats
from support import invariance
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src import base, batches, draws, estimators
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import scir, sgrhmc, sgrld, smld

# The running example of Baker et al. 2018, sections 1.3 and 2.2: d = 10, N = 1000, sparse.
ALPHA = 0.1
COUNTS = np.array([800, 100, 100] + [0] * 7)
CONCENTRATION = ALPHA + COUNTS
# Batches are the counts themselves.
GIVEN = estimators.Estimator(lambda key: (), lambda key, memory, position, batch: (batch, memory))
CHAINS = 20_000
STEPS = {0.01: 100, 0.1: 20, 0.5: 8, 1.0: 5, 10.0: 3}  # elapsed time of 1 and more


def nothing(state, info):
    return ()


def run_from_posterior(kernel, num_steps, getkey, seed):
    """Start one row a chain from exact draws of theta and run it with the exact counts."""
    rng = np.random.default_rng(seed)
    theta = rng.gamma(CONCENTRATION, size=(CHAINS, 10))
    total = theta.sum(axis=-1, keepdims=True)
    state = kernel.init(getkey(), jnp.ones((CHAINS, 10)))._replace(
        position=jnp.log(theta / total).astype(jnp.float32),
        log_total=jnp.log(total).astype(jnp.float32),
    )
    stream = batches.full(jnp.asarray(COUNTS, jnp.float32))
    state, _ = driver.run(getkey(), kernel, state, stream, num_steps, collect=nothing)
    return np.asarray(state.position, np.float64), np.asarray(state.log_total, np.float64)[:, 0]


def posterior_checks(log_omega, log_total):
    a, total = CONCENTRATION, CONCENTRATION.sum()
    p_values = {
        "total": checks.dkwm(log_total, lambda x: special.gammainc(total, np.exp(x))),
        "mean total": checks.mean_z(np.exp(log_total), total, total),
    }
    means = special.digamma(a) - special.digamma(total)
    variances = special.polygamma(1, a) - special.polygamma(1, total)
    for j in range(10):
        marginal = stats.beta(a[j], total - a[j])
        samples = log_omega[:, j]
        p_values[f"omega {j}"] = checks.dkwm(
            samples,
            lambda x, marginal=marginal: marginal.cdf(np.exp(np.minimum(x, 0))),
            resolution=checks.float_resolution(samples, ulps=4),
        )
        p_values[f"log omega {j}"] = checks.mean_z(samples, means[j], variances[j], 1e-6)
    return p_values


@pytest.mark.parametrize("h", STEPS)
def test_full_batch_leaves_the_posterior_invariant(h, getkey, seed):
    """By the sequential test of Gandy and Scott: a false alarm has a chance of at most 1e-5."""
    kernel, seeds = scir.build(GIVEN, ALPHA, h), itertools.count(seed)

    def sample_and_test(samples):
        ends = run_from_posterior(kernel, STEPS[h], getkey, next(seeds))
        assert len(ends[0]) == samples
        return posterior_checks(*ends)

    assert not invariance.rejects(sample_and_test, samples=CHAINS, growth=1)


exact_cir = draws.cir


def too_noisy(key, log_theta, a, h, **_):
    mean = jnp.exp(log_theta - h) - jnp.expm1(-h) * a
    theta = jnp.exp(exact_cir(key, log_theta, a, h))
    return jnp.log(jnp.maximum(jnp.abs(mean + 1.1 * (theta - mean)), 1e-38))


# The exact transition is (1 - e^-h) Gamma(a + Poisson(theta e^-h / (1 - e^-h))).
MUTANTS = {
    "shape 2 % up": lambda key, log_theta, a, h, **_: exact_cir(key, log_theta, 1.02 * a, h),
    "noise 10 % up": too_noisy,
    "e^h - 1 for 1 - e^-h": lambda key, log_theta, a, h, **_: exact_cir(key, log_theta, a, h) + h,
    "rate without e^-h": lambda key, log_theta, a, h, **_: exact_cir(key, log_theta + h, a, h),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_seen(mutant, getkey, seed, monkeypatch):
    monkeypatch.setattr(scir.draws, "cir", MUTANTS[mutant])
    # A new function, so that nothing compiled for the true transition is used again.
    update = functools.partial(scir.update, estimator=GIVEN, alpha=ALPHA, step_size=0.5)
    kernel = scir.build(GIVEN, ALPHA, 0.5)._replace(update=update)
    assert checks.family(posterior_checks(*run_from_posterior(kernel, 8, getkey, seed)))


@pytest.mark.parametrize(("h", "m"), slow_but([(0.3, 5), (0.1, 30)], (0.3, 5)))
def test_minibatch_mean_and_variance_follow_corollary_3_2(h, m, getkey):
    """Independent minibatches: no bias, and a variance inflated by (1 - e^-2Mh) tanh(h/2) Var a."""
    size, n, chains = 100, 10, 40_000
    probabilities = np.array([0.6, 0.3, 0.1])
    labels = jnp.repeat(jnp.arange(3), jnp.array([60, 30, 10]))
    theta_0 = np.array([20.0, 50.0, 5.0])
    kernel = scir.build(GIVEN, 0.5, h)
    state = kernel.init(getkey(), jnp.broadcast_to(theta_0, (chains, 3)))
    state = state._replace(log_total=jnp.full((chains, 1), np.log(theta_0.sum()), jnp.float32))

    def estimate_of_each_chain(key, step):
        place = jax.random.randint(jax.random.fold_in(key, step), (chains, n), 0, size)
        return jax.nn.one_hot(labels[place], 3).sum(axis=1) * (size / n)

    state, _ = driver.run(getkey(), kernel, state, estimate_of_each_chain, m, collect=nothing)
    theta = np.exp(np.asarray(state.position + state.log_total, np.float64))

    a = 0.5 + size * probabilities
    decay = np.exp(-m * h)
    mean = theta_0 * decay + a * (1 - decay)
    exact = 2 * theta_0 * (decay - decay**2) + a * (1 - decay) ** 2
    estimate = size**2 * probabilities * (1 - probabilities) / n
    inflated = exact + (1 - decay**2) * np.tanh(h / 2) * estimate

    def p_values(variance):
        return {
            (name, j): p
            for j in range(3)
            for name, p in {
                "mean": checks.mean_z(theta[:, j], mean[j], variance[j]),
                "variance": checks.variance_z(theta[:, j], mean[j], variance[j]),
            }.items()
        }

    assert not checks.family(p_values(inflated))
    assert checks.family(p_values(exact)), "the check has no power"
    assert checks.family(p_values(exact + (1 - decay**2) * np.tanh(h) * estimate))


def test_first_carried_total_is_drawn_from_the_first_target(getkey):
    kernel = scir.build(GIVEN, ALPHA, 1e-6)
    state = kernel.init(getkey(), jnp.ones((2000, 10)))
    assert np.isposinf(state.log_total).all()
    state, _ = kernel.update(getkey(), state, jnp.asarray(COUNTS))
    total = np.exp(np.asarray(state.log_total, np.float64))[:, 0]
    expected = CONCENTRATION.sum()
    # One step of 1e-6 moves the total by 0.05: a two-sided z below 4, false alarm 6e-5.
    assert abs(total.mean() - expected) < 4 * np.sqrt(expected / 2000)


def test_negative_estimates_are_taken_as_zero_and_reported(getkey):
    kernel = scir.build(GIVEN, 0.1, 0.5)
    state = kernel.init(getkey(), jnp.ones(4))
    state, info = kernel.update(getkey(), state, jnp.array([-1.0, 3.0, 0.0, 2.0]))
    assert float(info.clamped) == 0.25
    assert float(info.concentration) == pytest.approx(5.4)
    assert np.isfinite(state.position).all()


BUILDS = {
    **{module.__name__: module.build for module in (scir, sgrld, sgrhmc, smld, reflected_cir)},
    "linearised smld": functools.partial(smld.build, reference=-1, linearised=True),
    "reduced rld": functools.partial(rld.build, parameterisation=REDUCED_MEAN),
}


@pytest.mark.parametrize("name", BUILDS)
def test_init_refuses_concentrations_that_do_not_fit(name, getkey):
    """Of SCIR and all that take the same arguments, and not the first update."""
    kernel = BUILDS[name](GIVEN, alpha=jnp.ones(7), step_size=0.01)
    with pytest.raises(ValueError, match=r"alpha of shape \(7,\) does not broadcast .*\(3,\)"):
        kernel.init(getkey(), jnp.ones(3))
    kernel = BUILDS[name](GIVEN, alpha={"a": 1.0}, step_size=0.01)
    with pytest.raises(ValueError, match=r"^alpha .*'a'"):
        kernel.init(getkey(), {"b": jnp.ones(3)})


def test_inflation_by_batches_is_shown_and_right(getkey):
    """README's example in batches of 100: 1.86 times too wide, at its stated value within 6%."""
    x = jnp.repeat(jnp.arange(3), jnp.array([800, 100, 100]))
    kernel = scir.build(estimators.categorical(size=1000), alpha=0.1, step_size=0.5)
    many = base.chains(kernel, 500)
    for stream, factor in ((batches.full(x), 1.0), (batches.uniform(x, 100), 1.857)):
        state = many.init(getkey(), jnp.array([0.8, 0.1, 0.1]))
        keys = jax.random.split(getkey(), 30)

        def move(state, key, stream=stream):
            key_batch, key_update = jax.random.split(key)
            # A batch for each chain.
            batch = jax.vmap(lambda key: stream(key, 0))(jax.random.split(key_batch, 500))
            return jax.vmap(kernel.update)(jax.random.split(key_update, 500), state, batch)

        state, info = jax.jit(lambda state, keys: jax.lax.scan(move, state, keys))(state, keys)
        np.testing.assert_allclose(info.inflation, factor, rtol=1e-3)
        a = np.array([800.1, 100.1, 100.1])
        exact = np.sqrt(a * (a.sum() - a) / (a.sum() ** 2 * (a.sum() + 1)))
        ratio = np.exp(state.position).std(axis=0) / exact
        # The standard error is 3.2%: 2.5 of it on either side of the mean of two near 1.
        assert abs(ratio.mean() / factor - 1) < 0.08
    unknown = estimators.Estimator(estimators.no_memory, estimators.categorical(4).estimate)
    kernel = scir.build(unknown, alpha=0.1, step_size=0.5)
    state = kernel.init(getkey(), jnp.ones(3))
    assert kernel.update(getkey(), state, jnp.array([0, 1]))[1].inflation is None


def test_counts_that_are_not_finite_are_named(getkey):
    """Those of the user's function were refused as a `shape_parameter`, which is none of theirs."""
    counts = estimators.subsampled(lambda key, log_omega, batch: jnp.full(3, jnp.nan), 1)
    kernel = scir.build(counts, 0.5, 0.1)
    state = kernel.init(getkey(), jnp.ones(3))
    with pytest.raises(ValueError, match=r"estimated counts .* nan at index"):
        kernel.update(getkey(), state, jnp.zeros(1))
