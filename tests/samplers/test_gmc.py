"""GMC leaves laws on manifolds invariant, in float32, and tells what it did.

A correct kernel is rejected by `invariance.rejects` with a probability of at most 1e-5 at a fresh
seed.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from support import geodesic_laws as laws
from support import invariance
from support import statistics_checks as checks

from simplex_jax._src.geometry import manifolds
from simplex_jax._src.samplers import gmc

ROWS = 10_000
SAMPLES = 60_000
UPDATES = 8
# Where the angles of the torus are centred.
CENTRE = np.array([0.5, -2.0])
ANGLES = stats.vonmises([1.5, 4.0])


def fisher(x, *, kappa=laws.KAPPA):
    return kappa * x @ jnp.asarray(laws.direction(3), jnp.float32)


def dirichlet(x):
    return ((laws.ALPHA - 1) * jnp.log(x)).sum()


def frames(x):
    return laws.KAPPA * x[:, 0] @ jnp.asarray(laws.direction(4), jnp.float32)


def angles(x):
    return 1.5 * jnp.cos(x[0] - 0.5) + 4.0 * jnp.cos(x[1] + 2.0)


def wrap(x):
    return (x + jnp.pi) % (2 * jnp.pi) - jnp.pi


def torus():
    """A manifold of one's own: angles between -pi and pi."""
    return manifolds.Manifold(
        project=lambda x, v: v,
        flow=lambda x, v, t: (wrap(x + t * v), v),
        point=lambda key, like: jax.random.uniform(key, like.shape, like.dtype, -jnp.pi, jnp.pi),
        distance=lambda x, y: jnp.linalg.norm(wrap(x - y), axis=-1),
        retract=wrap,
        error=lambda x: jnp.maximum(jnp.max(jnp.abs(x)) - jnp.pi, 0),
        dimension=lambda x: x.size,
    )


def angle_checks(x):
    turned = np.asarray(x, float) - CENTRE
    cdf = ANGLES.cdf((turned + np.pi) % (2 * np.pi) - np.pi)
    return {j: checks.dkwm(cdf[:, j], lambda u: np.clip(u, 0, 1)) for j in range(2)}


def draw_angles(rng, rows):
    return CENTRE + ANGLES.rvs((rows, 2), random_state=rng)


def draw_dirichlet(rng, rows):
    return rng.dirichlet(laws.ALPHA, rows)


def draw_roots(rng, rows):
    return np.sqrt(draw_dirichlet(rng, rows))


# Log density, manifold, step size, draws, checks; about half of the proposals are accepted.
TARGETS = {
    "von Mises-Fisher": (
        fisher,
        manifolds.sphere(),
        0.6,
        laws.fisher_draws,
        laws.fisher_checks,
    ),
    "Dirichlet": (
        dirichlet,
        manifolds.simplex_flat(),
        0.15,
        draw_dirichlet,
        laws.dirichlet_checks,
    ),
    "Dirichlet, roots": (
        laws.square_root(dirichlet),
        manifolds.simplex_sphere(),
        0.3,
        draw_roots,
        lambda y: laws.dirichlet_checks(np.asarray(y, float) ** 2),
    ),
    "frames": (frames, manifolds.stiefel(), 0.5, laws.frame_draws, laws.frame_checks),
    "torus": (angles, torus(), 0.6, draw_angles, angle_checks),
}


@jax.jit
def push(kernel, key, points):
    """Move every point by itself, and return the mean acceptance as well."""

    def one(key, x):
        state = gmc.State(x, jnp.zeros((), jnp.int32))
        step = lambda state, k: kernel.update(k, state, None)  # noqa: E731
        state, info = jax.lax.scan(step, state, jax.random.split(key, UPDATES))
        return state.position, info.acceptance.mean(), info.constraint_error.max()

    moved, acceptance, error = jax.vmap(one)(jax.random.split(key, len(points)), points)
    return moved, acceptance.mean(), error.max()


