"""SGGMC against the closed form of one step, its law for small steps, and noise in the gradient.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed.
"""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from samplers import test_sghmc as flat
from scipy.linalg import expm, solve_discrete_lyapunov
from support import geodesic_laws as laws
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src import base, batches, estimators, gradient_noise, gradients
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.runtime import driver, hooks
from simplex_jax._src.samplers import geodesic, sggmc

# Batches are the gradient itself.
GIVEN = estimators.Estimator(lambda key: (), lambda key, memory, position, batch: (batch, memory))
ANY = batches.full(jnp.zeros(1))

H, ROWS = 0.3, 100_000
SLOPE = np.array([2.0, -7.0, 4.0])
FRICTION = {
    "number": np.array(1.5),
    "diagonal": np.array([0.5, 1.5, 4.0]),
    "matrix": np.array([[2.0, 0.9, 0.0], [0.9, 1.0, -0.4], [0.0, -0.4, 3.0]]),
}
VARIANCE = {
    "number": np.array(2.0),
    "diagonal": np.array([1.0, 0.5, 8.0]),
    "matrix": np.array([[3.0, 0.0, 1.0], [0.0, 1.0, 0.2], [1.0, 0.2, 2.0]]),
}
SPACES = {"euclidean": manifolds.euclidean(), "sphere": manifolds.sphere()}


def starts(space):
    x, v = np.array([0.6, 0.0, 0.8]), np.array([1.2, -0.5, 0.3])
    return (x, v - x * (x @ v)) if space == "sphere" else (x, v)


def dense(operator):
    return operator if operator.ndim == 2 else operator * np.eye(3)


def step_checks(space, friction, variance, v, x_middle, **mutant):
    """Of velocities just before the last geodesic, against the formula in double precision.

    Mutants change one of its parts.
    """
    c, cov = dense(friction), dense(variance)
    _, start = starts(space)
    tangent = np.eye(3) - (np.outer(x_middle, x_middle) if space == "sphere" else 0)
    basis = np.linalg.svd(tangent)[0][:, : 2 if space == "sphere" else 3]
    damped = expm(-mutant.get("generator", tangent @ c) * H / 2)
    turned = mutant.get("turned", start)
    mean = damped @ (damped @ turned + mutant.get("sign", 1) * H * tangent @ SLOPE)
    noise = mutant.get("noise", 1) * (2 * c - mutant.get("estimate", 1) * H * cov) * H
    spread = basis.T @ damped @ tangent @ noise @ tangent @ damped.T @ basis
    white = np.linalg.solve(np.linalg.cholesky(spread), basis.T @ (v - mean).T)
    result = {}
    for i, z in enumerate(white):
        result["mean", i] = checks.mean_z(z, 0, 1)
        result["variance", i] = checks.variance_z(z, 0, 1, 3)
        for j in range(i):
            result["covariance", i, j] = checks.mean_z(z * white[j], 0, 1)
    return result


@pytest.mark.parametrize(
    ("space", "kind", "other"),
    [
        ("euclidean", "number", "diagonal"),
        ("euclidean", "diagonal", "matrix"),
        ("sphere", "number", "number"),
        ("sphere", "diagonal", "diagonal"),
        ("sphere", "matrix", "number"),
    ],
)
def test_one_step_has_the_moments_of_the_formula(space, kind, other, getkey):
    manifold, friction, variance = SPACES[space], FRICTION[kind], VARIANCE[other]
    kernel = sggmc.build(GIVEN, manifold, H, friction=friction, noise_estimate=variance)
    x, v = (jnp.broadcast_to(jnp.asarray(a, jnp.float32), (ROWS, 3)) for a in starts(space))

    @jax.jit
    def run(kernel, key, x, v):
        state = kernel.init(key, x)._replace(velocity=v)
        slope = jnp.broadcast_to(jnp.asarray(SLOPE, jnp.float32), x.shape)
        after, info = kernel.update(jax.random.fold_in(key, 1), state, slope)
        back = manifold.flow(after.position, -after.velocity, H / 2)
        return after, info, back, manifold.flow(x, v, H / 2)

    after, info, back, middle = run(kernel, getkey(), x, v)
    # The position is where the first half of a geodesic ends, until the second.
    np.testing.assert_allclose(back[0], middle[0], atol=3e-6)
    x_middle = np.asarray(middle[0][0], float)
    turned = np.asarray(middle[1][0], float)
    before = -np.asarray(back[1], float)
    assert not checks.family(
        step_checks(space, friction, variance, before, x_middle, turned=turned)
    )
    square = np.sum(np.square(np.asarray(after.velocity, float)))
    assert float(info.kinetic) == pytest.approx(square / manifold.dimension(x), rel=1e-4)
    share = H * (np.diag(dense(variance)) / np.diag(dense(friction))).max() / 2
    assert float(info.gradient_noise) == pytest.approx(share, rel=1e-5)
    mutants = {
        "noise": {"noise": 1.21},
        "sign": {"sign": -1},
        "no estimate": {"estimate": 0},
        "missing 2": {"noise": 0.5},
        "friction": {"generator": 1.1 * dense(friction)},
    }
    if space == "sphere" and kind != "number":
        mutants["friction not projected"] = {"generator": dense(friction)}
    for name, mutant in mutants.items():
        mutant = {"turned": turned, **mutant}
        result = step_checks(space, friction, variance, before, x_middle, **mutant)
        assert checks.family(result), name


