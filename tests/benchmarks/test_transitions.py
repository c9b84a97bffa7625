"""The laws of exact processes: against each other, by enumeration, and against simulated draws.

Where p-values are judged by `statistics_checks.family`, a test fails by chance with a probability
of at most 1e-3 at a fresh seed. Double precision is used to compare formulas.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import transitions
from scipy import stats
from support import reference_laws
from support import statistics_checks as checks

from simplex_jax._src import draws

THETA = 4.0
SHAPES = np.array([0.3, 9.0, 2.0, 25.0])  # far from exchangeable
STEPS = np.array([0.9, 0.4, 0.2, 0.5])
CHAINS = 200_000


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def scir_draws(request):
    """theta after four SCIR steps with the given shapes and steps, [CHAINS]."""
    log_theta = jnp.full(CHAINS, np.log(THETA), jnp.float32)
    keys = jax.random.split(jax.random.key(request.config.getoption("--seed")), len(STEPS))
    for key, a, h in zip(keys, SHAPES, STEPS, strict=True):
        log_theta = draws.cir(key, log_theta, jnp.float32(a), jnp.float32(h))
    return np.exp(np.asarray(log_theta, np.float64))


def mgf_checks(theta, log_mgf):
    """E exp(s theta) by its own variance, M(2 s) - M(s)^2, at arguments on both sides of 0."""
    p_values = {}
    for s in (-1.0, -0.1, -0.02, 0.02, 0.1):
        first, second = np.exp(log_mgf(s)), np.exp(log_mgf(2 * s))
        p_values[s] = checks.mean_z(np.exp(s * theta), first, second - first**2)
    return p_values


def log_mgf(s):
    return float(transitions.scir_log_mgf(s, THETA, SHAPES, STEPS))


def as_printed(s):
    """Theorem 3.1 as printed pairs each estimate with the time since the start."""
    elapsed = np.concatenate([[0.0], np.cumsum(STEPS)])
    gone = np.exp(-elapsed[-1])
    factors = np.diff(np.log1p(s * np.expm1(-elapsed)))
    return THETA * s * gone / (1 - s * (1 - gone)) - SHAPES @ factors


def test_the_corrected_theorem_3_1_is_the_law_of_scir(scir_draws, double):
    assert not checks.family(mgf_checks(scir_draws, log_mgf))
    assert checks.family(mgf_checks(scir_draws, as_printed)), "the printed formula"
    for wrong in (0.98 * SHAPES, SHAPES + 0.1, SHAPES[::-1]):
        mutant = lambda s, wrong=wrong: float(transitions.scir_log_mgf(s, THETA, wrong, STEPS))  # noqa: E731
        assert checks.family(mgf_checks(scir_draws, mutant))


def test_the_printed_theorem_holds_for_equal_estimates(double):
    for s in (-2.0, 0.3):
        ours = transitions.scir_log_mgf(s, THETA, np.full(4, 3.0), STEPS)
        steps = np.concatenate([[0.0], np.cumsum(STEPS)])
        printed = -3.0 * np.diff(np.log1p(s * np.expm1(-steps))).sum()
        gone = np.exp(-steps[-1])
        printed += THETA * s * gone / (1 - s * (1 - gone))
        assert float(ours) == pytest.approx(printed, rel=1e-12)
        exact = transitions.cir_log_mgf(s, THETA, 3.0, STEPS.sum())
        assert float(ours) == pytest.approx(float(exact), rel=1e-12)


def test_moments_are_derivatives_of_the_generating_function(double):
    options = {"rate": 2.5, "sigma": 0.7}
    log_mgf = lambda s: transitions.scir_log_mgf(s, THETA, SHAPES, STEPS, **options)  # noqa: E731
    result = transitions.scir(THETA, SHAPES, STEPS, **options)
    np.testing.assert_allclose(jax.grad(log_mgf)(0.0), result.mean, rtol=1e-10)
    np.testing.assert_allclose(jax.grad(jax.grad(log_mgf))(0.0), result.variance, rtol=1e-10)


def test_one_step_has_the_moments_of_the_noncentral_chi_square(double):
    for theta, a, t, b, sigma in ((0.0, 0.3, 0.5, 1.0, 2**0.5), (5.0, 2.0, 3.0, 4.0, 0.6)):
        time = sigma**2 * b * t / 2
        rate, log_scale = reference_laws.cir_rate(np.log(max(theta * b, 1e-300)), time)
        exact = reference_laws.cir_moments(a, rate)
        scale = np.exp(log_scale) / b
        result = transitions.cir(theta, a, t, rate=b, sigma=sigma)
        np.testing.assert_allclose(result.mean, scale * exact.mean, rtol=1e-10)
        np.testing.assert_allclose(result.variance, scale**2 * exact.variance, rtol=1e-10)


@pytest.mark.slow
def test_arrays_broadcast_and_curves_over_time_are_one_call(double):
    times = np.array([0.1, 1.0, 10.0])
    result = transitions.cir(np.array([[1.0], [5.0]]), 2.0, times, rate=np.array([1.0, 2.0, 3.0]))
    assert result.mean.shape == result.variance.shape == (2, 3)
    one = transitions.cir(5.0, 2.0, 10.0, rate=3.0)
    np.testing.assert_allclose(result.mean[1, 2], one.mean)
    shapes = np.stack([SHAPES, SHAPES[::-1]], axis=1)
    result = transitions.scir(THETA, shapes, STEPS)
    np.testing.assert_allclose(result.variance[0], transitions.scir(THETA, SHAPES, STEPS).variance)
    assert transitions.scir_log_mgf(-1.0, THETA, shapes, 0.3).shape == (2,)


def test_corollary_3_2_by_enumeration(double):
    """All sequences of a two-valued estimate: the law of total variance, to rounding."""
    values, weights = np.array([1.0, 11.0]), np.array([0.7, 0.3])
    a = weights @ values
    variance = weights @ (values - a) ** 2
    m, h, options = 5, 0.6, {"rate": 3.0, "sigma": 0.8}
    sequences = np.array(list(itertools.product(range(2), repeat=m)))
    probability = weights[sequences].prod(axis=1)
    given = transitions.scir(THETA, values[sequences].T, h, **options)
    mean = probability @ given.mean
    total = probability @ given.variance + probability @ (given.mean - mean) ** 2
    result = transitions.scir_over_batches(THETA, a, h, m, variance, **options)
    np.testing.assert_allclose(result.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(result.variance, total, rtol=1e-12)
    limit = transitions.scir_over_batches(THETA, a, h, 1000, variance, **options).variance
    added = transitions.stationary_inflation(variance, h, **options)
    np.testing.assert_allclose(limit, a / 9 + added, rtol=1e-12)


def test_moments_of_scir_in_simulation(scir_draws):
    """In the single precision of the user."""
    result = transitions.scir(THETA, SHAPES, STEPS)
    mean, variance = float(result.mean), float(result.variance)
    p_values = {
        "mean": checks.mean_z(scir_draws, mean, variance),
        "variance": checks.variance_z(scir_draws, mean, variance),
    }
    assert not checks.family(p_values)
    short = transitions.cir(THETA, 3.0, 1e-6)
    np.testing.assert_allclose(short.variance, 2e-6 * THETA, rtol=1e-4)
    wrong = transitions.scir(THETA, SHAPES[::-1], STEPS)
    assert checks.family({"mean": checks.mean_z(scir_draws, float(wrong.mean), variance)})


def drift_of_root(u, a, curvature=1.0):
    """Ito's formula for U = 2 sqrt(theta), its derivatives by autodiff, at theta = u^2 / 4."""
    root = lambda theta: 2 * jnp.sqrt(theta)  # noqa: E731
    theta = u**2 / 4
    first, second = jax.grad(root)(theta), jax.grad(jax.grad(root))(theta)
    return first * (a - theta) + curvature * second * theta, first * jnp.sqrt(2 * theta)


