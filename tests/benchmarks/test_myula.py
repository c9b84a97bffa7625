"""MYULA against exact laws: of one step, and its biased stationary law.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed; tolerances on biases are stated with the test.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import convex, myula, plmc
from support import euler_laws
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src import batches, gradients
from simplex_jax._src.runtime import driver

ROWS = 100_000

# exp(0.3 x - x^2 / 2) on [-0.5, 1.5].
LOW, HIGH, TILT = -0.5, 1.5, 0.3
NORMAL = gradients.density(lambda x: (TILT * x - x**2 / 2).sum())
INTERVAL = convex.box(LOW, HIGH)


def moved(x, h, smoothing):
    return x + h * (TILT - x) + h / smoothing * (np.clip(x, LOW, HIGH) - x)


@functools.cache
def exact_law(h, smoothing):
    beyond = 6 * np.sqrt(smoothing) + 7 * np.sqrt(2 * h)
    edges = [LOW - beyond, LOW, HIGH, HIGH + beyond]
    return euler_laws.law(lambda x: moved(x, h, smoothing), h, edges)


# --- One step ------------------------------------------------------------------------------------

POINT, CENTRE = np.array([0.9, -0.4, 0.7]), np.array([0.2, 0.1, -0.3])
STEP, SMOOTHING = 0.02, 0.05


def one_step_checks(x):
    """A normal law about the step of the gradient and the pull to the unit ball."""
    norm = np.linalg.norm(POINT)
    mean = POINT + STEP * (CENTRE - POINT) + STEP / SMOOTHING * (POINT / norm - POINT)
    result = {}
    for j in range(3):
        result["mean", j] = checks.mean_z(x[:, j], mean[j], 2 * STEP)
        result["variance", j] = checks.variance_z(x[:, j], mean[j], 2 * STEP, 12 * STEP**2)
        for k in range(j):
            product = (x[:, j] - mean[j]) * (x[:, k] - mean[k])
            result["covariance", j, k] = checks.mean_z(product, 0, 4 * STEP**2)
    return result


def test_one_step_has_the_moments_of_the_euler_step(getkey):
    normal = gradients.density(lambda x: -((x - CENTRE) ** 2).sum() / 2)
    kernel = myula.build(normal, convex.ball(), STEP, smoothing=SMOOTHING)
    state = kernel.init(getkey(), jnp.broadcast_to(POINT, (ROWS, 3)))
    state, info = kernel.update(getkey(), state, None)
    x = np.asarray(state.position, np.float64)
    assert not checks.family(one_step_checks(x))
    outside = np.maximum(np.linalg.norm(x, axis=1) - 1, 0)
    assert float(info.distance) == pytest.approx(np.linalg.norm(outside), rel=1e-4)


@pytest.mark.parametrize(
    ("name", "drift", "pull", "noise"),
    [
        ("correct", 1, 1, 1),
        ("noise x 1.1", 1, 1, 1.1),
        ("h for 2 h", 1, 1, np.sqrt(0.5)),
        ("sign of the drift", -1, 1, 1),
        ("half drift", 0.5, 1, 1),
        ("sign of the pull", 1, -1, 1),
        ("no pull", 1, 0, 1),
        ("pull twice", 1, 2, 1),
    ],
)
def test_the_check_of_one_step_sees_mutants(name, drift, pull, noise, seed):
    xi = np.random.default_rng(seed).standard_normal((ROWS, 3))
    inside = POINT / np.linalg.norm(POINT)
    x = POINT + STEP * drift * (CENTRE - POINT) + STEP / SMOOTHING * pull * (inside - POINT)
    rejected = checks.family(one_step_checks(x + noise * np.sqrt(2 * STEP) * xi))
    assert bool(rejected) == (name != "correct")


# --- The stationary law --------------------------------------------------------------------------


def run(h, smoothing, steps, getkey):
    kernel = myula.build(NORMAL, INTERVAL, h, smoothing=smoothing)
    state = kernel.init(getkey(), jnp.zeros(ROWS))
    stream = batches.full(jnp.zeros(1))
    state, _ = driver.run(getkey(), kernel, state, stream, steps, collect=lambda *_: ())
    return np.asarray(state.position, np.float64)


@pytest.mark.parametrize(("h", "smoothing"), slow_but([(0.04, 0.04), (0.02, 0.08)], (0.04, 0.04)))
def test_the_stationary_law_is_the_biased_one_computed(h, smoothing, getkey):
    """The start is forgotten after 20 relaxation times and more."""
    x = run(h, smoothing, int(10 / h), getkey)
    assert not checks.family(exact_law(h, smoothing).check(x))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "drift", "pull", "noise"),
    [
        ("correct", 1, 1, 1),
        ("noise x 1.1", 1, 1, 1.1),
        ("half drift", 0.5, 1, 1),
        ("pull x 1.2", 1, 1.2, 1),
    ],
)
def test_the_check_of_the_stationary_law_sees_mutants(name, drift, pull, noise, seed):
    h, smoothing = 0.02, 0.08
    rng, x = np.random.default_rng(seed), np.zeros(ROWS)
    for _ in range(500):
        step = h * drift * (TILT - x) + pull * h / smoothing * (np.clip(x, LOW, HIGH) - x)
        x = x + step + noise * np.sqrt(2 * h) * rng.standard_normal(ROWS, np.float32)
    assert bool(checks.family(exact_law(h, smoothing).check(x))) == (name != "correct")


@pytest.mark.parametrize(
    ("ratio", "constant", "tolerance"),
    # 0.8239 = 0.5826 sqrt(2) at h = lambda; sqrt(pi / 2) in the limit, 1.6 % less at lambda / 20.
    [(1.0, 0.8239, 0.01), (0.05, np.sqrt(np.pi / 2), 0.025)],
)
def test_the_bias_is_of_order_one_half_with_the_stated_constant(ratio, constant, tolerance):
    """By quadrature: the biased law and the exact target; the remainder is of order lambda."""
    x = np.linspace(LOW, HIGH, 100_001)
    density = np.exp(TILT * x - x**2 / 2)
    density /= np.trapezoid(density, x)
    smoothings = (4e-3, 1e-3) if ratio == 1 else (0.04, 0.01)
    for power in (1, 2):
        exact = np.trapezoid(x**power * density, x)
        surface = density[0] * (LOW**power - exact) + density[-1] * (HIGH**power - exact)
        result = [
            (exact_law(ratio * s, s).expect(lambda x, k=power: x**k) - exact)
            / (np.sqrt(s) * surface)
            for s in smoothings
        ]
        # Richardson's step removes the next order.
        assert 2 * result[1] - result[0] == pytest.approx(constant, rel=tolerance)


def test_with_the_smoothing_of_a_step_the_projection_is_projected_langevin(getkey):
    """A constant gradient does not see where it is taken: then the two are one chain."""
    tilted = gradients.density(lambda x: x @ jnp.array([1.0, -2.0, 0.5]))
    smooth = myula.build(tilted, convex.ball(), 0.1, smoothing=0.1)
    projected = plmc.build(tilted, convex.ball(), 0.1)
    start = jnp.array([0.5, 0.1, -0.2])
    a, b = smooth.init(getkey(), start), projected.init(getkey(), start)
    for _ in range(30):
        key = getkey()
        a, _ = jax.jit(smooth.update)(key, a, None)
        b, _ = jax.jit(projected.update)(jax.random.clone(key), b, None)
        np.testing.assert_allclose(convex.ball()(a.position), b.position, atol=1e-5)
    assert np.linalg.norm(a.position) != np.linalg.norm(b.position)


def test_bad_input_is_named():
    for smoothing in (0.0, -1.0, np.nan, np.inf, [0.1]):
        with pytest.raises(ValueError, match="smoothing"):
            myula.build(NORMAL, INTERVAL, 0.1, smoothing=smoothing)
    for h in (0.2, 0.5, lambda step: 0.3):
        with pytest.raises(ValueError, match=r"^step_size .* 0\.2: "):
            myula.build(NORMAL, INTERVAL, h, smoothing=0.1)
    with pytest.raises(ValueError, match="step_size"):
        myula.build(NORMAL, INTERVAL, -0.1, smoothing=0.1)