def test_the_stationary_law_of_the_linear_step_is_exact(getkey, seed):
    """On a Gaussian one step is linear: its stationary covariance solves Lyapunov's equation."""
    h, c, precision, n = 0.7, 0.8, 1.5, 100_000
    half = np.array([[1, h / 2], [0, 1]])
    damp, kick = np.diag([1, np.exp(-c * h / 2)]), np.array([[1, 0], [-h * precision, 1]])
    noise = half @ damp @ np.array([0, np.sqrt(2 * c * h)])
    covariance = solve_discrete_lyapunov(half @ damp @ kick @ damp @ half, np.outer(noise, noise))
    # Of second order: off by less than 4%, where the plain step of SGHMC is off by 1 + h c / 2.
    assert covariance[0, 0] == pytest.approx(1 / precision, rel=0.04)
    estimator = gradients.density(lambda x: -precision * (x**2).sum() / 2)
    kernel = sggmc.build(estimator, manifolds.euclidean(), h, friction=c)
    start = np.random.default_rng(seed).multivariate_normal([0, 0], covariance, n)
    state = kernel.init(getkey(), jnp.asarray(start[:, 0], jnp.float32))
    state = state._replace(velocity=jnp.asarray(start[:, 1], jnp.float32))
    state, _ = driver.run(getkey(), kernel, state, ANY, 20)
    z = np.stack([np.asarray(state.position, float), np.asarray(state.velocity, float)])
    white = np.linalg.solve(np.linalg.cholesky(covariance), z)
    result = {i: checks.variance_z(white[i], 0, 1, 3) for i in range(2)}
    assert not checks.family(result | {"covariance": checks.mean_z(white[0] * white[1], 0, 1)})
    result = {i: checks.variance_z(1.02 * white[i], 0, 1, 3) for i in range(2)}
    assert checks.family(result)


