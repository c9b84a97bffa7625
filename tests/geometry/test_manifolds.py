"""Every manifold: projection, geodesics, uniform points, distance; and what is special of each.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed.
"""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from scipy.linalg import expm
from support import statistics_checks as checks
from support.geodesic_laws import square_root

from simplex_jax._src.geometry import manifolds

SPACES = {
    "sphere": (manifolds.sphere(), jnp.zeros((2, 5)), 8),
    "circle": (manifolds.sphere(), jnp.zeros(2), 1),
    "euclidean": (manifolds.euclidean(), jnp.zeros((2, 3)), 6),
    "simplex": (manifolds.simplex_flat(), jnp.zeros((2, 4)), 6),
    "interval": (manifolds.simplex_flat(), jnp.zeros(2), 1),
    "square root": (manifolds.simplex_sphere(), jnp.zeros((2, 4)), 6),
    "stiefel": (manifolds.stiefel(), jnp.zeros((2, 5, 3)), 18),
    "orthogonal": (manifolds.stiefel(), jnp.zeros((3, 3)), 3),
    "product": (
        manifolds.product({"a": manifolds.sphere(), "b": [manifolds.euclidean()]}),
        {"a": jnp.zeros((2, 3)), "b": [jnp.zeros(2)]},
        6,
    ),
}


def flat(tree):
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(tree)])


def draw(key, like):
    leaves, structure = jax.tree.flatten(like)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, drawn)


@functools.partial(jax.jit, static_argnums=0)
def look(name, key, t, s):
    """All that `test_geometry` needs to know, in one program."""
    space, like, _ = SPACES[name]
    keys = jax.random.split(key, 3)
    x = space.point(keys[0], like)
    v, w = space.project(x, draw(keys[1], like)), draw(keys[2], like)

    def flows(x, v, times):
        """Of stacked velocities and times, as one program for all is compiled faster."""
        moved = jax.vmap(space.flow, in_axes=(None, 0, 0))(x, v, jnp.stack(times))
        return [jax.tree.map(operator.itemgetter(i), moved) for i in range(3)]

    def stacked(*velocities):
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *velocities)

    end, together, near = flows(x, stacked(v, v, v), (t, t + s, jnp.float32(1e-2)))
    turned = jax.tree.map(jnp.negative, end[1])
    back, onward, backward = flows(end[0], stacked(turned, end[1], end[1]), (t, s, -t))
    far = jax.tree.map(lambda leaf: leaf * 1.001 + 1e-3, x)
    return {
        "x": x,
        "v": v,
        "w": w,
        "end": end,
        "back": back,
        "near": near,
        "onward": onward,
        "together": together,
        "backward": backward,
        "projected": (space.project(x, v), space.project(x, w)),
        "tangent": space.project(end[0], end[1]),
        "retracted": space.retract(far),
        "far": far,
        "errors": tuple(map(space.error, (x, end[0], far, space.retract(far)))),
        "distance": (space.distance(x, near[0]), space.distance(x, x)),
    }


# Small cases of others.
SLOW = ("circle", "interval", "orthogonal")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in SPACES],
)
def test_geometry(name, getkey):
    space, like, dimension = SPACES[name]
    result = look(name, getkey(), jnp.float32(0.7), jnp.float32(0.4))
    x, v, w = (flat(result[part]) for part in "xvw")
    assert space.dimension(like) == dimension
    # On the manifold, within it, and off it.
    assert max(map(float, result["errors"][:2])) < 1e-6
    assert name == "euclidean" or float(result["errors"][2]) > 1e-4
    # An orthogonal projection.
    again, other = map(flat, result["projected"])
    np.testing.assert_allclose(again, v, atol=1e-6)
    assert abs((w - other) @ v) < 1e-5
    # Speed and tangency along the geodesic, the way back, and flows one after the other.
    along = flat(result["end"][1])
    assert np.linalg.norm(along) == pytest.approx(np.linalg.norm(v), rel=1e-6)
    np.testing.assert_allclose(flat(result["tangent"]), along, atol=2e-6)
    np.testing.assert_allclose(flat(result["back"]), np.concatenate([x, -v]), atol=1e-5)
    np.testing.assert_allclose(flat(result["backward"]), np.concatenate([x, v]), atol=1e-5)
    np.testing.assert_allclose(flat(result["onward"]), flat(result["together"]), atol=1e-5)
    # It sets out along v, and is as long as the distance where nothing is in its way.
    near = flat(result["near"][0])
    assert np.linalg.norm((near - x) / 1e-2 - v) < 0.03 * np.linalg.norm(v) ** 2
    length = np.sqrt(np.sum(np.square(flat(result["distance"][0]))))
    assert length == pytest.approx(1e-2 * np.linalg.norm(v), rel=1e-3)
    assert np.max(np.abs(flat(result["distance"][1]))) < 1e-6
    # The nearest point, of those seen here.
    retracted, far = flat(result["retracted"]), flat(result["far"])
    assert float(result["errors"][3]) < 1e-6
    nearest = name not in ("simplex", "interval")
    assert not nearest or np.linalg.norm(retracted - far) <= np.linalg.norm(x - far) + 1e-7