def sampler(name, seed, accepted=(0.3, 0.97), **changes):
    """`(number of samples) -> p-values`: exact draws in float32, moved by some updates."""
    log_density, manifold, h, draws, check = TARGETS[name]
    density = changes.pop("log_density", log_density)
    kernel = gmc.build(density, manifold._replace(**changes), h, num_steps=2)
    rng = np.random.default_rng(seed)

    def sample(n):
        result = []
        for _ in range(-(-n // ROWS)):
            points = manifold.retract(jnp.asarray(draws(rng, ROWS), jnp.float32))
            points, acceptance, error = push(kernel, jax.random.key(rng.integers(2**31)), points)
            assert accepted[0] < float(acceptance) < accepted[1]
            assert changes or float(error) < 2e-6
            result.append(np.asarray(points))
        return check(np.concatenate(result))

    return sample


# The others differ in their manifolds, which have tests of their own.


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_exact_draws_stay_exact(name, seed):
    samples = ROWS if name == "frames" else SAMPLES
    assert not invariance.rejects(sampler(name, seed), samples=samples)


def shoot_and_retract(x, v, t):
    """No geodesic: a straight line put back on the sphere, which slows down."""
    moved = manifolds.sphere().retract(x + t * v)
    return moved, manifolds.sphere().project(moved, v)


def clipped(x, v, t):
    """No reflection: what leaves the simplex ends at its faces."""
    return manifolds.simplex_flat().retract(jnp.maximum(x + t * v, 1e-6)), v


MUTANTS = {
    "concentration": (
        "von Mises-Fisher",
        {"log_density": functools.partial(fisher, kappa=1.02 * laws.KAPPA)},
    ),
    "no geodesic": ("von Mises-Fisher", {"flow": shoot_and_retract}),
    "no projection": ("von Mises-Fisher", {"project": lambda x, v: v}),
    "no Jacobian": ("Dirichlet, roots", {"log_density": lambda y: dirichlet(y**2)}),
    "no reflection": ("Dirichlet", {"flow": clipped}),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_of_invariance_sees_mutants(mutant, seed):
    name, changes = MUTANTS[mutant]
    assert invariance.rejects(sampler(name, seed, (0, 1), **dict(changes)), samples=SAMPLES)


def test_an_update_tells_what_it_did(getkey):
    x = jnp.array([1.0, 0.0, 0.0])
    density = lambda x, batch: batch * x[2]  # noqa: E731
    kernel = gmc.build(density, manifolds.sphere(), 0.1, needs_batch=True)
    state = kernel.init(getkey(), x)
    state, info = jax.jit(kernel.update)(getkey(), state, 3.0)
    assert float(info.log_density) == pytest.approx(3 * float(state.position[2]), abs=1e-6)
    assert 0.9 < float(info.acceptance) <= 1
    assert abs(float(info.energy_error)) < 0.1
    assert float(info.constraint_error) < 1e-6
    assert float(info.kinetic) > 0
    assert int(state.step) == 1


def test_a_proposal_without_density_is_rejected_and_a_wrong_step_size_is_seen(getkey):
    def half(x):
        return jnp.where(x[2] > 0, 0.0, -jnp.inf)

    kernel = gmc.build(half, manifolds.sphere(), 0.5)
    state = kernel.init(getkey(), jnp.array([0.6, 0.0, 0.8]))
    update = jax.jit(kernel.update)
    accepted = []
    for _ in range(30):
        state, info = update(getkey(), state, None)
        accepted.append(round(float(info.acceptance), 4))
        assert float(state.position[2]) > 0
    assert set(accepted) == {0.0, 1.0}

    @jax.jit
    def traced(h):
        kernel = gmc.build(lambda x: x[2], manifolds.sphere(), h)
        return kernel.update(jax.random.key(0), state, None)[0].position

    for h in (jnp.nan, -0.1, jnp.inf):
        assert np.isnan(traced(h)).all()


def test_bad_arguments_are_named(getkey):
    space = manifolds.sphere()
    for wrong in (0, 1.5):
        with pytest.raises(ValueError, match="num_steps"):
            gmc.build(lambda x: x[0], space, 0.1, num_steps=wrong)
    kernel = gmc.build(lambda x: jnp.log(x[0]), space, 0.1)
    for position, message in (
        ([0.6, 0.6, 0.8], r"^position .*0\.166"),
        ([jnp.nan, 1.0, 0.0], "position"),
        ([0.0, 0.6, 0.8], "log density"),
        (jnp.zeros((3, 1)), "sphere"),
    ):
        with pytest.raises(ValueError, match=message):
            kernel.init(getkey(), position)
    with pytest.raises(ValueError, match="scalar"):
        gmc.build(lambda x: x, space, 0.1).init(getkey(), jnp.array([1.0, 0.0]))
