"""Projected Langevin against exact laws: of one step, and its biased stationary law.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed; tolerances on biases are stated with the test.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import convex, plmc
from scipy import special, stats
from support import euler_laws
from support import statistics_checks as checks

from simplex_jax._src import batches, gradients
from simplex_jax._src.runtime import driver

ROWS = 100_000
SHIFT = 0.5825971579390106  # -zeta(1/2) / sqrt(2 pi)

# "normal": exp(0.3 x - x^2 / 2) on [-0.5, 1.5]; "exponential": exp(-2 x) on [0, inf).
LOW, HIGH, TILT, RATE = -0.5, 1.5, 0.3, 2.0


def log_density(position):
    normal = TILT * position["normal"] - position["normal"] ** 2 / 2
    return normal.sum() - RATE * position["exponential"].sum()


def project(position):
    return {
        "normal": convex.box(LOW, HIGH)(position["normal"]),
        "exponential": convex.box(0.0, jnp.inf)(position["exponential"]),
    }


@functools.cache
def normal_law(h):
    mean = lambda x: x + h * (TILT - x)  # noqa: E731
    return euler_laws.law(mean, h, [LOW, HIGH], (LOW, HIGH))


def run(kernel, position, steps, getkey):
    state = kernel.init(getkey(), position)
    stream = batches.full(jnp.zeros(1))
    state, _ = driver.run(getkey(), kernel, state, stream, steps, collect=lambda *_: ())
    return jax.tree.map(lambda x: np.asarray(x, np.float64), state.position)


# --- One step ------------------------------------------------------------------------------------

START = np.array([-0.5, -0.4, 0.2, 1.45])
STEP = 0.04


def one_step_checks(x):
    """Moments and boundary frequencies of a clipped normal law, and independence."""
    mean, sd = START + STEP * (TILT - START), np.sqrt(2 * STEP)
    first, second = euler_laws.clipped_normal(mean, sd, LOW, HIGH)
    variance = second - first**2
    result = {}
    for j in range(4):
        squares = (x[:, j] - first[j]) ** 2
        result["mean", j] = checks.mean_z(x[:, j], first[j], variance[j])
        result["variance", j] = checks.mean_z(squares, variance[j], squares.var())
        for name, end, share in (
            ("low", LOW, stats.norm.cdf(LOW, mean[j], sd)),
            ("high", HIGH, stats.norm.sf(HIGH, mean[j], sd)),
        ):
            if share * len(x) > 100:
                result[name, j] = checks.mean_z(x[:, j] == end, share, share * (1 - share))
        for k in range(j):
            product = (x[:, j] - first[j]) * (x[:, k] - first[k])
            result["covariance", j, k] = checks.mean_z(product, 0, variance[j] * variance[k])
    return result


def test_one_step_is_a_projected_normal(getkey):
    log_normal = lambda x: (TILT * x - x**2 / 2).sum()  # noqa: E731
    kernel = plmc.build(gradients.density(log_normal), convex.box(LOW, HIGH), STEP)
    state = kernel.init(getkey(), jnp.broadcast_to(START, (ROWS, 4)))
    state, info = kernel.update(getkey(), state, None)
    assert not checks.family(one_step_checks(np.asarray(state.position, np.float64)))
    assert float(info.distance) > 0


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("correct", lambda g, xi: STEP * g + np.sqrt(2 * STEP) * xi),
        ("h for 2 h", lambda g, xi: STEP * g + np.sqrt(STEP) * xi),
        ("half drift", lambda g, xi: STEP * g / 2 + np.sqrt(2 * STEP) * xi),
        ("sign", lambda g, xi: -STEP * g + np.sqrt(2 * STEP) * xi),
        ("noise 3 % up", lambda g, xi: STEP * g + 1.03 * np.sqrt(2 * STEP) * xi),
        ("gradient of the normal only", lambda g, xi: STEP * (g - TILT) + np.sqrt(2 * STEP) * xi),
    ],
)
def test_the_check_of_one_step_sees_mutants(name, step, seed):
    xi = np.random.default_rng(seed).standard_normal((ROWS, 4))
    x = np.clip(START + step(TILT - START, xi), LOW, HIGH)
    assert bool(checks.family(one_step_checks(x))) == (name != "correct")


def test_the_check_of_one_step_sees_a_reflection(seed):
    xi = np.random.default_rng(seed).standard_normal((ROWS, 4))
    x = START + STEP * (TILT - START) + np.sqrt(2 * STEP) * xi
    x = LOW + np.abs(x - LOW)
    assert checks.family(one_step_checks(HIGH - np.abs(HIGH - x)))


# --- The stationary law --------------------------------------------------------------------------


def lindley(rate, h):
    """Mean, variance and P(X = 0) of max(0, X + N(-h rate, 2 h)), by Spitzer's identity.

    X is the maximum of a Gaussian random walk S; its cumulants are sum_n E[(S_n^+)^k] / n.
    """
    n = np.arange(1, int(200 / (h * rate**2)))
    mean, sd = -n * h * rate, np.sqrt(2 * h * n)
    z = mean / sd
    first = mean * special.ndtr(z) + sd * stats.norm.pdf(z)
    second = (mean**2 + sd**2) * special.ndtr(z) + mean * sd * stats.norm.pdf(z)
    return (first / n).sum(), (second / n).sum(), np.exp(-(special.ndtr(z) / n).sum())


def stationary_checks(normal, exponential, h):
    mean, variance, at_zero = lindley(RATE, h)
    result = dict(checks.prefixed("normal", normal_law(h).check(normal)))
    result["exponential", "mean"] = checks.mean_z(exponential, mean, variance)
    result["exponential", "variance"] = checks.variance_z(exponential, mean, variance)
    result["exponential", "zeros"] = checks.mean_z(
        exponential == 0, at_zero, at_zero * (1 - at_zero)
    )
    return result


@pytest.mark.slow
def test_the_stationary_law_is_the_biased_one_computed(getkey):
    """Time 10 is 30 relaxation times of the one and 10 of the other: what is left is below 1e-4."""
    h = 0.04
    kernel = plmc.build(gradients.density(log_density), project, h)
    start = {"normal": jnp.zeros(ROWS), "exponential": jnp.zeros(ROWS)}
    x = run(kernel, start, 300, getkey)
    assert not checks.family(stationary_checks(x["normal"], x["exponential"], h))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "drift", "noise"),
    [("correct", 1, 1), ("noise x 1.1", 1, 1.1), ("half drift", 0.5, 1), ("drift x 1.05", 1.05, 1)],
)
def test_the_check_of_the_stationary_law_sees_mutants(name, drift, noise, seed):
    h, rng = 0.04, np.random.default_rng(seed)
    x, y = np.zeros(ROWS), np.zeros(ROWS)
    for _ in range(300):
        xi = np.sqrt(2 * h) * noise * rng.standard_normal((2, ROWS), np.float32)
        x = np.clip(x + h * drift * (TILT - x) + xi[0], LOW, HIGH)
        y = np.maximum(y - h * drift * RATE + xi[1], 0)
    assert bool(checks.family(stationary_checks(x, y, h))) == (name != "correct")


def test_the_bias_is_of_order_one_half_with_the_stated_constant():
    """By quadrature: the law, the exact target and the formula of the docstring, to 1.5%.

    The remainder is of relative order sqrt(h).
    """
    x = np.linspace(LOW, HIGH, 100_001)
    density = np.exp(TILT * x - x**2 / 2)
    density /= np.trapezoid(density, x)
    for power in (1, 2, 3):
        exact = np.trapezoid(x**power * density, x)
        surface = density[0] * (LOW**power - exact) + density[-1] * (HIGH**power - exact)
        ratios = [
            (normal_law(h).expect(lambda x, k=power: x**k) - exact)
            / (SHIFT * np.sqrt(2 * h) * surface)
            for h in (4e-4, 1e-4)
        ]
        # Richardson's step removes the next order.
        assert 2 * ratios[1] - ratios[0] == pytest.approx(1, abs=0.015)
    share = [
        [normal_law(h).probabilities[-2 + end] / np.sqrt(h) / density[-end] for h in (4e-4, 1e-4)]
        for end in (0, 1)
    ]
    np.testing.assert_allclose([2 * b - a for a, b in share], 1, atol=0.015)
    for h in (1e-3, 1e-4):
        mean, _, at_zero = lindley(RATE, h)
        assert mean == pytest.approx(1 / RATE - SHIFT * np.sqrt(2 * h) + RATE * h / 4, abs=h**1.5)
        assert at_zero == pytest.approx(RATE * np.sqrt(h), rel=2 * np.sqrt(h) * RATE)


C_DISC, C_SIMPLEX = np.array([1.0, 0.5]), np.array([1.5, 0.0, -1.0])


def surfaces():
    """E[|x|^2] of exp(c.x) on the disc and on the triangle, and the surface term of the bias."""
    t, w = np.polynomial.legendre.leggauss(40)
    t, w = (t + 1) / 2, w / 2
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    tilt = np.linalg.norm(C_DISC)
    weight = np.exp(tilt * t[:, None] * np.cos(angle)) * t[:, None] * w[:, None]
    mass = weight.mean() * weight.shape[0] * 2 * np.pi
    disc = (weight * t[:, None] ** 2).sum() / weight.sum()
    edge = 2 * np.pi * np.exp(tilt * np.cos(angle)).mean() / mass
    result = {"disc": (disc, edge * (1 - disc))}

    # x = (s u, s (1 - u), 1 - s) has the area element sqrt(3) s ds du.
    s, u = t[:, None], t[None, :]
    x = np.stack(np.broadcast_arrays(s * u, s * (1 - u), 1 - s))
    weight = np.exp(np.tensordot(C_SIMPLEX, x, 1)) * np.sqrt(3) * s * w[:, None] * w[None, :]
    mass, square = weight.sum(), (x**2).sum(axis=0)
    exact = (weight * square).sum() / mass
    term = 0.0
    for missing in range(3):
        ends = np.delete(np.eye(3), missing, axis=0)
        points = t[:, None] * ends[0] + (1 - t[:, None]) * ends[1]
        values = np.exp(points @ C_SIMPLEX) * ((points**2).sum(axis=1) - exact)
        term += np.sqrt(2) * (w * values).sum() / mass
    result["simplex"] = (exact, term)
    return result


@pytest.mark.slow
def test_the_bias_in_two_dimensions_is_the_surface_integral(getkey):
    """E[|x|^2] on a disc and on the simplex, to 8% of its bias: 4 standard errors and O(h)."""
    rows, h = 10_000, 0.004

    def log_density(position):
        return (position["disc"] @ C_DISC).sum() + (position["simplex"] @ C_SIMPLEX).sum()

    def project(position):
        return {
            "disc": convex.ball()(position["disc"]),
            "simplex": convex.simplex()(position["simplex"]),
        }

    start = {"disc": jnp.zeros((rows, 2)), "simplex": jnp.full((rows, 3), 1 / 3)}
    kernel = plmc.build(gradients.density(log_density), project, h)
    x = run(kernel, start, 600, getkey)
    np.testing.assert_allclose(x["simplex"].sum(axis=1), 1, atol=1e-6)
    for name, (exact, term) in surfaces().items():
        squares = (x[name] ** 2).sum(axis=1)
        predicted = SHIFT * np.sqrt(2 * h) * term
        error = squares.std() / np.sqrt(rows)
        assert abs(squares.mean() - exact - predicted) < 4 * error + 0.08 * predicted, name
        assert predicted > 10 * error


def test_bad_input_is_named(getkey):
    estimator = gradients.density(lambda x: jnp.log(x).sum())
    for h in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="step_size"):
            plmc.build(estimator, convex.simplex(), h)
    kernel = plmc.build(estimator, convex.simplex(), 0.1)
    with pytest.raises(ValueError, match=r"^position "):
        kernel.init(getkey(), jnp.array([0.3, 0.3]))
    with pytest.raises(ValueError, match=r"log density .*(inf|nan)$"):
        kernel.init(getkey(), jnp.array([0.0, 1.0]))
    wrong = plmc.build(gradients.density(jnp.sum), lambda x: x[..., :1], 0.1)
    state = wrong.init(getkey(), jnp.array([0.5]))
    with pytest.raises(ValueError, match=r"projection .*\[\(2,\)\]; .*\[\(1,\)\]$"):
        wrong.update(getkey(), state._replace(position=jnp.ones(2)), None)