SPHERE = manifolds.sphere()
sphere_flow = jax.jit(SPHERE.flow)
stiefel_flow = jax.jit(manifolds.stiefel().flow)


@pytest.mark.parametrize("n", [3, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_million_steps_on_a_sphere_stay_on_it_and_lead_back(n, getkey):
    """With a velocity redrawn every 1,000 steps (20 in the large one), and 10 steps back."""
    steps = 1000 if n == 3 else 20
    x = SPHERE.point(getkey(), jnp.zeros((4, n)))

    @jax.jit
    def run(x, key):
        def stretch(carry, k):
            x, worst = carry
            v = SPHERE.project(x, jax.random.normal(k, x.shape))

            def step(i, xv):
                return SPHERE.flow(*xv, 0.1)

            end = jax.lax.fori_loop(0, steps, step, (x, v))
            there = jax.lax.fori_loop(0, 10, step, (x, v))
            back = jax.lax.fori_loop(0, 10, step, (there[0], -there[1]))
            return (end[0], jnp.maximum(worst, jnp.abs(back[0] - x).max())), end

        return jax.lax.scan(stretch, (x, jnp.float32(0)), jax.random.split(key, 1000))

    (_, worst), (points, velocities) = run(x, getkey())
    points, velocities = np.asarray(points, float), np.asarray(velocities, float)
    assert np.abs(np.linalg.norm(points, axis=-1) - 1).max() <= 1e-6
    assert np.abs((points * velocities).sum(axis=-1)).max() <= 1e-6 * np.sqrt(n)
    assert float(worst) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simplex", "square root", "stiefel"])
def test_the_other_manifolds_do_not_drift_either(name, getkey):
    space, like, _ = SPACES[name]
    x = space.point(getkey(), like)
    v = space.project(x, draw(getkey(), like))
    speed = np.linalg.norm(flat(v))

    @jax.jit
    def run(x, v):
        return jax.lax.fori_loop(0, 100_000, lambda i, xv: space.flow(*xv, 0.1), (x, v))

    x, v = run(x, v)
    assert float(space.error(x)) <= 1e-6
    np.testing.assert_allclose(flat(space.project(x, v)), flat(v), atol=1e-5)
    assert np.linalg.norm(flat(v)) == pytest.approx(speed, rel=1e-2)


jacobian_of_circles = jax.jit(jax.jacobian(lambda v, x: SPHERE.flow(x, v, 0.5)[0]))


@pytest.mark.parametrize("speed", [0.0, 1e-30, 1e-12, 1e-4, 1.0, 30.0])
def test_great_circles_are_precise_at_every_speed(speed):
    x, v = np.array([0.6, 0.0, 0.8]), speed * np.array([0.8, 0.0, -0.6])
    end, along = sphere_flow(jnp.asarray(x, jnp.float32), jnp.asarray(v, jnp.float32), 0.5)
    exact = x * np.cos(speed / 2) + np.array([0.8, 0.0, -0.6]) * np.sin(speed / 2)
    np.testing.assert_allclose(end, exact, atol=2e-6)
    turned = v * np.cos(speed / 2) - x * speed * np.sin(speed / 2)
    np.testing.assert_allclose(along, turned, atol=2e-6 * speed)
    slope = jacobian_of_circles(jnp.asarray(v, jnp.float32), jnp.asarray(x, jnp.float32))
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("angle", [1e-6, 1e-3, 1.0, 3.1, np.pi])
def test_angles_are_precise(angle):
    x = jnp.array([1.0, 0.0, 0.0])
    y = jnp.array([np.cos(angle), 0.0, np.sin(angle)], jnp.float32)
    assert float(SPHERE.distance(x, y)) == pytest.approx(angle, rel=1e-6)


def billiard(x, v, t):
    """A reference in double precision, ball by ball and reflection by reflection."""
    x, v = x / x.sum(), v - v.mean()
    bounces = 0
    while True:
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.where(v < -1e-14, -x / v, np.inf)
        face = int(np.argmin(times))
        if times[face] >= t:
            return x + t * v, v, bounces
        x, t, bounces = x + times[face] * v, t - times[face], bounces + 1
        normal = np.full(len(x), -1 / len(x))
        normal[face] += 1
        normal /= np.linalg.norm(normal)
        x[face] = 0
        v = v - 2 * (v @ normal) * normal


@pytest.mark.parametrize(("k", "t"), [(2, 3.0), (10, 0.7), (60, 0.1)])
def test_billiards_on_the_simplex(k, t, seed):
    rng = np.random.default_rng(seed)
    x, v = rng.dirichlet(np.full(k, 0.5), 100), rng.standard_normal((100, k))
    space = manifolds.simplex_flat()
    x, v = jnp.asarray(x, jnp.float32), jnp.asarray(v, jnp.float32)
    x, v = space.retract(x), space.project(x, v)
    end, along = jax.jit(space.flow)(x, v, t)
    result = [
        billiard(*map(lambda a: np.asarray(a, float), pair), t) for pair in zip(x, v, strict=True)
    ]
    assert max(bounces for *_, bounces in result) > 5
    # Next to an edge the order of two reflections hangs on rounding; it changes nothing at right
    # angles, and for few trajectories otherwise.
    close = [np.abs(end[i] - exact).max() < 1e-4 for i, (exact, _, _) in enumerate(result)]
    assert np.mean(close) > 0.97
    close = [np.abs(along[i] - exact).max() < 1e-2 for i, (_, exact, _) in enumerate(result)]
    assert np.mean(close) > 0.97


def test_a_trajectory_of_too_many_reflections_turns_round(seed):
    """On which sides of the bound both ways lie, so that volume is kept."""
    rng = np.random.default_rng(seed)
    space = manifolds.simplex_flat(max_reflections=3)
    x = jnp.asarray(rng.dirichlet(np.ones(3), 500), jnp.float32)
    v = space.project(x, jnp.asarray(rng.standard_normal((500, 3)), jnp.float32))
    flow = jax.jit(space.flow)
    end, along = flow(x, v, 1.5)
    bounces = [
        billiard(*map(lambda a: np.asarray(a, float), pair), 1.5)[2]
        for pair in zip(x, v, strict=True)
    ]
    many = np.array(bounces) > 3
    assert 50 < many.sum() < 450
    np.testing.assert_array_equal(np.asarray(end)[many], np.asarray(x)[many])
    np.testing.assert_array_equal(np.asarray(along)[many], -np.asarray(v)[many])
    assert (np.abs(end - x).max(axis=1)[~many] > 1e-4).all()
    back, returned = flow(end, -along, 1.5)
    assert np.mean(np.abs(back - x).max(axis=1) < 1e-5) > 0.99
    assert np.mean(np.abs(returned + v).max(axis=1) < 1e-4) > 0.99


def test_the_square_root_flow_is_a_great_circle_of_squares(seed):
    rng = np.random.default_rng(seed)
    y = jnp.asarray(np.sqrt(rng.dirichlet(np.ones(4), 100)), jnp.float32)
    v = SPHERE.project(y, jnp.asarray(rng.standard_normal((100, 4)), jnp.float32))
    end, along = jax.jit(manifolds.simplex_sphere().flow)(y, v, 4.0)
    whole, velocity = sphere_flow(y, v, 4.0)
    assert (np.asarray(end) >= 0).all()
    np.testing.assert_allclose(end**2, whole**2, atol=1e-6)
    np.testing.assert_allclose(end * along, whole * velocity, atol=1e-5)
    assert (np.asarray(whole) < 0).any()


def test_stiefel_geodesics_are_those_of_known_spaces(seed):
    rng = np.random.default_rng(seed)
    space = manifolds.stiefel()
    x = rng.standard_normal((4, 1))
    x = jnp.asarray(x / np.linalg.norm(x), jnp.float32)
    v = space.project(x, jnp.asarray(rng.standard_normal((4, 1)), jnp.float32))
    circle, end = sphere_flow(x[:, 0], v[:, 0], 0.9), stiefel_flow(x, v, 0.9)
    np.testing.assert_allclose(end[0][:, 0], circle[0], atol=2e-6)
    np.testing.assert_allclose(end[1][:, 0], circle[1], atol=2e-6)
    # In the orthogonal group: x exp(t a).
    skew = rng.standard_normal((3, 3))
    skew = skew - skew.T
    x = jnp.eye(3)
    end, along = stiefel_flow(x, x @ jnp.asarray(skew, jnp.float32), 0.4)
    np.testing.assert_allclose(end, expm(0.4 * skew), atol=3e-6)
    np.testing.assert_allclose(along, expm(0.4 * skew) @ skew, atol=2e-5)
    # At speed 0 nothing moves, and nothing is divided by it.
    still = stiefel_flow(x, jnp.zeros_like(x), 1.0)
    np.testing.assert_allclose(still[0], x, atol=1e-6)
    assert not np.asarray(still[1]).any()


@pytest.mark.slow
def test_stiefel_distances(getkey):
    """Known on the orthogonal group: the norm of the logarithm of x^T y."""
    space = manifolds.stiefel()
    distance = jax.jit(space.distance)
    eye = jnp.eye(3)
    turn = np.zeros((3, 3))
    turn[0, 1], turn[1, 0] = 1.2, -1.2
    y = jnp.asarray(expm(turn), jnp.float32)
    assert float(distance(eye, y)) == pytest.approx(1.2 * np.sqrt(2), rel=1e-4)
    assert np.isnan(float(distance(eye, -eye)))
    x = space.point(getkey(), jnp.zeros((4, 5, 2)))
    v = space.project(x, jax.random.normal(getkey(), x.shape))
    v = v / jnp.linalg.norm(v, axis=(-2, -1), keepdims=True)
    np.testing.assert_allclose(distance(x, stiefel_flow(x, v, 1.3)[0]), 1.3, rtol=1e-4)


def uniform_checks(name, getkey, scale=1.0):
    n = 20_000
    if name == "sphere":  # (1 + x_1) / 2 is a beta variate, and so is that of a frame's column
        x = scale * np.asarray(SPHERE.point(getkey(), jnp.zeros((n, 4))), float)
        return {j: checks.dkwm((1 + x[:, j]) / 2, beta(1.5, 1.5)) for j in range(4)}
    if name == "stiefel":
        x = np.asarray(manifolds.stiefel().point(getkey(), jnp.zeros((n, 4, 2))), float) * scale
        result = {j: checks.dkwm((1 + x[:, j % 4, j // 4]) / 2, beta(1.5, 1.5)) for j in range(8)}
        return result | {"between": checks.mean_z(x[:, 0, 0] * x[:, 1, 1], 0, 3 / 70)}
    if name == "simplex":
        x = np.asarray(manifolds.simplex_flat().point(getkey(), jnp.zeros((n, 4))), float)
        return {j: checks.dkwm(scale * x[:, j], beta(1, 3)) for j in range(4)}
    y = np.asarray(manifolds.simplex_sphere().point(getkey(), jnp.zeros((n, 4))), float)
    return {j: checks.dkwm(scale * y[:, j] ** 2, beta(0.5, 1.5)) for j in range(4)}


def beta(a, b):
    return lambda x: special.betainc(a, b, np.clip(x, 0, 1))


@pytest.mark.parametrize("name", ["sphere", "stiefel", "simplex", "square root"])
def test_points_are_uniform(name, getkey):
    assert not checks.family(uniform_checks(name, getkey))
    assert checks.family(uniform_checks(name, getkey, scale=1.05))


def test_the_density_of_square_roots_has_its_jacobian():
    """The volume of the simplex in coordinates against the area of the sphere in the same."""
    log_density = square_root(lambda x: (2.0 * jnp.log(x)).sum())
    y = jnp.sqrt(jnp.array([0.2, 0.5, 0.3]))
    expected = 5 * jnp.log(y).sum()
    assert float(log_density(y)) == pytest.approx(float(expected), rel=1e-5)

    def to_simplex(u):  # from two coordinates of the sphere to two of the simplex
        return u**2

    # sqrt(det of the metric) of the chart u = (y_1, y_2) is 1 / y_3.
    volume = jnp.linalg.det(jax.jacobian(to_simplex)(y[:2])) * y[2]
    assert float(volume) == pytest.approx(4 * float(jnp.prod(y)), rel=1e-5)


def test_points_that_do_not_suit_are_named(getkey):
    for space, like, words in (
        (manifolds.sphere(), jnp.zeros(()), "sphere"),
        (manifolds.sphere(), jnp.zeros((3, 1)), "sphere"),
        (manifolds.simplex_flat(), jnp.zeros((3, 1)), "simplex"),
        (manifolds.stiefel(), jnp.zeros((2, 3)), "Stiefel"),
        (manifolds.stiefel(), jnp.zeros(3), "Stiefel"),
        (manifolds.product((manifolds.sphere(),) * 2), (jnp.zeros(2),), "product"),
    ):
        with pytest.raises(ValueError, match=words):
            space.dimension(like)
        with pytest.raises(ValueError, match=words):
            space.point(getkey(), like)
    for wrong in ({}, (manifolds.sphere(), 1.0)):
        with pytest.raises(ValueError, match="manifolds"):
            manifolds.product(wrong)
    for wrong in (0, 2.5):
        with pytest.raises(ValueError, match="max_reflections"):
            manifolds.simplex_flat(wrong)
