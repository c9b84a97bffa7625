"""Mirror maps: formulas against automatic differentiation in double precision, and extremes.

Every check is a function of a map, and is also given maps with a planted error.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.convex_laws import dual_log_density

from simplex_jax._src.geometry import mirror


def barrier(x):
    """Of the triangle x_1 > 0, x_2 > 0, x_1 + x_2 < 1, with a coupling of the two."""
    return -jnp.log(x).sum() - jnp.log(1 - x.sum()) + (x[0] + 2 * x[1]) ** 2


def own_simplex(x):
    last = 1 - x.sum()
    return (x * jnp.log(x)).sum() + last * jnp.log(last)


def own_cube(x):
    u = (x - CUBE_MIDDLE) / CUBE_WIDTH
    return (CUBE_WIDTH**2 * ((1 + u) * jnp.log(1 + u) + (1 - u) * jnp.log(1 - u)) / 2).sum()


def own_ball(x):
    u = jnp.linalg.norm(x) / 2.5
    return 2.5**2 * (-jnp.log(1 - u) - u)


CUBE_MIDDLE, CUBE_WIDTH = np.array([0.0, 1.5, -2.0]), np.array([1.0, 0.5, 3.0])
MAPS = {
    "simplex": lambda: mirror.simplex(1),
    "hypercube": lambda: mirror.hypercube(CUBE_MIDDLE - CUBE_WIDTH, CUBE_MIDDLE + CUBE_WIDTH),
    "ball": lambda: mirror.ball(2.5),
    "own": lambda: mirror.from_convex(barrier),
}
POINTS = {
    "simplex": np.array([[0.2, 0.3, 0.5], [0.9, 0.09, 0.01], [0.001, 0.997, 0.002]]),
    "hypercube": np.array([[0.0, 1.3, -4.9], [0.999, 1.01, 0.5], [-0.3, 1.5, -2.0]]),
    "ball": np.array([[0.1, -0.2, 0.3], [1.0, 2.0, -1.0], [0.0, 0.0, 2.49]]),
    "own": np.array([[0.2, 0.3], [0.9, 0.09], [0.001, 0.002]]),
}
GRADIENT = np.array([1.3, -0.4, 2.0])


# A map's functions are arguments of one jitted call: compiling is what these tests spend time on.
call = jax.jit(lambda function, *points: function(*points))
CHECKED = ("primal", "inverse_hessian", "log_det", "correction", "hessian", "noise", "square")


def functions_of(maps):
    return {name: functools.partial(call, getattr(maps, name)) for name in CHECKED}


def errors(name, maps, functions):
    """Largest errors of a map's functions against differences of its primal, relative to size."""
    x = jnp.asarray(POINTS[name])
    y = call(maps.dual, x)
    v = jnp.broadcast_to(jnp.asarray(GRADIENT[: x.shape[-1]]), x.shape)
    near = jnp.full_like(x, 1 / 3)
    d, step = y.shape[-1], 1e-4 * np.maximum(1, np.abs(y))

    def derivative(function):
        """Central differences, the coordinate of y in the last axis."""
        steps = np.eye(d)[:, None, :] * step
        ups, downs = ([function(y + sign * s) for s in steps] for sign in (1, -1))
        return np.stack(
            [
                (a - b) / 2 / step[:, i].reshape(-1, *[1] * (a.ndim - 1))
                for i, (a, b) in enumerate(zip(ups, downs, strict=True))
            ],
            axis=-1,
        )

    jacobian = derivative(lambda y: call(maps.primal, y, near))
    square = np.delete(jacobian, 1, axis=1) if name == "simplex" else jacobian
    u = np.broadcast_to(GRADIENT[:d], y.shape)
    # Of the noise, which is linear in xi, the covariance.
    noise = np.stack(
        [functions["noise"](x, y, jnp.broadcast_to(e, x.shape)) for e in np.eye(x.shape[-1])], -1
    )
    exact = {
        "hessian": np.linalg.solve(square, u[..., None])[..., 0],
        "noise": square,
        "square": np.einsum("ri,rij,rj->r", u, square, u),
        "primal": x,
        "inverse_hessian": (jacobian * np.asarray(v)[:, :, None]).sum(axis=1),
        "log_det": -np.linalg.slogdet(square)[1],
        "correction": -derivative(lambda y: call(maps.log_det, call(maps.primal, y, near), y)),
    }
    result = {
        "hessian": functions["hessian"](x, y, u),
        "noise": noise @ np.swapaxes(noise, -1, -2),
        "square": functions["square"](x, y, u),
        "primal": functions["primal"](y, near),
        "inverse_hessian": functions["inverse_hessian"](x, y, v),
        "log_det": functions["log_det"](x, y),
        "correction": functions["correction"](x, y),
    }
    assert all(np.isfinite(value).all() for value in result.values())
    return {
        key: (np.abs(result[key] - exact[key]) / np.maximum(np.abs(exact[key]), 1e-2)).max()
        for key in CHECKED
    }


