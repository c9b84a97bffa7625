"""The formulas of the four coordinate systems against automatic differentiation."""

import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import parameterisations
from support.marks import slow_but

SPACES = {
    "reduced mean": parameterisations.REDUCED_MEAN,
    "reduced natural": parameterisations.REDUCED_NATURAL,
    "expanded mean": parameterisations.EXPANDED_MEAN,
    "expanded natural": parameterisations.EXPANDED_NATURAL,
}
ALPHA = np.array([0.5, 0.1, 2.0, 0.3])
COUNTS = np.array([4.0, 0.0, -1.5, 7.0])  # generalised counts may be negative
WEIGHTS = np.array([0.9, 0.05, 0.4, 0.2])
K = 4


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def start(space):
    log_w = jnp.log(WEIGHTS)
    return log_w if space.expanded else jax.nn.log_softmax(log_w)


def coordinates(space, log_w):
    """Coordinates [..., K - 1 or K] of log weights, those of probabilities for reduced systems."""
    if space.expanded:
        return jnp.exp(log_w) if space.mean else log_w
    return jnp.exp(log_w)[..., :-1] if space.mean else log_w[..., :-1] - log_w[..., -1:]


def in_coordinates(space, tangent):
    """The change of the coordinates that a tangent vector stands for."""
    if space.expanded:
        return tangent
    return tangent[..., :-1] if space.mean else tangent[..., :-1] - tangent[..., -1:]


def weights(space, theta):
    """Weights of coordinates, written anew."""
    if space.mean:
        return theta if space.expanded else jnp.append(theta, 1 - theta.sum())
    return jnp.exp(theta) if space.expanded else jax.nn.softmax(jnp.append(theta, 0.0))


def log_density(space, theta):
    """That of Dirichlet or gamma priors, with the determinant of the change of coordinates."""
    w = weights(space, theta)
    log_p = ((ALPHA - 1) * jnp.log(w)).sum() + (COUNTS * jnp.log(w / w.sum())).sum()
    if space.expanded:
        log_p -= w.sum()
    size = theta.size
    jacobian = jax.jacfwd(lambda t: weights(space, t)[:size])(theta)
    return log_p + jnp.linalg.slogdet(jacobian)[1]


def fisher(space, theta):
    """Expected information of one draw, or of Poisson counts with the weights as rates."""
    w = weights(space, theta)
    slopes = jax.jacfwd(lambda t: jnp.log(weights(space, t)))(theta)
    return jnp.einsum("x,xi,xj->ij", w, slopes, slopes)


def divergence(space, theta):
    inverse = lambda t: jnp.linalg.inv(fisher(space, t))  # noqa: E731
    return jnp.einsum("jkk->j", jax.jacfwd(inverse)(theta))


def printed_curvature(space, theta):
    """The two curvature terms of equation (4), whatever the metric."""
    inverse = jnp.linalg.inv(fisher(space, theta))
    slope = jax.jacfwd(lambda t: fisher(space, t))(theta)  # [a, b, k]
    first = jnp.einsum("ja,abk,bk->j", inverse, slope, inverse)
    second = jnp.einsum("jk,abk,ab->j", inverse, slope, inverse)
    return -2 * first + second


def agrees(space):
    """Whether each formula of a space is what automatic differentiation gives."""
    return {
        name: np.allclose(a, b, rtol=1e-9, atol=1e-9) for name, (a, b) in compared(space).items()
    }


