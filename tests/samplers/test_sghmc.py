"""SGHMC against the closed form of one step, its law for small steps, and noise in the gradient.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from support import statistics_checks as checks

from simplex_jax._src import batches, estimators, gradients
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import sghmc

# Batches are the gradient itself.
GIVEN = estimators.Estimator(lambda key: (), lambda key, memory, position, batch: (batch, memory))

H, FRICTION = 0.2, 1.5
X0, R0, SLOPE = np.array([0.5, -3.0]), np.array([1.5, -0.4]), np.array([2.0, 7.0])
MASS, VARIANCE = np.array([0.5, 3.0]), np.array([0.4, 8.0])
ROWS = 100_000


def step_checks(x, r):
    mean = R0 * (1 - H * FRICTION) + H * SLOPE
    variance = 2 * H * FRICTION * MASS - H**2 * VARIANCE
    p_values = {}
    for j in range(2):
        p_values["r", j] = checks.mean_z(r[:, j], mean[j], variance[j])
        p_values["r^2", j] = checks.variance_z(r[:, j], mean[j], variance[j], 3 * variance[j] ** 2)
        error = np.abs(x[:, j] - X0[j] - H * r[:, j] / MASS[j]).max()
        p_values["x", j] = float(error < 1e-5)
    product = (r[:, 0] - mean[0]) * (r[:, 1] - mean[1])
    p_values["covariance"] = checks.mean_z(product, 0, variance[0] * variance[1])
    return p_values


def test_one_step_has_the_moments_of_the_formula(getkey):
    kernel = sghmc.build(GIVEN, H, friction=FRICTION, mass=MASS, noise_estimate=VARIANCE)
    state = kernel.init(getkey(), jnp.broadcast_to(jnp.asarray(X0, jnp.float32), (ROWS, 2)))
    drawn = np.asarray(state.auxiliary[0], float)
    start = {j: checks.variance_z(drawn[:, j], 0, m, 3 * m**2) for j, m in enumerate(MASS.tolist())}
    momentum = jnp.broadcast_to(jnp.asarray(R0, jnp.float32), (ROWS, 2))
    state = state._replace(auxiliary=(momentum,))
    slope = jnp.broadcast_to(jnp.asarray(SLOPE, jnp.float32), (ROWS, 2))
    state, info = jax.jit(kernel.update)(getkey(), state, slope)
    r = np.asarray(state.auxiliary[0], float)
    result = step_checks(np.asarray(state.position, float), r)
    assert not checks.family({**result, **start})
    assert float(info.temperature) == pytest.approx((r**2 / MASS).mean(), rel=1e-4)


@pytest.mark.parametrize(
    ("name", "friction", "slope", "variance"),
    [
        ("correct", H * FRICTION, H, 2 * H * FRICTION * MASS - H**2 * VARIANCE),
        ("noise", H * FRICTION, H, 1.21 * (2 * H * FRICTION * MASS - H**2 * VARIANCE)),
        ("no mass", H * FRICTION, H, 2 * H * FRICTION - H**2 * VARIANCE / 8),
        ("no estimate", H * FRICTION, H, 2 * H * FRICTION * MASS),
        ("missing 2", H * FRICTION, H, H * FRICTION * MASS - H**2 * VARIANCE),
        ("sign", H * FRICTION, -H, 2 * H * FRICTION * MASS - H**2 * VARIANCE),
        ("friction / mass", H * FRICTION / MASS, H, 2 * H * FRICTION * MASS - H**2 * VARIANCE),
    ],
)
def test_the_check_of_one_step_sees_mutants(name, friction, slope, variance, seed):
    xi = np.random.default_rng(seed).standard_normal((ROWS, 2))
    r = R0 * (1 - friction) + slope * SLOPE + np.sqrt(np.abs(variance)) * xi
    assert bool(checks.family(step_checks(X0 + H * r / MASS, r))) == (name != "correct")


# Log-gamma laws, skewed to the left; every coordinate is a chain.
SHAPE, NOISE = 0.7, 120.0
COORDINATES, STEP, STEPS = 40_000, 0.005, 600


def noisy(scale):
    def estimate(key, memory, position, batch):
        slope = SHAPE - jnp.exp(position)
        return slope + scale * jax.random.normal(key, position.shape), memory

    return estimators.Estimator(lambda key: (), estimate)


def law_checks(state):
    x, r = np.asarray(state.position, float), np.asarray(state.auxiliary[0], float)
    mean, variance = special.digamma(SHAPE), special.polygamma(1, SHAPE)
    fourth = special.polygamma(3, SHAPE) + 3 * variance**2
    return {
        "law": checks.dkwm(np.exp(x), lambda t: special.gammainc(SHAPE, t)),
        "mean": checks.mean_z(x, mean, variance),
        "variance": checks.variance_z(x, mean, variance, fourth),
        "temperature": checks.variance_z(r, 0, 1, 3),
    }


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exact", "estimated", "not estimated"])
def test_small_steps_leave_an_asymmetric_law(how, getkey, seed):
    """Noise in the gradient heats the chain, and an estimate of it takes that back."""
    scale = 0.0 if how == "exact" else np.sqrt(NOISE)
    kernel = sghmc.build(
        noisy(scale), STEP, friction=1.5, noise_estimate=NOISE if how == "estimated" else 0.0
    )
    start = np.log(np.random.default_rng(seed).gamma(SHAPE, 1, COORDINATES))
    state = kernel.init(getkey(), jnp.asarray(start, jnp.float32))
    stream = batches.full(jnp.zeros(1))
    state, info = driver.run(
        getkey(), kernel, state, stream, STEPS, collect=lambda state, info: info.temperature
    )
    assert bool(checks.family(law_checks(state))) == (how == "not estimated")
    heated = 1 + STEP * NOISE / 2 / 1.5 if how == "not estimated" else 1
    assert info[-50:].mean() == pytest.approx(heated, abs=0.02)


def test_bad_arguments_are_named(getkey):
    for name, value in (
        ("friction", 0.0),
        ("friction", np.nan),
        ("friction", [1.0, 2.0]),
        ("mass", -1.0),
        ("mass", {"a": 0.0}),
        ("noise_estimate", -1.0),
    ):
        with pytest.raises(ValueError, match=name):
            sghmc.build(GIVEN, 0.1, **{name: value})
    for h in (0.0, np.nan, 1.0):
        with pytest.raises(ValueError, match="step_size"):
            sghmc.build(GIVEN, h, friction=2.0)
    kernel = sghmc.build(gradients.density(lambda x: jnp.log(x).sum()), 0.1)
    for position, message in (([jnp.nan], "position"), (jnp.array([-1.0]), "log density")):
        with pytest.raises(ValueError, match=message):
            kernel.init(getkey(), position)
    kernel = sghmc.build(GIVEN, 0.1, mass=jnp.ones(3))
    with pytest.raises(ValueError, match="mass of shape"):
        kernel.init(getkey(), jnp.ones(2))