@pytest.mark.parametrize("name", MAPS)
def test_formulas_equal_differences(name):
    with jax.enable_x64(True):
        maps = MAPS[name]()
        assert max(errors(name, maps, functions_of(maps)).values()) < 1e-4


MUTANTS = {
    "inverse_hessian": [
        lambda f: lambda x, y, v: 1.001 * f(x, y, v),
        lambda f: lambda x, y, v: -f(x, y, v),
        lambda f: lambda x, y, v: v[..., : y.shape[-1]],
    ],
    "correction": [
        lambda f: lambda x, y: 0 * f(x, y),
        lambda f: lambda x, y: -f(x, y),
        lambda f: lambda x, y: f(x, y) / 2,
    ],
    "log_det": [lambda f: lambda x, y: -f(x, y)],
    "hessian": [lambda f: lambda x, y, u: u, lambda f: lambda x, y, u: 1.001 * f(x, y, u)],
    "noise": [lambda f: lambda x, y, xi: 1.001 * f(x, y, xi)],
    "square": [lambda f: lambda x, y, w: (w**2).sum(axis=-1)],
    "primal": [lambda f: lambda y, near: f(1.001 * y, near)],
}


@pytest.mark.parametrize("name", MAPS)
def test_the_check_of_formulas_sees_mutants(name):
    with jax.enable_x64(True):
        maps = MAPS[name]()
        functions = functions_of(maps)
        for function, mutants in MUTANTS.items():
            for mutant in mutants:
                wrong = {**functions, function: mutant(functions[function])}
                assert errors(name, maps, wrong)[function] > 5e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "h"), [("simplex", own_simplex), ("hypercube", own_cube), ("ball", own_ball)]
)
def test_the_formulas_are_those_of_the_functions_of_the_paper(name, h):
    """(3.4), and B.1 and B.2 scaled to a width and a radius, by the map of a user's own h."""
    with jax.enable_x64(True):
        known, own = MAPS[name](), mirror.from_convex(h)
        x = jnp.asarray(POINTS[name])
        free = jnp.delete(x, 1, axis=-1) if name == "simplex" else x
        y, v = call(known.dual, x), jnp.asarray(GRADIENT)
        v_free = jnp.delete(v - v[1], 1) if name == "simplex" else v
        v = jnp.broadcast_to(v, x.shape)
        v_free = jnp.broadcast_to(v_free, free.shape)
        near = jnp.broadcast_to(free[0], free.shape)
        pairs = {
            "dual": (y, call(own.dual, free)),
            "primal": (free, call(own.primal, y, near)),
            "inverse_hessian": (
                call(known.inverse_hessian, x, y, v),
                call(own.inverse_hessian, free, y, v_free),
            ),
            "log_det": (call(known.log_det, x, y), call(own.log_det, free, y)),
            "correction": (call(known.correction, x, y), call(own.correction, free, y)),
        }
        for function, (a, b) in pairs.items():
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9, err_msg=function)


