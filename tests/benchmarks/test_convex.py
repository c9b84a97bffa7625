"""Projections against what defines them, and against bisection.

The projection p of x on K is the one point of K with (x - p).(z - p) <= 0 for all z in K.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from baselines import convex

LOWER, UPPER = np.array([-1.0, 0.0, -np.inf, 2.0]), np.array([0.5, np.inf, 1.0, 2.5])
SETS = {
    "simplex": convex.simplex(3.0),
    "box": convex.box(LOWER, UPPER),
    "ball": convex.ball(1.5),
}


def inside(name, rng, n):
    """Points of the set: extreme ones, and others."""
    if name == "simplex":
        return 3 * np.concatenate([np.eye(4), rng.dirichlet(np.full(4, 0.3), n)])
    if name == "box":
        low, high = np.maximum(LOWER, -50), np.minimum(UPPER, 50)
        return np.concatenate([[low, high], low + (high - low) * rng.random((n, 4))])
    x = rng.standard_normal((n, 4))
    return 1.5 * x / np.linalg.norm(x, axis=1, keepdims=True) * rng.random((n, 1)) ** 0.1


def largest_violation(name, project, rng):
    """How far p is out of the set, or beyond a right angle, in units of the scale of x."""
    worst = 0.0
    others = inside(name, rng, 300)
    for scale in (0.1, 1.0, 30.0):
        x = (scale * rng.standard_normal((50, 4))).astype(np.float32)
        p = np.asarray(project(jnp.asarray(x)), np.float64)
        out = {
            "simplex": max(-p.min(), np.abs(p.sum(axis=1) - 3).max()),
            "box": np.maximum(LOWER - p, p - UPPER).max(),
            "ball": np.linalg.norm(p, axis=1).max() - 1.5,
        }[name]
        angle = ((x - p)[:, None, :] * (others[None] - p[:, None, :])).sum(axis=-1).max()
        worst = max(worst, out / max(scale, 1), angle / max(scale, 1) ** 2)
        assert np.isfinite(p).all()
    return worst


@pytest.mark.parametrize("name", SETS)
def test_a_projection_is_the_nearest_point(name, seed):
    assert largest_violation(name, SETS[name], np.random.default_rng(seed)) < 1e-4


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("simplex", lambda x: 3 * jnp.abs(x) / jnp.abs(x).sum(-1, keepdims=True)),
        ("simplex", lambda x: convex.simplex(3.03)(x)),
        ("simplex", lambda x: x + (3 - x.sum(-1, keepdims=True)) / 4),
        ("box", lambda x: jnp.clip(x, LOWER, UPPER + 0.02)),
        ("box", lambda x: jnp.where(x == jnp.clip(x, LOWER, UPPER), x, 0.25)),
        ("ball", lambda x: convex.ball(1.47)(x)),
        ("ball", lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True)),
    ],
)
def test_the_check_of_projections_sees_mutants(name, mutant, seed):
    assert largest_violation(name, mutant, np.random.default_rng(seed)) > 1e-3


@pytest.mark.parametrize("k", [1, 2, 3, 1000])
@pytest.mark.parametrize("offset", [0.0, -1e4, 1e6])
def test_the_simplex_in_float32_equals_bisection_in_float64(k, offset, seed):
    """Ties, coordinates far from the set and a large common offset; rounding of the input aside."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((20, k)) * rng.choice([0.01, 1.0, 100.0], (20, 1)) + offset
    x[0] = offset
    x = x.astype(np.float32).astype(np.float64)
    low, high = x.max(axis=1) - 1, x.max(axis=1)
    for _ in range(200):
        middle = (low + high) / 2
        above = np.maximum(x - middle[:, None], 0).sum(axis=1) > 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    exact = np.maximum(x - low[:, None], 0)
    result = np.asarray(convex.simplex()(jnp.asarray(x, jnp.float32)))
    np.testing.assert_allclose(result, exact, atol=2e-6)


@pytest.mark.parametrize("name", SETS)
def test_trees_rows_and_points_already_inside(name, seed):
    rng, project = np.random.default_rng(seed), SETS[name]
    tree = {"a": jnp.asarray(rng.standard_normal((2, 3, 4)), jnp.float32), "b": jnp.ones(4)}
    result = project(tree)
    assert result["a"].shape == (2, 3, 4)
    assert result["a"].dtype == jnp.float32
    np.testing.assert_allclose(result["a"][1, 2], project(tree["a"][1, 2]), rtol=1e-6)
    np.testing.assert_allclose(project(result)["a"], result["a"], atol=1e-6)
    assert bool(convex.contains(project, result))
    assert not bool(convex.contains(project, tree))
    np.testing.assert_allclose(convex.distance(project, result), 0, atol=1e-6)
    apart = [np.sum((np.asarray(tree[k]) - np.asarray(result[k])) ** 2) for k in tree]
    assert float(convex.distance(project, tree)) == pytest.approx(np.sqrt(sum(apart)), rel=1e-5)
    points = jnp.asarray(inside(name, rng, 20), jnp.float32)
    np.testing.assert_allclose(project(points), points, atol=1e-5)


def test_bounds_of_rows():
    x = jnp.array([[3.0, 4.0], [3.0, 4.0]])
    np.testing.assert_allclose(convex.ball(jnp.array([1.0, 10.0]))(x), [[0.6, 0.8], [3, 4]])
    np.testing.assert_allclose(convex.simplex(jnp.array([1.0, 7.0]))(x), [[0, 1], [3, 4]])
    far = convex.ball()(jnp.array([3e30, -4e30]))
    np.testing.assert_allclose(far, [0.6, -0.8], rtol=1e-6)
    np.testing.assert_array_equal(convex.ball()(jnp.zeros(3)), 0)


@pytest.mark.parametrize("name", SETS)
def test_nan_stays_nan(name):
    result = SETS[name](jnp.array([0.1, jnp.nan, 0.2, 2.2]))
    assert np.isnan(result[1])
    assert name == "box" or np.isnan(result).all()
    assert not bool(convex.contains(SETS[name], jnp.full(4, jnp.nan)))


def test_bad_input_is_named():
    for wrong in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="total"):
            convex.simplex(wrong)
        with pytest.raises(ValueError, match="radius"):
            convex.ball(wrong)
    with pytest.raises(ValueError, match=r"lower .* 1.0 at index \(1,\)"):
        convex.box(jnp.array([0.0, 1.0]), 1.0)
    with pytest.raises(ValueError, match="do not broadcast"):
        convex.box(jnp.zeros(2), jnp.ones(3))
    for project in (convex.simplex(), convex.ball()):
        with pytest.raises(ValueError, match="last axis"):
            project(jnp.array(1.0))
