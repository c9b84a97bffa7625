"""The complete recipe: its correction against formulas, one step, and what it leaves invariant.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src import base, batches, estimators, gradients
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import dynamics, recipe, sgnht

# Batches are the gradient itself.
GIVEN = estimators.Estimator(lambda key: (), lambda key, memory, position, batch: (batch, memory))
ANY = batches.full(jnp.zeros(1))


def model(diffusion, curl=None, kinetic=None):
    zero = lambda z, v: jax.tree.map(jnp.zeros_like, v)  # noqa: E731
    energy = lambda z: jnp.zeros(())  # noqa: E731
    return dynamics.Dynamics(diffusion, curl or zero, kinetic or energy)


def metric_matrix(z, v):
    """Inverse Fisher metric of the reduced mean: diag(p) - p p^T."""
    return (z[0] * v[0] - z[0] * (z[0] @ v[0]),)


THETA = jnp.array([0.3, 1.7, 0.02, 4.0])
MOMENTUM = jnp.array([0.5, -1.0, 2.0, 0.1])
# name: D, Q, z, Gamma by formula, whether it is coordinatewise
FORMULAS = {
    "constant": (lambda z, v: (2 * v[0],), None, (THETA,), (jnp.zeros(4),), True),
    "SGRLD, expanded mean": (
        lambda z, v: (z[0] * v[0],),
        None,
        (THETA,),
        (jnp.ones(4),),
        True,
    ),
    # Patterson and Teh 2013, Table 1: 1 - K p_j for K categories, here K = 4.
    "SGRLD, reduced mean": (
        metric_matrix,
        None,
        (THETA[:3] / 7,),
        (1 - 4 * THETA[:3] / 7,),
        False,
    ),
    # div G^(-1/2) with G = diag(1 / theta); D depends on theta but acts on r.
    "SGRHMC": (
        lambda z, v: (0, z[0] * v[1]),
        lambda z, v: (-jnp.sqrt(z[0]) * v[1], jnp.sqrt(z[0]) * v[0]),
        (THETA, MOMENTUM),
        (jnp.zeros(4), 0.5 / jnp.sqrt(THETA)),
        True,
    ),
    "SGNHT": (
        lambda z, v: (0, 0.7 * v[1], 0),
        sgnht._curl,
        (THETA, MOMENTUM, jnp.float32(1.2)),
        (jnp.zeros(4), jnp.zeros(4), -1.0),
        True,
    ),
    # Q = x y^2 J: Gamma = (-d(x y^2)/dy, d(x y^2)/dx).
    "curl of the position": (
        lambda z, v: (v[0],),
        lambda z, v: (z[0][0] * z[0][1] ** 2 * jnp.array([-v[0][1], v[0][0]]),),
        (jnp.array([0.4, 1.5]),),
        (jnp.array([-2 * 0.4 * 1.5, 1.5**2]),),
        False,
    ),
}


@pytest.mark.parametrize("name", slow_but(FORMULAS, *list(FORMULAS)[:3]))
def test_correction_is_that_of_the_formula(name, getkey):
    diffusion, curl, z, expected, coordinatewise = FORMULAS[name]
    here = model(diffusion, curl)
    for fast in {False, coordinatewise}:
        dynamics.check(here, getkey(), z, fast)
        result = dynamics.correction(here, z, fast)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), result, expected
        )


@pytest.mark.parametrize(
    ("message", "options"),
    [
        (r"^curl .*skew", {"curl": lambda z, v: (v[1], v[0])}),
        (r"^curl .*skew", {"curl": lambda z, v: (-v[1], -v[0])}),
        ("symmetric", {"diffusion": lambda z, v: (v[1], 0 * v[0])}),
        ("positive semidefinite", {"diffusion": lambda z, v: (0, -v[1])}),
        ("positive semidefinite", {"diffusion": lambda z, v: (v[1], v[0])}),
        ("diagonal", {"diffusion": lambda z, v: (v[0].sum() + 0 * v[0], v[1]), "fast": True}),
        ("coordinate by", {"diffusion": lambda z, v: (z[0][::-1] * v[0], v[1]), "fast": True}),
        ("coordinate by", {"diffusion": lambda z, v: (1e-6 * z[0][::-1] * v[0], 0), "fast": True}),
        ("tuple of 2", {"curl": lambda z, v: v[0]}),
        ("component 1 of curl", {"curl": lambda z, v: (-v[1], jnp.ones(7))}),
        (r"^auxiliary ", {"auxiliary": lambda key, x: x}),
    ],
)
def test_dynamics_that_are_not_of_the_recipe_are_refused(message, options, getkey):
    kernel = recipe.build(
        GIVEN,
        0.1,
        diffusion=options.get("diffusion", lambda z, v: (0, v[1])),
        curl=options.get("curl", lambda z, v: (-v[1], v[0])),
        auxiliary=options.get("auxiliary", lambda key, x: (x,)),
        coordinatewise=options.get("fast", False),
    )
    with pytest.raises(ValueError, match=message):
        kernel.init(getkey(), jnp.array([1.0, 2.0, 4.0]))


def test_bad_arguments_are_named(getkey):
    with pytest.raises(ValueError, match="step_size"):
        recipe.build(GIVEN, 0.0, diffusion=lambda z, v: v)
    with pytest.raises(ValueError, match="noise_estimate"):
        recipe.build(GIVEN, 0.1, diffusion=lambda z, v: v, noise_estimate=-1.0)
    target = gradients.density(lambda x: jnp.log(x).sum())
    kernel = recipe.build(target, 0.1, diffusion=lambda z, v: v)
    with pytest.raises(ValueError, match="log density"):
        kernel.init(getkey(), jnp.array([-1.0]))
    kernel = recipe.build(
        gradients.density(lambda x: -(x**2).sum()),
        0.1,
        diffusion=lambda z, v: v,
        kinetic=lambda z: z[0] ** 2,
    )
    with pytest.raises(ValueError, match=r"^kinetic .*2"):
        kernel.update(getkey(), kernel.init(getkey(), jnp.zeros(2)), None)


# One step, dense: D = S(x) with off-diagonal terms, momentum-like auxiliary variable, V known.
H, V = 0.1, np.array([0.5, 2.0])
X0, R0, SLOPE = np.array([0.6, -0.4]), np.array([1.5, -0.5]), np.array([2.0, 1.0])
C = np.array([[1.0, 0.6], [0.6, 2.0]])
ROWS = 20_000


def step_checks(x, r):
    mean_r = R0 + H * SLOPE - H * C @ R0
    cov_r = 2 * H * C - H**2 * np.diag(V)
    mean_x, cov_x = X0 + H * mean_r, H**2 * cov_r
    p_values = {}
    for name, value, mean, cov in (("r", r, mean_r, cov_r), ("x", x, mean_x, cov_x)):
        for i in range(2):
            p_values[name, i] = checks.mean_z(value[:, i], mean[i], cov[i, i])
            p_values[name, "var", i] = checks.variance_z(
                value[:, i], mean[i], cov[i, i], 3 * cov[i, i] ** 2
            )
        product = (value[:, 0] - mean[0]) * (value[:, 1] - mean[1])
        spread = cov[0, 0] * cov[1, 1] + cov[0, 1] ** 2
        p_values[name, "cov"] = checks.mean_z(product, cov[0, 1], spread)
    return p_values


@pytest.mark.parametrize(
    "mutant", slow_but([None, "noise", "noise_estimate", "h for 2 h", "sign"], None, "sign")
)
def test_one_step_has_the_moments_of_the_formula(mutant, getkey):
    matrix = jnp.asarray(C if mutant != "h for 2 h" else C / 2, jnp.float32)
    sign = -1 if mutant == "sign" else 1
    scale = 1.1 if mutant == "noise" else 1.0
    kernel = recipe.build(
        GIVEN,
        H,
        diffusion=lambda z, v: (0, scale**2 * matrix @ v[1]),
        curl=lambda z, v: (-sign * v[1], sign * v[0]),
        kinetic=lambda z: (z[1] ** 2).sum() / 2 / scale**2,
        auxiliary=lambda key, x: (jnp.asarray(R0, jnp.float32),),
        noise_estimate=None if mutant == "noise_estimate" else V,
    )
    many = base.chains(kernel, ROWS)
    state = many.init(getkey(), jnp.asarray(X0, jnp.float32))
    state, info = jax.jit(many.update)(getkey(), state, jnp.asarray(SLOPE, jnp.float32))
    result = step_checks(np.asarray(state.position, float), np.asarray(state.auxiliary[0], float))
    assert bool(checks.family(result)) == (mutant is not None)
    assert np.allclose(info.gradient_norm, np.linalg.norm(SLOPE))


def test_noise_of_small_coordinates_is_not_lost_beside_large_ones(getkey):
    """Variances of 4,000 draws, within 5 of their standard errors; 10 false alarms in a million."""
    diffusion = jnp.array([1e6, 1.0, 1e-6, 0.0, *[1.0] * 6])
    here = model(lambda z, v: (diffusion * v[0],))
    z, h = (jnp.zeros(10),), jnp.float32(0.5)
    keys = jax.random.split(getkey(), 4000)
    drawn = jax.vmap(lambda key: dynamics.noise(here, key, z, h, None, False)[0])(keys)
    np.testing.assert_allclose(drawn.var(axis=0), diffusion, rtol=5 * np.sqrt(2 / 4000))


@pytest.mark.slow
def test_both_ways_of_the_noise_agree(getkey):
    """The law of the fast noise is that of the dense one where D and B are diagonal."""
    here = model(FORMULAS["SGRHMC"][0], FORMULAS["SGRHMC"][1])
    z = (THETA[:2], MOMENTUM[:2])
    variance = jnp.array([0.3, 2.0])
    h = jnp.float32(0.1)
    expected = 2 * 0.1 * THETA[:2] - 0.01 * THETA[:2] * variance

    def draw(key, fast):
        return dynamics.noise(here, key, z, h, variance, fast)

    p_values = {}
    for fast in (False, True):
        keys = jax.random.split(getkey(), ROWS)
        x, r = jax.jit(jax.vmap(lambda key, fast=fast: draw(key, fast)))(keys)
        assert np.all(np.asarray(x) == 0)
        for i in range(2):
            square = float(expected[i])
            p_values[fast, i] = checks.variance_z(np.asarray(r[:, i]), 0, square, 3 * square**2)
    assert not checks.family(p_values)
    too_much = dynamics.noise(here, getkey(), z, h, jnp.full(2, 100.0), True)
    assert np.isnan(too_much[1]).all()
    assert np.isnan(dynamics.noise(here, getkey(), z, h, jnp.full(2, 100.0), False)[1]).any()


# Small steps on independent log-gamma laws, whose skewness is negative: D and Q depend on both.
SHAPE = {"a": 0.7, "b": 3.0}
STEP, STEPS, CHAINS = 0.01, 150, 20_000


def log_density(x):
    return sum(SHAPE[name] * x[name] - jnp.exp(x[name]) for name in SHAPE)


def diffusion(z, v):
    x = z[0]
    scale = {"a": 0.3 + jax.nn.sigmoid(x["a"] + x["b"]), "b": 0.3 + 2 * jax.nn.sigmoid(-x["b"])}
    return (jax.tree.map(jnp.multiply, scale, v[0]),)


def curl(z, v):
    x = z[0]
    g = 3 * jnp.sin(x["a"]) * jnp.cos(x["b"])
    return ({"a": -g * v[0]["b"], "b": g * v[0]["a"]},)


def law_checks(position):
    p_values = {}
    for name, shape in SHAPE.items():
        x = np.asarray(position[name], float)
        mean, variance = special.digamma(shape), special.polygamma(1, shape)
        fourth = special.polygamma(3, shape) + 3 * variance**2
        p_values[name, "mean"] = checks.mean_z(x, mean, variance)
        p_values[name, "variance"] = checks.variance_z(x, mean, variance, fourth)
        p_values[name, "law"] = checks.dkwm(np.exp(x), lambda t, a=shape: special.gammainc(a, t))
    a, b = (
        (np.asarray(position[n], float) - special.digamma(s)) / special.polygamma(1, s) ** 0.5
        for n, s in SHAPE.items()
    )
    p_values["product"] = checks.mean_z(a * b, 0, 1)
    return p_values


def mutate(name, monkeypatch):
    if name == "no correction":
        change = lambda here, z, fast: jax.tree.map(jnp.zeros_like, z)  # noqa: E731
        monkeypatch.setattr(recipe, "correction", change)
    elif name == "sign of Q":
        right = dynamics.correction
        flipped = lambda z, v: jax.tree.map(jnp.negative, curl(z, v))  # noqa: E731
        change = lambda here, z, fast: right(model(diffusion, flipped), z, fast)  # noqa: E731
        monkeypatch.setattr(recipe, "correction", change)
    elif name == "noise x 1.1":
        right_noise = dynamics.noise
        change = lambda *given: jax.tree.map(lambda x: 1.1 * x, right_noise(*given))  # noqa: E731
        monkeypatch.setattr(recipe, "noise", change)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [None, "no correction", "sign of Q", "noise x 1.1"])
def test_small_steps_leave_an_asymmetric_law(mutant, getkey, seed, monkeypatch):
    """Its bias at this step is below 0.5%, within the standard errors of 20,000 chains."""
    mutate(mutant, monkeypatch)
    jax.clear_caches()
    rng = np.random.default_rng(seed)
    start = {n: jnp.asarray(np.log(rng.gamma(s, 1, CHAINS)), jnp.float32) for n, s in SHAPE.items()}
    one = recipe.build(
        gradients.density(log_density), STEP, diffusion=diffusion, curl=curl, coordinatewise=True
    )
    many = base.chains(one, CHAINS, position_axis=0)
    state = many.init(getkey(), start)
    state, _ = driver.run(getkey(), many, state, ANY, STEPS, collect=lambda *_: ())
    jax.clear_caches()
    assert bool(checks.family(law_checks(state.position))) == (mutant is not None)