def test_the_dual_densities_of_the_paper():
    """W of (3.7) for a Dirichlet, B.1 and B.2, up to a constant; B.1's middle line is wrong."""
    with jax.enable_x64(True):
        a, y = jnp.array([2.0, 3.0, 0.4]), jnp.array([[0.3, -1.0], [2.0, 4.0]])

        def dirichlet(x):
            return ((a - 1) * jnp.log(x)).sum()

        def result(maps, log_density, y):
            rows = jax.vmap(lambda y: dual_log_density(maps, log_density, y, y))
            return jax.jit(rows)(y)

        w = (a[:2] * y).sum(axis=-1) - a.sum() * jnp.log1p(jnp.exp(y).sum(axis=-1))
        np.testing.assert_allclose(
            jnp.ptp(result(mirror.simplex(), dirichlet, y) - w), 0, atol=1e-9
        )

        tilt = lambda x: x.sum()  # noqa: E731
        last = jnp.tanh(y).sum(axis=-1) - jnp.log((1 + jnp.cosh(2 * y)) / 2).sum(axis=-1)
        cube = result(mirror.hypercube(), tilt, y)
        np.testing.assert_allclose(jnp.ptp(cube - last), 0, atol=1e-9)
        ratio = 4 / (jnp.exp(2 * y) + 2 + jnp.exp(-2 * y))
        printed = jnp.tanh(y).sum(axis=-1) - jnp.log(ratio).sum(axis=-1)
        assert jnp.ptp(cube - printed) > 1

        norm = jnp.linalg.norm(y, axis=-1)
        w = (y / (1 + norm[:, None])).sum(axis=-1) - 3 * jnp.log1p(norm)
        np.testing.assert_allclose(jnp.ptp(result(mirror.ball(), tilt, y) - w), 0, atol=1e-9)


@pytest.mark.parametrize("name", ["simplex", "hypercube", "ball"])
def test_extreme_duals_stay_finite_and_inside_in_float32(name):
    maps = MAPS[name]()

    @jax.jit
    def look(y):
        x = maps.primal(y, y)
        density = lambda y: dual_log_density(maps, jnp.sum, y, y)  # noqa: E731
        values = (maps.inverse_hessian(x, y, jnp.ones_like(x)), maps.correction(x, y))
        return maps.inside(x), (*values, maps.log_det(x, y), jax.grad(density)(y))

    for size in (0.0, 1e-12, 30.0, 1e4):
        inside, values = look(size * jnp.array([1.0, -0.7, 0.2])[: 2 if name == "simplex" else 3])
        assert bool(inside)
        assert all(np.isfinite(value).all() for value in values)


def test_the_slope_of_a_dual_is_finite_next_to_a_bound():
    """Of the branch that is not taken, too, where (x - m) / w rounds to 1."""
    dual = mirror.hypercube(0.0, 1.0).dual
    for x in (1e-9, 0.3, 0.9):
        slope = jax.grad(lambda x: dual(x[None]).sum())(jnp.float32(x))
        np.testing.assert_allclose(slope, 0.25 / (x * (1 - x)), rtol=1e-4)