@pytest.mark.parametrize("a", [0.1, 0.5, 3.0])
def test_theorem_2_1(a, double):
    """U = 2 sqrt(theta) is the Langevin diffusion of a generalised gamma law, linear in a."""
    law = stats.gengamma(a, 2, scale=2)  # that of 2 sqrt(Gamma(a)), density u^(2a-1) e^(-u^2/4)
    log_density = lambda u: (2 * a - 1) * jnp.log(u) - u**2 / 4  # noqa: E731
    u = np.array([0.05, 0.7, 2.0, 5.0])
    np.testing.assert_allclose(np.ptp(law.logpdf(u) - log_density(u)), 0, atol=1e-9)
    theta = stats.gamma(a)
    np.testing.assert_allclose(law.cdf(u), theta.cdf(u**2 / 4), rtol=1e-9)
    for point in u:
        drift, diffusion = drift_of_root(point, a)
        assert float(diffusion) == pytest.approx(np.sqrt(2))
        assert float(drift) == pytest.approx(float(jax.grad(log_density)(point)))
        without, _ = drift_of_root(point, a, curvature=0.0)
        assert float(without) != pytest.approx(float(drift), rel=0.01)
        up, down = (drift_of_root(point, a + shift)[0] for shift in (0.5, -0.5))
        assert float((up + down) / 2) == pytest.approx(float(drift)), "linear in a"


def test_theorem_2_1_in_draws(getkey):
    """Increments of U over a short time: h times the drift and variance 2 h, up to O(h^2)."""
    a, u, h, n = 3.0, 2.0, 1e-3, 400_000
    start = jnp.full(n, np.log(u**2 / 4), jnp.float32)
    moved = 2 * np.exp(np.asarray(draws.cir(getkey(), start, a, h), np.float64) / 2)
    drift = (2 * a - 1) / u - u / 2
    p_values = {
        # The next term of the mean is h^2 (b b' + b'') / 2, for the drift b and its derivatives.
        "mean": checks.mean_z(moved - u, h * drift, 2 * h, resolution=3e-6),
        "variance": checks.variance_z(moved, u + h * drift, 2 * h, resolution=1e-4),
    }
    assert not checks.family(p_values)
    # Without the curvature term of Ito's formula.
    assert checks.family({"mean": checks.mean_z(moved - u, h * (drift + 1 / u), 2 * h, 3e-6)})


