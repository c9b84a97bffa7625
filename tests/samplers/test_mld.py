"""MLD against the closed form of one step and the exact law of its Euler steps.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed; tolerances on biases are stated with the test.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import euler_laws
from support import statistics_checks as checks
from support.convex_laws import dual_log_density
from support.marks import slow_but

from simplex_jax._src import batches, gradients
from simplex_jax._src.geometry import mirror
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import mld

ROWS = 20_000
STEP = 0.05
SHAPES, TILT = np.array([2.0, 0.3, 4.0]), np.array([1.5, -0.5, 2.0])
EMPTY = batches.full(jnp.zeros(1))


def barrier(x):
    """Of the triangle x_1 > 0, x_2 > 0, x_1 + x_2 < 1."""
    return -jnp.log(x).sum() - jnp.log(1 - x.sum())


def entropy(x):
    return (x * jnp.log(x) - x).sum()


def dirichlet(x):
    return ((SHAPES - 1) * jnp.log(x)).sum()


def dirichlet_of_two(x):
    return dirichlet(jnp.concatenate([x, 1 - x.sum(axis=-1, keepdims=True)], axis=-1))


def tilted(x):
    return (x * TILT).sum()


# --- One step ------------------------------------------------------------------------------------


def barrier_drift(x, pull=1.0, curvature=1.0):
    """(3.3) for a Dirichlet under the log barrier, its third derivative by differences."""

    def hessian(x):
        return np.diag(1 / x**2) + 1 / (1 - x.sum()) ** 2

    def log_det(x):
        return np.linalg.slogdet(hessian(x))[1]

    slope = [(log_det(x + e) - log_det(x - e)) / 2e-6 for e in 1e-6 * np.eye(2)]
    gradient = (SHAPES[:2] - 1) / x - (SHAPES[2] - 1) / (1 - x.sum())
    return np.linalg.solve(hessian(x), pull * gradient - curvature * np.array(slope))


def simplex_drift(x, pull=1.0, curvature=1.0):
    a = pull * (SHAPES - 1) + curvature
    return (a - a.sum() * x)[1:]


def cube_drift(x, pull=1.0, curvature=1.0):
    return pull * (1 - x**2) * TILT - 2 * curvature * x


def ball_drift(x, pull=1.0, curvature=1.0):
    r = np.linalg.norm(x)
    return pull * (1 - r) * (TILT - x * (x @ TILT) / r) - 4 * curvature * (1 - r) * x / r


CASES = {
    "simplex": (lambda: mirror.simplex(0), dirichlet, [0.5, 0.1, 0.4], simplex_drift),
    "hypercube": (mirror.hypercube, tilted, [0.9, -0.2, 0.4], cube_drift),
    "ball": (mirror.ball, tilted, [0.4, -0.2, 0.3], ball_drift),
    "own": (lambda: mirror.from_convex(barrier), dirichlet_of_two, [0.3, 0.6], barrier_drift),
}
DUALS = {
    "simplex": lambda x: np.log(x[1:] / x[0]),
    "hypercube": np.arctanh,
    "ball": lambda x: x / (1 - np.linalg.norm(x)),
    "own": lambda x: 1 / (1 - x.sum()) - 1 / x,
}


def one_step_checks(name, y):
    _, _, x, drift = CASES[name]
    mean = DUALS[name](np.array(x)) + STEP * drift(np.array(x))
    result = {}
    for j in range(mean.size):
        result["mean", j] = checks.mean_z(y[:, j], mean[j], 2 * STEP, 1e-6)
        result["variance", j] = checks.variance_z(y[:, j], mean[j], 2 * STEP, 12 * STEP**2, 1e-6)
        for k in range(j):
            product = (y[:, j] - mean[j]) * (y[:, k] - mean[k])
            result["covariance", j, k] = checks.mean_z(product, 0, 4 * STEP**2)
    return result


@pytest.mark.parametrize("name", CASES)
def test_one_step_has_the_moments_of_the_euler_step(name, getkey):
    maps, log_density, x, _ = CASES[name]
    kernel = mld.build(gradients.density(lambda x: log_density(x)), maps(), STEP)
    state = kernel.init(getkey(), jnp.asarray(x))
    keys = jax.random.split(getkey(), ROWS)
    many = jax.jit(jax.vmap(kernel.update, in_axes=(0, None, None)))
    state, _ = many(keys, state, None)
    y = np.asarray(state.dual, np.float64)
    assert not checks.family(one_step_checks(name, y))
    for i in range(5):
        x = np.asarray(state.position[i], np.float64)
        np.testing.assert_allclose(DUALS[name](x), y[i], rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_the_check_of_one_step_sees_mutants(name, seed):
    xi = np.random.default_rng(seed).standard_normal((ROWS, len(CASES[name][2])))
    _, _, x, drift = CASES[name]
    y, x = DUALS[name](np.array(x)), np.array(x)
    xi = xi[:, : y.size]
    noise = np.sqrt(2 * STEP) * xi
    mutants = {
        "correct": y + STEP * drift(x) + noise,
        "noise x 1.1": y + STEP * drift(x) + 1.1 * noise,
        "h for 2 h": y + STEP * drift(x) + noise / np.sqrt(2),
        "sign": y - STEP * drift(x) + noise,
        "no curvature": y + STEP * drift(x, curvature=0) + noise,
        "sign of the curvature": y + STEP * drift(x, curvature=-1) + noise,
        "half the gradient": y + STEP * drift(x, pull=0.5) + noise,
    }
    rejected = {
        key for key, moved in mutants.items() if checks.family(one_step_checks(name, moved))
    }
    assert rejected == set(mutants) - {"correct"}


# --- Laws ----------------------------------------------------------------------------------------

# Densities of y and what the primal form is given: a tilt of (-1, 1), and Gamma(3, rate 2).
LINES = {
    "interval": (mirror.hypercube, lambda x: (1.5 * x).sum(), 0.5, [-9.0, 11.0]),
    "half line": (
        lambda: mirror.from_convex(entropy),
        lambda x: (2 * jnp.log(x) - 2 * x).sum(),
        1.0,
        [-8.0, 3.5],
    ),
}


def slope(name, y, pull=1.0, curvature=1.0):
    if name == "interval":
        return pull * 1.5 / np.cosh(y) ** 2 - 2 * curvature * np.tanh(y)
    return pull * (2 - 2 * np.exp(y)) + curvature


@functools.cache
def exact_law(name, h):
    return euler_laws.law(lambda y: y + h * slope(name, y), h, LINES[name][3])


@pytest.mark.parametrize("name", slow_but(LINES, "interval"))
def test_the_stationary_law_is_that_of_the_euler_steps(name, getkey):
    """Time 6 is 12 relaxation times and more."""
    h, rows = 0.05, 4000
    maps, log_density, start, _ = LINES[name]
    kernel = mld.build(gradients.density(log_density), maps(), h)
    state = kernel.init(getkey(), jnp.full((rows, 1), start))
    state, _ = driver.run(getkey(), kernel, state, EMPTY, 120, collect=lambda *_: ())
    y = np.asarray(state.dual, np.float64)[:, 0]
    assert not checks.family(exact_law(name, h).check(y))


@pytest.mark.parametrize("name", LINES)
def test_the_check_of_the_stationary_law_sees_mutants(name, seed):
    h, rows, rejected = 0.05, 4000, set()
    mutants = {
        "correct": (1.0, 1.0, 1.0),
        "noise x 1.1": (1.1, 1.0, 1.0),
        "no curvature": (1.0, 1.0, 0.0),
        "gradient x 1.5": (1.0, 1.5, 1.0),
    }
    for mutant, (noise, pull, curvature) in mutants.items():
        rng, y = np.random.default_rng(seed), np.zeros(rows)
        for _ in range(120):
            xi = rng.standard_normal(rows, np.float32)
            y = y + h * slope(name, y, pull, curvature) + noise * np.sqrt(2 * h) * xi
        if checks.family(exact_law(name, h).check(y)):
            rejected.add(mutant)
    assert rejected == set(mutants) - {"correct"}


def test_the_bias_is_of_order_h():
    """By quadrature, for the mean and variance of y against those of the exact density."""
    y = np.linspace(-8, 3, 200_001)
    density = np.exp(3 * y - 2 * np.exp(y))
    density /= density.sum()
    mean = y @ density
    variance = (y - mean) ** 2 @ density
    for moment, exact in ((lambda y: y, mean), (lambda y: (y - mean) ** 2, variance)):
        biases = [exact_law("half line", h).expect(moment) - exact for h in (0.02, 0.01)]
        assert np.log2(biases[0] / biases[1]) == pytest.approx(1, abs=0.1)


def test_a_dirichlet_for_small_steps(getkey, seed):
    """Dirichlet(2, 3, 4) of exact starts: within 1.5 and 5% at h = 0.005, far off at h = 0.2."""
    a = np.array([2.0, 3.0, 4.0])
    start = jnp.asarray(np.random.default_rng(seed).dirichlet(a, 20_000), jnp.float32)
    estimator = gradients.density(lambda x: ((a - 1) * jnp.log(x)).sum())

    def moments(h, steps):
        kernel = mld.build(estimator, mirror.simplex(), h)
        state = kernel.init(getkey(), start)
        state, _ = driver.run(getkey(), kernel, state, EMPTY, steps, collect=lambda *_: ())
        x = np.asarray(state.position, np.float64)
        return x.mean(axis=0), x.var(axis=0)

    mean = a / a.sum()
    exact = mean * (1 - mean) / (a.sum() + 1)
    result, variance = moments(0.005, 200)
    np.testing.assert_allclose(result, mean, rtol=0.015)
    np.testing.assert_allclose(variance, exact, rtol=0.05)
    _, coarse = moments(0.2, 20)
    assert np.abs(coarse / exact - 1).max() > 0.15


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ball", "own"])
def test_the_two_forms_are_one_process(name, getkey):
    maps, log_density, x, _ = CASES[name]
    maps, near = maps(), jnp.asarray(x)

    def log_dual(y):
        return dual_log_density(maps, log_density, y, near)

    primal = mld.build(gradients.density(lambda x: log_density(x)), maps, STEP)
    dual = mld.build(gradients.density(log_dual), maps, STEP, form="dual")
    a, b = primal.init(getkey(), near), dual.init(getkey(), near)
    for _ in range(10):
        key = getkey()
        a, info = jax.jit(primal.update)(key, a, None)
        b, other = jax.jit(dual.update)(jax.random.clone(key), b, None)
    np.testing.assert_allclose(a.dual, b.dual, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(a.position, b.position, rtol=1e-3, atol=1e-5)
    assert float(info.drift) == pytest.approx(float(other.drift), rel=1e-2)


# --- Bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("maps", "position"),
    [
        (mirror.simplex(), [[0.5, 0.5], [1.0, 0.0]]),
        (mirror.simplex(), [0.5, np.nan]),
        (mirror.hypercube(), [0.5, 1.0]),
        (mirror.hypercube(), [0.5, np.nan]),
        (mirror.ball(), [0.6, 0.8]),
        (mirror.from_convex(barrier), [0.6, 0.8]),
        (mirror.from_convex(lambda x: -(x**2).sum()), [0.6, 0.8]),
        (mirror.from_convex(lambda x: x[0] * x[1]), [0.6, 0.8]),
    ],
)
def test_a_start_outside_or_a_map_not_convex_there_is_named(maps, position, getkey):
    kernel = mld.build(gradients.density(lambda x: x["a"].sum()), maps, 0.1)
    with pytest.raises(ValueError, match=r"position\['a'\] must be inside.*strictly convex"):
        kernel.init(getkey(), {"a": jnp.array(position)})


def test_bad_input_is_named(getkey):
    with pytest.raises(ValueError, match=r"form .* 'both'"):
        mld.build(gradients.density(tilted), mirror.ball(), 0.1, form="both")
    with pytest.raises(ValueError, match="step_size"):
        mld.build(gradients.density(tilted), mirror.ball(), 0.0)
    kernel = mld.build(gradients.density(tilted), mirror.ball(), 0.1)
    with pytest.raises(ValueError, match="last axis"):
        kernel.init(getkey(), jnp.array(0.1))
    wrong = mld.build(gradients.density(lambda x: jnp.log(x - 1).sum()), mirror.ball(), 0.1)
    with pytest.raises(ValueError, match=r"log density .*(inf|nan)$"):
        wrong.init(getkey(), jnp.array([0.1, 0.2]))
