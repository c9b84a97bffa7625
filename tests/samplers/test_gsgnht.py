"""gSGNHT against the formula of its step, its law for small steps, and noise in the gradient.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from samplers import test_sgnht as flat
from samplers.test_sggmc import ANY, GIVEN, NOISE, noisy_fisher
from support import geodesic_laws as laws
from support import statistics_checks as checks

from simplex_jax._src import base, gradients
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import gsgnht

SPHERE = manifolds.sphere()


def test_one_step_has_the_moments_of_the_formula(getkey):
    """In double precision, for every chain its own thermostat; m = 2 on the sphere in R^3."""
    h, c, xi, inertia, rows = 0.3, 0.8, 1.7, 2.5, 100_000
    x0, slope = np.array([0.6, 0.0, 0.8]), np.array([2.0, -7.0, 4.0])
    v0 = np.array([1.2, -0.5, -0.9])
    kernel = base.chains(gsgnht.build(GIVEN, SPHERE, h, friction=c, inertia=inertia), rows)

    @jax.jit
    def run(kernel, key):
        state = kernel.init(key, jnp.asarray(x0, jnp.float32))
        started = state.thermostat
        state = state._replace(
            velocity=jnp.broadcast_to(jnp.asarray(v0, jnp.float32), (rows, 3)),
            thermostat=jnp.full(rows, xi, jnp.float32),
        )
        after, info = kernel.update(
            jax.random.fold_in(key, 1), state, jnp.asarray(slope, jnp.float32)
        )
        back = SPHERE.flow(after.position, -after.velocity, h / 2)
        return started, after, info, -back[1]

    started, after, info, v = run(kernel, getkey())
    assert (np.asarray(started) == np.float32(c)).all()
    v = np.asarray(v, float)
    speed = np.linalg.norm(v0)
    x = x0 * np.cos(speed * h / 2) + v0 / speed * np.sin(speed * h / 2)
    turned = v0 * np.cos(speed * h / 2) - speed * x0 * np.sin(speed * h / 2)
    tangent = np.eye(3) - np.outer(x, x)
    half = xi + h / 2 / inertia * (speed**2 / 2 - 1)
    damped = np.exp(-half * h / 2)
    mean = damped * (damped * turned + h * tangent @ slope)
    basis = np.linalg.svd(tangent)[0][:, :2]
    z = (v - mean) @ basis / (damped * np.sqrt(2 * c * h))

    def result(z):
        p_values = {("mean", j): checks.mean_z(z[:, j], 0, 1) for j in range(2)}
        return p_values | {("variance", j): checks.variance_z(z[:, j], 0, 1, 3) for j in range(2)}

    assert not checks.family(result(z))
    assert checks.family(result(1.1 * z))
    kinetic = (v**2).sum(axis=1) / 2
    moved = half + h / 2 / inertia * (kinetic - 1)
    np.testing.assert_allclose(after.thermostat, moved, atol=3e-5)
    np.testing.assert_allclose(info.thermostat, after.thermostat, atol=1e-6)
    np.testing.assert_allclose(info.kinetic, kinetic, rtol=1e-4)


@pytest.mark.slow
def test_the_flat_case_has_the_law_of_sgnht(getkey, seed):
    """The target and the checks of `test_sgnht`, at ten times its step size."""
    shapes = jnp.asarray(flat.SHAPES, jnp.float32)
    one = gsgnht.build(
        gradients.density(lambda x: (shapes * x - jnp.exp(x)).sum()),
        manifolds.euclidean(),
        10 * flat.STEP,
        friction=flat.A,
    )
    many = base.chains(one, flat.CHAINS, position_axis=0)
    rng = np.random.default_rng(seed)
    start = np.log(rng.gamma(flat.SHAPES, 1, (flat.CHAINS, 3)))
    state = many.init(getkey(), jnp.asarray(start, jnp.float32))
    thermostat = flat.A + rng.standard_normal(flat.CHAINS) / np.sqrt(len(flat.SHAPES))
    state = state._replace(thermostat=jnp.asarray(thermostat, jnp.float32))
    state, _ = driver.run(getkey(), many, state, ANY, flat.STEPS // 10)
    seen = SimpleNamespace(position=state.position, auxiliary=(state.velocity, state.thermostat))
    assert not checks.family(flat.law_checks(seen))


STEP, STEPS, COPIES, FRICTION = 0.05, 600, 20_000, 1.5


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [False, True])
def test_the_thermostat_has_its_law(wrong, getkey, seed):
    """N(C, 1 / (inertia m)), a thermostat for every chain; that of the squared inertia is wrong."""
    rows = 8_000
    start = laws.fisher_draws(np.random.default_rng(seed), rows)

    def run():
        inertia = 0.25 if wrong else 0.5
        one = gsgnht.build(noisy_fisher(0.0), SPHERE, STEP, friction=FRICTION, inertia=inertia)
        many = base.chains(one, rows, position_axis=0)
        state = many.init(getkey(), jnp.asarray(start, jnp.float32))
        state, _ = driver.run(getkey(), many, state, ANY, STEPS // 2)
        xi, variance = np.asarray(state.thermostat, float), 1 / (0.5 * 2)
        return laws.fisher_checks(state.position) | {
            "thermostat": checks.mean_z(xi, FRICTION, variance),
            "its variance": checks.variance_z(xi, FRICTION, variance, 3 * variance**2),
        }

    assert set(checks.family(run())) == ({"its variance"} if wrong else set())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exact", "noise", "dimension"])
def test_the_thermostat_takes_up_the_noise_of_the_gradient(how, getkey, seed):
    """One thermostat for all copies. Of the dimension n in place of n - 1 it keeps them too hot."""
    manifold = SPHERE
    if how == "dimension":
        manifold = SPHERE._replace(dimension=lambda x: x.size)
    estimator = noisy_fisher(np.sqrt(NOISE) if how == "noise" else 0.0)
    kernel = gsgnht.build(estimator, manifold, STEP, friction=FRICTION)
    start = laws.fisher_draws(np.random.default_rng(seed), COPIES)
    state = kernel.init(getkey(), jnp.asarray(start, jnp.float32))
    state, info = driver.run(getkey(), kernel, state, ANY, STEPS, collect=lambda state, info: info)
    wrong = how == "dimension"
    assert bool(checks.family(laws.fisher_checks(state.position))) == wrong
    assert info.kinetic[-300:].mean() == pytest.approx(1, abs=0.02)
    level = FRICTION + (STEP * NOISE / 2 if how == "noise" else 0)
    if not wrong:
        assert info.thermostat[-300:].mean() == pytest.approx(level, abs=0.1)
    assert info.constraint_error.max() < 1e-6


def test_bad_arguments_are_named():
    for name, value in (
        ("friction", 0.0),
        ("friction", [1.0, 2.0]),
        ("inertia", 0.0),
        ("noise_estimate", -1.0),
        ("num_steps", 0),
    ):
        with pytest.raises(ValueError, match=name):
            gsgnht.build(GIVEN, SPHERE, 0.1, **{name: value})
    with pytest.raises(ValueError, match="step_size"):
        gsgnht.build(GIVEN, SPHERE, 0.6, friction=1.0, noise_estimate=4.0)