def test_the_flat_case_has_the_law_of_sghmc(getkey, seed):
    """The target and the checks of `test_sghmc`, at ten times its step size."""
    kernel = sggmc.build(flat.noisy(0.0), manifolds.euclidean(), 10 * flat.STEP, friction=1.5)
    start = np.log(np.random.default_rng(seed).gamma(flat.SHAPE, 1, flat.COORDINATES))
    state = kernel.init(getkey(), jnp.asarray(start, jnp.float32))
    state, _ = driver.run(getkey(), kernel, state, ANY, flat.STEPS // 10)
    assert not checks.family(
        flat.law_checks(SimpleNamespace(position=state.position, auxiliary=(state.velocity,)))
    )


STEP, STEPS, CHAINS, NOISE, DAMPING = 0.05, 100, 40_000, 40.0, 1.5


def noisy_fisher(scale, kappa=laws.KAPPA):
    """The gradient of a von Mises-Fisher density, with noise."""
    return estimators.Estimator(no_memory, base.bind(noisy_gradient, scale, kappa))


def no_memory(key):
    return ()


def noisy_gradient(scale, kappa, key, memory, position, batch):
    slope = kappa * jnp.asarray(laws.direction(3), jnp.float32)
    return slope + scale * jax.random.normal(key, position.shape), memory


def run_chains(getkey, seed, kernel):
    start = laws.fisher_draws(np.random.default_rng(seed), CHAINS)
    state = kernel.init(getkey(), jnp.asarray(start, jnp.float32))
    return driver.run(getkey(), kernel, state, ANY, STEPS, collect=lambda state, info: info)


@pytest.mark.parametrize(
    "how", slow_but(["exact", "estimated", "not estimated", "concentration"], "estimated")
)
def test_small_steps_leave_an_asymmetric_law(how, getkey, seed):
    """Noise in the gradient heats the chain, and an estimate of it takes that back."""
    scale = np.sqrt(NOISE) if "estimated" in how else 0.0
    kappa = (1.04 if how == "concentration" else 1) * laws.KAPPA
    kernel = sggmc.build(
        noisy_fisher(scale, kappa),
        manifolds.sphere(),
        STEP,
        friction=DAMPING,
        noise_estimate=NOISE if how == "estimated" else 0.0,
    )
    state, info = run_chains(getkey, seed, kernel)
    wrong = how in ("not estimated", "concentration")
    assert bool(checks.family(laws.fisher_checks(state.position))) == wrong
    heated = 1 + STEP * NOISE / 2 / DAMPING if how == "not estimated" else 1
    assert info.kinetic[-50:].mean() == pytest.approx(heated, abs=0.02)
    assert info.constraint_error.max() < 1e-6


def test_inner_steps_share_a_batch_and_look_at_new_positions(getkey):
    def estimate(key, memory, position, batch):
        count, seen = memory
        seen = seen.at[count].set(position)
        return batch * position, (count + 1, seen)

    estimator = estimators.Estimator(lambda key: (0, jnp.zeros((4, 3))), estimate)
    kernel = sggmc.build(estimator, manifolds.sphere(), 0.1, num_steps=4)
    state = kernel.init(getkey(), jnp.array([0.0, 0.6, 0.8]))
    state, info = jax.jit(kernel.update)(getkey(), state, 2.0)
    count, seen = state.memory
    assert int(count) == 4
    assert int(state.step) == 1
    assert (np.abs(np.diff(seen, axis=0)).max(axis=1) > 1e-3).all()
    assert info.gradient_noise is None


def log_likelihood(x, batch):
    return -jnp.sum((batch - x[:2]) ** 2) / 2 + jnp.sum(batch) * x[2]


@pytest.mark.slow
def test_the_empirical_fisher_is_the_variance_of_the_gradient(getkey, seed):
    data = np.random.default_rng(seed).standard_normal((50, 2)).astype(np.float32) * [1, 3]
    data = jnp.asarray(data, jnp.float32)
    estimator = gradients.posterior(lambda x: 0.0 * x.sum(), log_likelihood, 50)
    x, stream = jnp.array([0.6, 0.0, 0.8]), batches.uniform(data, 10)
    measured = gradient_noise.variance(estimator, getkey(), x, stream, 8_000)
    variance = gradient_noise.fisher(log_likelihood, 50)
    many = jax.jit(jax.vmap(lambda key: variance(x, stream(key, 0))))
    np.testing.assert_allclose(
        many(jax.random.split(getkey(), 2000)).mean(axis=0), measured, rtol=0.1
    )
    sphere = manifolds.sphere()
    batch = stream(getkey(), 0)
    each = jax.vmap(jax.grad(log_likelihood), in_axes=(None, 0))(x, batch[:, None])
    along = gradient_noise.fisher(log_likelihood, 50, project=sphere.project)(x, batch)
    expected = 250 * np.var(sphere.project(x, each), axis=0, ddof=1)
    np.testing.assert_allclose(along, expected, rtol=1e-5)
    kernel = sggmc.build(estimator, sphere, 0.01, friction=30.0, noise_estimate=variance)
    state = kernel.init(getkey(), x)
    batch = stream(getkey(), 0)
    moved, info = jax.jit(kernel.update)(getkey(), state, batch)
    expected = 0.01 * np.max(variance(x, batch)) / 60
    assert float(info.gradient_noise) == pytest.approx(float(expected), rel=0.05)
    assert np.isfinite(moved.position).all()
    with pytest.raises(ValueError, match="at least 2 data"):
        variance(x, data[:1])


def test_strong_friction_is_damped_to_full_precision(getkey):
    """Over many parts of the Taylor series, and of several leaves at once."""
    space = manifolds.product((manifolds.sphere(), manifolds.euclidean()))
    x = (manifolds.sphere().point(getkey(), jnp.zeros(4)), jnp.zeros(2))
    v = space.project(x, (jnp.arange(4.0), jnp.array([1.0, -2.0])))
    friction = (jnp.array([1.0, 30.0, 3.0, 0.1]), jnp.array([[20.0, 4.0], [4.0, 2.0]]))
    result = jax.jit(lambda t: geodesic.damp(space, x, v, friction, t))(jnp.float32(0.5))
    tangent = np.eye(4) - np.outer(x[0], x[0])
    np.testing.assert_allclose(
        result[0], expm(-0.5 * tangent @ np.diag(friction[0])) @ np.asarray(v[0]), atol=2e-6
    )
    np.testing.assert_allclose(result[1], expm(-0.5 * np.asarray(friction[1])) @ v[1], atol=2e-6)


def test_a_friction_may_be_symmetric_up_to_rounding(getkey):
    """As an inverse is: two orders of the same operations."""
    inverse = np.array([[0.5, 0.1], [np.nextafter(np.float32(0.1), 1), 0.5]], np.float32)
    kernel = sggmc.build(GIVEN, manifolds.euclidean(), 0.1, friction=inverse)
    assert kernel.init(getkey(), jnp.zeros(2)).step == 0


def test_too_much_noise_makes_nan_and_bad_arguments_are_named(getkey):
    space, x = manifolds.sphere(), jnp.array([[0.6, 0.0, 0.8]])
    asymmetric = [[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    for name, value in (
        ("friction", 0.0),
        ("friction", np.nan),
        ("friction", jnp.ones(2)),
        ("friction", {"a": 1.0}),
        ("friction", jnp.array(asymmetric)),
        ("friction", jnp.ones((3, 3))),
        ("noise_estimate", -1.0),
        ("noise_estimate", jnp.ones(2)),
        ("noise_estimate", -jnp.eye(3)),
        ("num_steps", 0),
    ):
        with pytest.raises(ValueError, match=name):
            sggmc.build(GIVEN, space, 0.1, **{name: value}).init(getkey(), x)
    for h in (0.0, np.nan, 0.5):
        with pytest.raises(ValueError, match="step_size"):
            sggmc.build(GIVEN, space, h, friction=1.0, noise_estimate=4.0)
    with pytest.raises(ValueError, match=r"^position .* by 1: "):
        sggmc.build(GIVEN, space, 0.1).init(getkey(), 2 * x)
    for noise in (jnp.full(3, 30.0), 30.0 * jnp.eye(3)):
        kernel = sggmc.build(GIVEN, space, 0.1, noise_estimate=noise)
        state = kernel.init(getkey(), x)
        assert np.isnan(jax.jit(kernel.update)(getkey(), state, x)[0].position).any()


def watched(kernel, getkey, chunks, damping=None):
    state = kernel.init(getkey(), manifolds.sphere().point(getkey(), jnp.zeros((200, 3))))
    watch = hooks.Equilibrium(damping)
    driver.run(getkey(), kernel, state, ANY, 10 * chunks, chunk=10, hooks=[watch])
    return watch


@pytest.mark.slow
def test_a_hook_warns_at_the_end_of_a_chain_off_its_equilibrium(getkey, recwarn):
    sphere = manifolds.sphere()
    watched(sggmc.build(noisy_fisher(0.0), sphere, STEP, friction=DAMPING), getkey, 12)
    estimated = {"friction": DAMPING, "noise_estimate": 20.0}
    watched(sggmc.build(noisy_fisher(np.sqrt(20)), sphere, STEP, **estimated), getkey, 12)
    # The kinetic energy of a strongly damped chain is x / sinh(x), 0.85 at x = 1.
    damped = sggmc.build(noisy_fisher(0.0), sphere, STEP, friction=1 / STEP)
    watched(damped, getkey, 20, damping=1.0)
    assert not recwarn
    with pytest.warns(hooks.EquilibriumWarning, match=r"is 0.8\d+ and should be 1. It is too cold"):
        watched(damped, getkey, 20)
    hot = sggmc.build(noisy_fisher(10.0), sphere, STEP, friction=DAMPING)
    with pytest.warns(hooks.EquilibriumWarning, match="more friction") as result:
        watch = watched(hot, getkey, 12)
    assert len(result) == 1
    assert "per dimension is 2" in str(result[0].message)
    again = hooks.Equilibrium()
    again.load(json.loads(json.dumps(watch.save())))
    with pytest.warns(hooks.EquilibriumWarning, match="per dimension is 2"):
        again.finish(SimpleNamespace(step=120))
    estimated["noise_estimate"] = 50.0
    with pytest.warns(hooks.EquilibriumWarning, match="gradient is 0.833 of") as result:
        watched(sggmc.build(noisy_fisher(np.sqrt(50)), sphere, STEP, **estimated), getkey, 4)
    assert len(result) == 1
    with pytest.raises(ValueError, match="damping"):
        hooks.Equilibrium(0.0)