def test_a_point_next_to_a_bound_of_a_box_is_in_its_dual_in_float32():
    """Where (x - m) / w rounds to 1, and where x is far smaller than the box is wide."""
    share = np.array([1e-28, 1e-9, 1e-3, 0.2, 0.5, 0.9])
    for lower, upper, x in ((0, 2, 2 * share), (-2, 0, -2 * share), (1, 3, [1.0000001, 2.9999998])):
        x = np.asarray(x, np.float32)
        box = mirror.hypercube(float(lower), float(upper))
        exact = 0.5 * np.log((x.astype(float) - lower) / (upper - x.astype(float)))
        point, y = mirror.start(box, x)
        np.testing.assert_allclose(y, exact, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(point, x, rtol=3e-6)
        outside = np.asarray([[lower], [upper]], np.float32)
        assert not np.asarray(box.inside(outside)).any()
        assert np.asarray(box.inside(box.primal(np.float32([[-1e3], [1e3]]), outside))).all()


def test_the_drift_of_a_sparse_dirichlet_is_right_where_probabilities_underflow():
    """It is a_j - a. x_j (3.7), whatever x_j is: in float32 that of category 2 is 0 beyond 100."""
    a, maps = jnp.array([0.1, 50.0, 1e-3, 200.0]), mirror.simplex()

    @jax.jit
    def drift(y):
        x = maps.primal(y, y)
        gradient = jax.grad(lambda x: ((a - 1) * jnp.log(x)).sum())(x)
        return maps.inverse_hessian(x, y, gradient) + maps.correction(x, y)

    for size in (1.0, 100.0, 1e4):
        y = size * jnp.array([0.2, 1.0, -1.0])
        exact = a - a.sum() * jax.nn.softmax(jnp.append(y, 0.0))
        np.testing.assert_allclose(drift(y), exact[:3], rtol=1e-5, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, True])
def test_newton_finds_far_points_from_far_away(x64, seed):
    """Gradients of up to 1e5 from the middle, and back; a step before it takes about 30 tries."""
    with jax.enable_x64(x64):
        maps = mirror.from_convex(barrier)
        rng = np.random.default_rng(seed)
        y = jnp.asarray(rng.standard_normal((200, 2)) * 10 ** rng.uniform(-2, 5, (200, 1)))
        near = jnp.full_like(y, 1 / 3)
        x = call(maps.primal, y, near)
        assert bool(call(maps.inside, x).all())
        # In the metric of the Hessian, where Newton's error is measured.
        residual = call(maps.dual, x) - y
        slack = (call(maps.inverse_hessian, x, y, residual) * residual).sum(axis=-1)
        assert float(jnp.abs(slack).max()) < (1e-12 if x64 else 1e-3)
        again = call(maps.primal, y, x[::-1])
        np.testing.assert_allclose(again, x, rtol=1e-2, atol=1e-5)


def test_the_inverse_gradient_can_be_differentiated_twice():
    with jax.enable_x64(True):
        entropy = mirror.from_convex(lambda x: (x * jnp.log(x) - x).sum())
        y, near = jnp.array([0.5, -1.0]), jnp.ones(2)
        first = jax.jit(jax.jacobian(entropy.primal))(y, near)
        np.testing.assert_allclose(first, np.diag(np.exp(y)), rtol=1e-6)
        second = jax.jit(jax.hessian(lambda y: entropy.primal(y, near).sum()))(y)
        np.testing.assert_allclose(second, np.diag(np.exp(y)), rtol=1e-6)


def test_thousands_of_rows_are_like_one(getkey):
    """As they are not by `jax.hessian`, compiled for CPUs by jax 0.10: wrong from row 3,640 on."""
    x = jax.random.ball(getkey(), 3, shape=(5_000,)) * 0.95
    maps = mirror.from_convex(lambda x: -jnp.log1p(-(x**2).sum()))
    result = maps.log_det(x, maps.dual(x))
    square = (np.asarray(x, np.float64) ** 2).sum(axis=1)
    twice, once = 2 / (1 - square), 2 * (1 + square) / (1 - square) ** 2  # the eigenvalues
    np.testing.assert_allclose(result, np.log(twice**2 * once), rtol=1e-4)