@functools.partial(jax.jit, static_argnums=0)
def compared(space):
    log_w = start(space)
    theta = coordinates(space, log_w)
    gradient = jax.grad(functools.partial(log_density, space))(theta)
    metric = fisher(space, theta)
    inverse = jnp.linalg.inv(metric)
    basis = jnp.eye(K)
    tangent = jnp.array([0.3, -1.0, 0.2, 0.5])  # sums to 0, as tangents of REDUCED_MEAN must
    result = {
        "gradient": (in_coordinates(space, space.gradient(log_w, ALPHA, COUNTS)), gradient),
        "natural gradient": (
            in_coordinates(space, space.natural_gradient(log_w, ALPHA, COUNTS)),
            inverse @ gradient,
        ),
        "correction": (
            in_coordinates(space, space.correction(log_w)),
            divergence(space, theta),
        ),
        # As the metrics are Hessians of a function, equation (4) is the sum of derivatives.
        "print": (printed_curvature(space, theta), divergence(space, theta)),
    }
    for name, g, form in (
        ("fisher", metric, space.fisher),
        ("euclidean", jnp.eye(theta.size), space.euclidean),
    ):
        columns = in_coordinates(space, jax.vmap(form.noise, (None, 0))(log_w, basis))
        v = in_coordinates(space, tangent)
        result[f"{name} noise"] = (columns.T @ columns, jnp.linalg.inv(g))
        result[f"{name} square"] = (form.square(log_w, tangent), v @ g @ v)
        result[f"{name} log_det"] = (form.log_det(log_w), jnp.linalg.slogdet(g)[1])
    return result


@pytest.mark.parametrize("name", slow_but(SPACES, *list(SPACES)[::2]))
def test_formulas_agree_with_autodiff(name):
    checks = agrees(SPACES[name])
    assert all(checks.values()), checks


def test_a_wrong_formula_is_seen():
    space = parameterisations.REDUCED_NATURAL
    # Table 1 as printed: derivatives with respect to omega.
    squares = space._replace(correction=lambda log_w: -jnp.exp(-2 * log_w))
    assert [name for name, good in agrees(squares).items() if not good] == ["correction"]
    space = parameterisations.REDUCED_MEAN
    wrong = space._replace(
        gradient=lambda *given: -space.gradient(*given),
        natural_gradient=lambda log_w, alpha, n: space.natural_gradient(log_w, alpha - 0.01, n),
        correction=lambda log_w: 0 * log_w,
        fisher=space.fisher._replace(
            noise=lambda log_w, xi: 1.1 * space.fisher.noise(log_w, xi),
            log_det=lambda log_w: -space.fisher.log_det(log_w),
        ),
    )
    missed = {name for name, good in agrees(wrong).items() if good}
    assert missed == {
        "print",
        "fisher square",
        "euclidean noise",
        "euclidean square",
        "euclidean log_det",
    }


@pytest.mark.parametrize("name", SPACES)
def test_coordinates_are_undone(name):
    space = SPACES[name]
    log_w = start(space)
    theta = coordinates(space, log_w)
    assert theta.shape == (K if space.expanded else K - 1,)
    np.testing.assert_allclose(weights(space, theta), jnp.exp(log_w), rtol=1e-12)


@pytest.mark.parametrize("name", SPACES)
def test_records_can_be_pickled(name):
    """As kernels of numpyro are, options included."""
    assert pickle.loads(pickle.dumps(SPACES[name])) == SPACES[name]  # noqa: S301


@pytest.mark.parametrize("name", SPACES)
def test_weights_that_underflow_give_finite_numbers(name):
    """In float32, with weights of e^-1000: metrics stay consistent, and nothing overflows."""
    space = SPACES[name]
    with jax.enable_x64(False):
        log_w = jnp.array([-1000.0, -2.0, -200.0, -45.0, -0.1])
        log_w = log_w if space.expanded else jax.nn.log_softmax(log_w)
        alpha, counts = jnp.full(5, 0.1), jnp.array([0.0, 30.0, 0.0, 0.0, 70.0])
        fields = (
            space.gradient(log_w, alpha, counts),
            space.natural_gradient(log_w, alpha, counts),
            space.correction(log_w),
        )
        assert all(np.isfinite(field).all() for field in fields)
        xi = jnp.array([0.5, -1.0, 2.0, -0.3, 0.7])
        root = np.exp(np.asarray(log_w) / 2)
        # The squared length of the noise is chi-square with as many degrees of freedom as
        # coordinates: |xi|^2, less what falls on the direction that does not exist.
        length = (xi**2).sum() - (0 if space.expanded else (root * xi).sum() ** 2)
        noise = space.fisher.noise(log_w, xi)
        np.testing.assert_allclose(space.fisher.square(log_w, noise), length, rtol=1e-4)
        assert np.isfinite(space.fisher.log_det(log_w))