def test_ornstein_uhlenbeck_is_a_semigroup_and_has_its_limits(double):
    options = {"mean": -1.0, "precision": 4.0, "sigma": 0.7}
    once = transitions.ornstein_uhlenbeck(3.0, time=1.5, **options)
    first = transitions.ornstein_uhlenbeck(3.0, time=0.5, **options)
    second = transitions.ornstein_uhlenbeck(first.mean, time=1.0, **options)
    decay = np.exp(-(0.7**2) * 4.0 / 2)
    np.testing.assert_allclose(second.mean, once.mean, rtol=1e-12)
    np.testing.assert_allclose(
        second.variance + decay**2 * first.variance, once.variance, rtol=1e-12
    )
    late = transitions.ornstein_uhlenbeck(3.0, time=1000.0, **options)
    np.testing.assert_allclose([late.mean, late.variance], [-1.0, 0.25])
    # Estimated means: the recursion over steps.
    h, m, noise = 0.3, 4, 2.0
    left, variance = np.exp(-(0.7**2) * 4.0 * h / 2), 0.0
    for _ in range(m):
        variance = left**2 * variance + (1 - left**2) / 4 + (1 - left) ** 2 * noise
    result = transitions.ornstein_uhlenbeck(3.0, time=m * h, variance=noise, step_size=h, **options)
    np.testing.assert_allclose(result.variance, variance, rtol=1e-12)


def test_geometric_brownian_motion_is_the_limit_without_a_pull(double):
    drift, sigma, p = 0.6, 0.7, 1e-9
    mean = (2 * drift / sigma**2 - 1) / p
    pulled = transitions.ornstein_uhlenbeck(np.log(2.0), mean, p, 3.0, sigma=sigma)
    free = transitions.geometric_brownian(2.0, drift, 3.0, sigma=sigma)
    np.testing.assert_allclose(pulled, free, rtol=1e-6)
    theta = transitions.lognormal(free)
    np.testing.assert_allclose(theta.mean, 2 * np.exp(3 * drift))
    exact = stats.lognorm(s=sigma * np.sqrt(3), scale=np.exp(float(free.mean)))
    np.testing.assert_allclose(theta.variance, exact.var())


def test_beyond_its_range_the_generating_function_is_infinite():
    assert transitions.cir_log_mgf(2.0, 1.0, 1.0, 1.0) == np.inf
    assert np.isfinite(transitions.cir_log_mgf(1.5, 1.0, 1.0, 1.0))
    assert np.isnan(transitions.cir_log_mgf(np.nan, 1.0, 1.0, 1.0))


def test_bad_arguments_are_named_and_nan_under_jit():
    calls = {
        "theta": lambda x: transitions.cir(x, 1.0, 1.0).mean,
        "shape": lambda x: transitions.cir_log_mgf(0.1, 1.0, x, 1.0),
        "step_sizes": lambda x: transitions.scir(1.0, np.ones(2), x).variance,
        "rate": lambda x: transitions.cir(1.0, 1.0, 1.0, rate=x).mean,
        "sigma": lambda x: transitions.stationary_inflation(1.0, 1.0, sigma=x),
        "variance": lambda x: transitions.scir_over_batches(1.0, 1.0, 1.0, 2, x).variance,
        "num_steps": lambda x: transitions.scir_over_batches(1.0, 1.0, 1.0, x, 1.0).variance,
        "precision": lambda x: transitions.ornstein_uhlenbeck(1.0, 1.0, x, 1.0).mean,
        "time": lambda x: transitions.geometric_brownian(1.0, 1.0, x).mean,
    }
    for name, call in calls.items():
        for value in (-1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match=name):
                call(value)
        assert np.isnan(jax.jit(call)(-1.0)), name
    with pytest.raises(ValueError, match="step_sizes"):
        transitions.scir(1.0, np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="shapes"):
        transitions.scir(1.0, 1.0, 0.1)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: transitions.cir(x, y, 1.0),
        lambda x, y: transitions.scir(x, np.ones((4, 2)), 0.1, rate=y),
        lambda x, y: transitions.ornstein_uhlenbeck(x, 0.0, y, 1.0),
        lambda x, y: transitions.geometric_brownian(x, 0.0, y),
    ],
)
def test_moments_have_one_shape_and_shapes_that_do_not_fit_are_named(call):
    result = call(np.ones((3, 1)), np.ones(2))
    assert result.mean.shape == result.variance.shape == (3, 2)
    with pytest.raises(ValueError, match=r"\(3,\).*\(2,\).* do not broadcast"):
        call(np.ones(3), np.ones(2))
