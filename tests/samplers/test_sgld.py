"""SGLD against the closed form of one step and its exact stationary law on normal targets.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed; other tolerances are stated with their standard errors.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from support import statistics_checks as checks

from simplex_jax._src import base, batches, estimators, gradients
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import sgld

# Batches are the gradients themselves.
GIVEN = estimators.Estimator(lambda key: (), lambda key, memory, position, batch: (batch, memory))
H = 0.03
ROWS = 100_000
X = {"a": np.array([1.0, -2.0]), "b": np.array(0.5)}
GRADIENT = {"a": np.array([3.0, 40.0]), "b": np.array(-7.0)}
SCALE = {"a": np.array([0.2, 2.0]), "b": np.array(1.5)}


def columns(tree):
    return np.stack([tree["a"][..., 0], tree["a"][..., 1], tree["b"]], axis=-1).astype(np.float64)


def step_checks(x):
    """Means, variances and covariances of rows [n, 3] against the normal law of one step."""
    mean = columns(X) + H * columns(SCALE) * columns(GRADIENT)
    variance = 2 * H * columns(SCALE)
    p_values = {}
    for j in range(3):
        p_values["mean", j] = checks.mean_z(x[:, j], mean[j], variance[j])
        p_values["variance", j] = checks.variance_z(
            x[:, j], mean[j], variance[j], 3 * variance[j] ** 2
        )
        for k in range(j):
            product = (x[:, j] - mean[j]) * (x[:, k] - mean[k])
            p_values["covariance", j, k] = checks.mean_z(product, 0, variance[j] * variance[k])
    return p_values


def repeated(tree):
    return {"a": np.tile(tree["a"], (ROWS, 1)), "b": np.full(ROWS, tree["b"])}


def test_one_step_is_normal_with_the_mean_and_covariance_of_the_formula(getkey):
    kernel = sgld.build(GIVEN, H, preconditioner={"a": SCALE["a"], "b": SCALE["b"]})
    state = kernel.init(getkey(), repeated(X))
    gradient = jax.tree.map(lambda g: jnp.asarray(g, jnp.float32), repeated(GRADIENT))
    state, info = kernel.update(getkey(), state, gradient)
    assert not checks.family(step_checks(columns(jax.tree.map(np.asarray, state.position))))
    square = (columns(GRADIENT) ** 2).sum() * ROWS
    assert float(info.gradient_norm) == pytest.approx(np.sqrt(square), rel=1e-4)
    # Entries count alike: there are twice as many of "a" as of "b".
    drift = np.sqrt((H * columns(SCALE) / 2 * columns(GRADIENT) ** 2).mean())
    assert float(info.drift) == pytest.approx(drift, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "proposal"),
    [
        ("correct", lambda x, g, m, xi: x + H * m * g + np.sqrt(2 * H * m) * xi),
        ("sign", lambda x, g, m, xi: x - H * m * g + np.sqrt(2 * H * m) * xi),
        ("noise", lambda x, g, m, xi: x + H * m * g + 1.02 * np.sqrt(2 * H * m) * xi),
        ("h for 2 h", lambda x, g, m, xi: x + H * m * g + np.sqrt(H * m) * xi),
        ("h / 2 drift", lambda x, g, m, xi: x + H * m * g / 2 + np.sqrt(2 * H * m) * xi),
        ("noise of M", lambda x, g, m, xi: x + H * m * g + np.sqrt(2 * H) * m * xi),
        ("one noise", lambda x, g, m, xi: x + H * m * g + np.sqrt(2 * H * m) * xi[:, :1]),
    ],
)
def test_the_check_of_one_step_sees_mutants(name, proposal, seed):
    xi = np.random.default_rng(seed).standard_normal((ROWS, 3))
    x = proposal(columns(X), columns(GRADIENT), columns(SCALE), xi)
    assert bool(checks.family(step_checks(x))) == (name != "correct")


DATA = np.array([0.5, 3.0, 2.0, -1.0, 7.0, 1.5])  # of unit normals with mean mu ~ N(0, 2^2)
PRECISION = 0.25 + len(DATA)


def nothing(state, info):
    return ()


def stationary(h, batch_size):
    """Mean and variance of the stationary law of SGLD, with the noise of minibatches."""
    noise = 0.0 if batch_size is None else len(DATA) ** 2 * DATA.var() / batch_size
    variance = (2 * h + h**2 * noise) / (1 - (1 - h * PRECISION) ** 2)
    return DATA.sum() / PRECISION, variance


def batch_of_every_chain(key, step, *, n, rows):
    key = jax.random.fold_in(key, step)
    return jax.random.choice(key, jnp.asarray(DATA, jnp.float32), (n, rows))


def none(key):
    return ()


def mean_gradient(factor, key, memory, mu, batch):
    gradient = -mu / 4 + len(DATA) / len(batch) * (batch - mu).sum(axis=0)
    return factor * gradient, memory


def run_checks(getkey, h, batch_size, noise=1.0, pull=1.0):
    """The stationary law of 40,000 chains from exact starts; mutants scale noise and drift."""
    rows = 40_000
    mean, variance = stationary(h, batch_size)

    if batch_size is None:
        stream = batches.full(jnp.asarray(DATA[:, None], jnp.float32))
    else:
        stream = base.bind(base.static(batch_of_every_chain, n=batch_size, rows=rows))
    estimator = estimators.Estimator(none, base.bind(mean_gradient, pull / noise**2))
    kernel = sgld.build(estimator, h * noise**2)
    start = mean + np.sqrt(variance) * jax.random.normal(getkey(), (rows,))
    state = kernel.init(getkey(), start)
    steps = int(3 / (h * PRECISION)) + 1
    state, _ = driver.run(
        getkey(),
        kernel,
        state,
        stream,
        steps,
        collect=nothing,
    )
    mu = np.asarray(state.position, np.float64)
    return {
        "mean": checks.mean_z(mu, mean, variance),
        "variance": checks.variance_z(mu, mean, variance),
    }


def test_the_stationary_law_on_a_normal_target_is_the_known_one(getkey):
    """Its variance is that of the target over 1 - h / 2 S, plus what minibatches add."""
    mean, variance = stationary(1e-6, None)
    assert mean == pytest.approx(DATA.sum() / PRECISION)
    assert variance == pytest.approx(1 / PRECISION, rel=1e-4)
    p_values = {}
    for h, batch_size in ((0.2, None), (0.05, 2)):
        p_values |= checks.prefixed((h, batch_size), run_checks(getkey, h, batch_size))
    assert not checks.family(p_values)
    assert "variance" in checks.family(run_checks(getkey, 0.05, 2, noise=1.05))
    assert checks.family(run_checks(getkey, 0.05, None, pull=0.95))


def test_small_steps_sample_a_skewed_target(getkey):
    """The log of a Gamma(2) variate: standard errors are 0.005 and 0.008, the bias is of O(h)."""
    a, rows, h = 2.0, 40_000, 0.02
    estimator = gradients.density(lambda x: (a * x - jnp.exp(x)).sum())
    kernel = sgld.build(estimator, h)
    state = kernel.init(getkey(), jnp.log(jax.random.gamma(getkey(), a, (rows,))))
    state, _ = driver.run(getkey(), kernel, state, batches.full(jnp.zeros(1)), 150, collect=nothing)
    x = np.asarray(state.position, np.float64)
    assert x.mean() == pytest.approx(special.digamma(a), abs=0.03)
    assert x.var() == pytest.approx(special.polygamma(1, a), rel=0.05)
    assert ((x - x.mean()) ** 3).mean() == pytest.approx(special.polygamma(2, a), rel=0.2)


def test_bad_input_is_named(getkey):
    for h in (0.0, -1.0, np.nan, [0.1]):
        with pytest.raises(ValueError, match="step_size"):
            sgld.build(GIVEN, h)
    for bad in (0.0, -1.0, np.inf, {"a": 1.0, "b": np.array([1.0, -1.0])}):
        with pytest.raises(ValueError, match="preconditioner"):
            sgld.build(GIVEN, 0.1, preconditioner=bad)
    kernel = sgld.build(GIVEN, 0.1, preconditioner=np.ones(2))
    for bad in (np.array([np.nan]), "x", ()):
        with pytest.raises(ValueError, match="position"):
            kernel.init(getkey(), bad)
    state = kernel.init(getkey(), np.zeros(3))
    with pytest.raises(ValueError, match="preconditioner of shape"):
        kernel.update(getkey(), state, jnp.zeros(3))
    with pytest.raises(ValueError, match=r"estimated gradient .*\[\(3,\)\]; .*\[\(2,\)\]$"):
        kernel.update(getkey(), state, jnp.zeros(2))