@pytest.mark.parametrize("name", ["simplex", "hypercube", "ball"])
def test_a_gradient_is_no_longer_in_the_dual(name):
    """As h is 1-strongly convex: Lemma 2.4 of Hsieh et al. (2018), of every noise of a gradient."""
    maps, x = MAPS[name](), jnp.asarray(POINTS[name])
    noise = jnp.asarray(np.random.default_rng(0).normal(size=(50, 1, x.shape[-1])))

    def longest(x):
        y = maps.dual(x)
        result = call(maps.inverse_hessian, x, y, noise)
        given = noise
        if name == "simplex":  # of the others, with x_1 one less their sum
            given = jnp.delete(noise - noise[..., 1:2], 1, axis=-1)
        return float((jnp.linalg.norm(result, axis=-1) / jnp.linalg.norm(given, axis=-1)).max())

    assert longest(x) <= 1 + 1e-5
    assert longest(0.9 * x + 0.1 * x.mean(axis=0)) <= 1


def test_what_is_not_found_is_nan():
    bounded = mirror.from_convex(lambda x: jnp.sqrt(1 + x**2).sum())
    result = call(bounded.primal, jnp.array([[0.6], [2.0]]), jnp.zeros((2, 1)))
    np.testing.assert_allclose(result[0], 0.75, rtol=1e-3)
    assert np.isnan(result[1]).all()
    concave = mirror.from_convex(lambda x: -(x**2).sum())
    assert np.isnan(call(concave.primal, jnp.ones((2, 1)), jnp.zeros((2, 1)))).all()


def test_inside():
    equal = np.testing.assert_array_equal
    equal(mirror.simplex().inside(jnp.array([[0.5, 0.5], [1.0, 0.0], [jnp.nan, 1]])), [1, 0, 0])
    equal(mirror.hypercube().inside(jnp.array([[0.5, -0.9], [1.0, 0.0]])), [1, 0])
    equal(mirror.ball(2.0).inside(jnp.array([[1.0, 1.5], [2.0, 0.0]])), [1, 0])
    equal(call(mirror.from_convex(barrier).inside, jnp.array([[0.3, 0.3], [0.5, 0.6]])), [1, 0])
    for h in (lambda x: -(x**2).sum(), lambda x: x.sum(), lambda x: x[0] * x[1]):
        assert not bool(call(mirror.from_convex(h).inside, jnp.ones(2)))


@pytest.mark.parametrize("kind", [mirror.simplex(), mirror.hypercube(), mirror.ball(0.5)])
def test_a_traced_start_outside_is_not_a_number(kind):
    """That of a ball became a point on the other side."""
    x = jnp.array([[0.2, 0.1, 0.7], [0.0, 1.0, 0.0]]) * jnp.array([[0.5], [1.0]])
    x = x if kind.inside(x)[0] else x / x.sum(axis=1, keepdims=True)
    points, duals = jax.jit(lambda x: mirror.start(kind, x))(x)
    assert kind.inside(x).tolist() == [True, False]
    for result in (points, duals):
        assert np.isfinite(result[0]).all()
        assert np.isnan(result[1]).all()


def test_a_reference_may_be_an_array_of_one_number():
    dual, x = jax.jit(lambda entropic, x: entropic.dual(x)), jnp.array([0.2, 0.3, 0.5])
    expected = dual(mirror.simplex(1), x)
    for reference in (np.array(1), jnp.array(1)):
        np.testing.assert_array_equal(dual(mirror.simplex(reference), x), expected)


@pytest.mark.slow
def test_bad_input_is_named():
    with pytest.raises(ValueError, match="reference 3"):
        mirror.simplex(3).dual(jnp.ones(3) / 3)
    with pytest.raises(ValueError, match=r"^reference .*1\.5$"):
        mirror.simplex(1.5)
    with pytest.raises(ValueError, match="at least 2 categories"):
        mirror.simplex().dual(jnp.ones(1))
    with pytest.raises(ValueError, match=r"^lower .*1\.0$"):
        mirror.hypercube(1.0, -1.0)
    with pytest.raises(ValueError, match=r"^upper .*inf$"):
        mirror.hypercube(0.0, np.inf)
    with pytest.raises(ValueError, match="radius"):
        mirror.ball(0.0)
    with pytest.raises(ValueError, match=r"^h .*\(2,\)"):
        mirror.from_convex(lambda x: x).dual(jnp.ones(2))
