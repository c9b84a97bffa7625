"""`geometry.von_mises_fisher` against closed forms, quadrature and float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special
from support.marks import slow_but

from simplex_jax._src import draws
from simplex_jax._src.geometry import von_mises_fisher as vmf

K = np.concatenate([[0, 1e-6], np.geomspace(1e-3, 1e8, 23)]).astype(np.float32)
DIMENSIONS = (2, 3, 10, 500, 5_000, 100_000)


def exactly(function, *values):
    """The same function in double precision."""
    with jax.enable_x64(True):
        result = function(*(np.asarray(value, np.float64) for value in values))
        return jax.tree.map(lambda x: np.asarray(x, np.float64), result)


@pytest.mark.slow
def test_three_dimensions_in_closed_form() -> None:
    k = np.array([0.01, 0.5, 2, 20, 300, 1e8])
    sinh = k + np.log(-np.expm1(-2 * k)) - np.log(2)
    c = np.log(k) - np.log(4 * np.pi) - sinh
    np.testing.assert_allclose(exactly(lambda k: vmf.log_normaliser(3, k), k), c, rtol=1e-12)
    length = 1 / np.tanh(k) - 1 / k
    np.testing.assert_allclose(exactly(lambda k: vmf.mean_length(3, k), k), length, rtol=2e-11)
    entropy = exactly(lambda k: vmf.entropy(3, k), k[:-1])
    np.testing.assert_allclose(entropy, (-c - k * length)[:-1], rtol=1e-10)


@pytest.mark.parametrize("dimension", slow_but([2, 5, 40], 5))
@pytest.mark.parametrize("concentration", [0.3, 12.0, 90.0])
def test_functions_match_quadrature(dimension: int, concentration: float) -> None:
    """Normaliser, moments, entropy and divergence by integrals over the angle, in double."""
    p, k, other = dimension, concentration, 1.7 * concentration
    area = 2 * np.pi ** ((p - 1) / 2) / special.gamma((p - 1) / 2)

    def integral(function) -> float:
        def density(a):
            return area * np.sin(a) ** (p - 2) * np.exp(k * (np.cos(a) - 1)) * function(np.cos(a))

        return integrate.quad(density, 0, np.pi, epsabs=0, epsrel=1e-11, limit=200)[0]

    whole = integral(lambda t: 1)
    first, second = (integral(lambda t, n=n: t**n) / whole for n in (1, 2))
    turned = np.eye(p)[0] * 0.6 + np.eye(p)[1] * 0.8
    actual = exactly(
        lambda k, other: (
            vmf.log_normaliser(p, k),
            vmf.mean_length(p, k),
            vmf.mean_spread(p, k),
            *vmf.variances(p, k),
            vmf.entropy(p, k),
            vmf.kl(np.eye(p)[0], k, turned, other),
            vmf.log_normaliser(p, other),
        ),
        k,
        other,
    )
    log_c = -np.log(whole) - k
    expected = (
        log_c,
        first,
        1 - first,
        second - first**2,
        (1 - second) / (p - 1),
        -log_c - k * first,
        log_c - actual[-1] + k * first - other * 0.6 * first,
    )
    np.testing.assert_allclose(actual[:-1], expected, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_single_precision_is_right(dimension: int) -> None:
    """Everywhere finite, and within some units in the last place of the largest term."""
    functions = {
        "log_normaliser": (vmf.log_normaliser, 1.0),
        "mean_length": (vmf.mean_length, 0),
        "mean_spread": (vmf.mean_spread, 0),
        "entropy": (vmf.entropy, 1.0),
    }
    for name, (function, floor) in functions.items():
        actual = np.asarray(function(dimension, K), np.float64)
        exact = exactly(lambda k, f=function: f(dimension, k), K)
        assert np.isfinite(actual).all(), name
        largest = np.maximum(np.abs(exact), floor * max(1, abs(vmf.log_uniform(dimension))))
        assert (np.abs(actual - exact) <= 5e-6 * largest + 1e-12).all(), name
    assert vmf.mean_length(dimension, 0.0) == 0
    assert abs(float(vmf.log_normaliser(dimension, 0.0)) / vmf.log_uniform(dimension) - 1) < 1e-6
    across = np.asarray(vmf.variances(dimension, np.float32([0, 1e-12, 1e-3]))[1])
    np.testing.assert_allclose(across, 1 / dimension, rtol=1e-4)


def test_differences_of_normalisers() -> None:
    """Where the normaliser itself is known to 1e-2, its differences are to 1e-6."""
    k = np.float32(2.1e5)
    for other in np.float32([2.1e5 + 1, 2.0e5, 3e4]):
        actual = float(vmf.log_normaliser_difference(5_000, k, other))
        exact = exactly(lambda k: vmf.log_normaliser(5_000, k), [k, other])
        assert abs(actual - (exact[0] - exact[1])) <= 2e-6 * abs(actual)
    gradient = jax.grad(lambda k: vmf.log_normaliser(5_000, k))(k)
    assert abs(float(gradient + vmf.mean_length(5_000, k))) < 3e-7


def test_log_density_keeps_its_digits() -> None:
    """In float32 at k = 1e8, where k mean.x is known to 6; and its mass is one on the circle."""
    mean = jnp.array([0.6, 0.8])
    angle = np.float32(1e-4) * np.linspace(-3, 3, 7, dtype=np.float32)
    x = np.stack(
        [0.6 * np.cos(angle) - 0.8 * np.sin(angle), 0.6 * np.sin(angle) + 0.8 * np.cos(angle)], 1
    )
    actual = vmf.log_density(x.astype(np.float32), mean, 1e8)
    exact = 0.5 * np.log(1e8 / (2 * np.pi)) - 0.5e8 * angle.astype(np.float64) ** 2
    np.testing.assert_allclose(actual, exact, atol=0.02)
    angle = np.linspace(0, 2 * np.pi, 2_001)[:-1]
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for k in (0.0, 3.0, 500.0):
        mass = np.exp(np.asarray(vmf.log_density(circle, mean, k), np.float64)).mean() * 2 * np.pi
        assert abs(mass - 1) < 1e-5


@pytest.mark.slow
def test_divergence() -> None:
    mean = np.eye(3, dtype=np.float32)[0]
    assert (vmf.kl(mean, K, mean, K) == 0).all()
    for k, factor in ((1e8, 1.01), (1e4, 1.01), (10.0, 1.1), (0.1, 2.0), (0.0, 1.0)):
        k, other = np.float32(k), np.float32(factor * k + 0.1)
        exact = exactly(lambda k, other: vmf.kl(mean, k, mean, other), k, other)
        assert abs(float(vmf.kl(mean, k, mean, other)) - exact) <= 2e-3 * exact + 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_fit_inverts_the_mean_length(dimension: int) -> None:
    k = K[2:]
    length, spread = vmf.mean_length(dimension, k), vmf.mean_spread(dimension, k)
    np.testing.assert_allclose(vmf.fit(dimension, length, spread), k, rtol=5e-6)
    np.testing.assert_allclose(vmf._moments(dimension, length, spread), k, rtol=0.07)
    back = exactly(
        lambda k: vmf.fit(dimension, vmf.mean_length(dimension, k), vmf.mean_spread(dimension, k)),
        k,
    )
    np.testing.assert_allclose(back, k, rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [2, 3, 19, 100_000])
def test_fit_of_directions_that_differ_by_rounding(dimension: int) -> None:
    """It was NaN where squares of the concentration overflow."""
    spread = np.float32([1e-33, 1e-28, 1e-20, 1e-9, 1e-8])
    fitted = np.asarray(vmf.fit(dimension, 1 - spread, spread), np.float64)
    # To the next term, the fraction (p - 3) / 4k, which is below 1e-3 at these spreads.
    exact = (dimension - 1) / (2 * spread.astype(np.float64)) - (dimension - 3) / 4
    np.testing.assert_allclose(fitted, exact, rtol=1e-6)
    same = vmf.resultant(jnp.tile(jnp.eye(1, dimension), (10, 1)))
    assert float(vmf.fit(dimension, same.length, same.spread)) > 1e26


def test_functions_at_the_ends_of_their_range() -> None:
    """Dimensions 2 and 1e5, concentrations 0 and 1e8: finite, and consistent with each other."""
    k = jnp.array([0.0, 1e8])
    for dimension in (2, 100_000):
        length, spread = vmf.mean_length(dimension, k), vmf.mean_spread(dimension, k)
        np.testing.assert_allclose(length + spread, 1, rtol=1e-6)
        np.testing.assert_allclose(vmf.fit(dimension, length, spread), k, rtol=5e-6)
        along, across = vmf.variances(dimension, k)
        np.testing.assert_allclose([along[0], across[0]], 1 / dimension, rtol=1e-5)
        for value in (along, across, vmf.entropy(dimension, k), vmf.log_normaliser(dimension, k)):
            assert np.isfinite(value).all()


@pytest.mark.slow
def test_fit_at_the_ends_and_its_derivative() -> None:
    assert vmf.fit(3, jnp.array([0.0, 1.0])).tolist() == [0, np.inf]
    slope = jax.grad(lambda length: vmf.fit(7, length))(0.5)
    assert abs(float(slope * vmf.variances(7, vmf.fit(7, 0.5))[0]) - 1) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("concentration", [0.5, 30.0, 1e8])
def test_fit_to_draws(concentration: float, seed: int) -> None:
    """Five standard errors, 1 / sqrt(n A'(k)); weights of 0 leave points out."""
    n = 20_000
    mean = np.array([0.0, 0.6, 0.0, -0.8], np.float32)
    key = jax.random.key(seed)
    x = draws.von_mises_fisher(key, mean, jnp.float32(concentration), shape=(n,))
    actual = vmf.resultant(jnp.concatenate([x, -x[:100]]), jnp.ones(n + 100).at[n:].set(0))
    k = vmf.fit(4, actual.length, actual.spread)
    deviation = 1 / np.sqrt(n * float(vmf.variances(4, concentration)[0]))
    assert abs(float(k) - concentration) < 5 * deviation
    assert float(actual.mean @ mean) > 0.99


@pytest.mark.slow
def test_spread_of_close_vectors_is_right_to_rounding(seed: int) -> None:
    """The order in which a machine adds them up must not show: one made k = 1e8 into 9.6e7."""
    mean = np.array([0.0, 0.6, 0.0, -0.8], np.float32)
    x = draws.von_mises_fisher(jax.random.key(seed), mean, jnp.float32(1e8), shape=(20_000,))
    exact = np.asarray(x, np.float64)
    centre = exact.mean(axis=0)
    spread = ((exact - centre) ** 2).sum(axis=1).mean() / (1 + np.linalg.norm(centre))
    np.testing.assert_allclose(vmf.resultant(x).spread, spread, rtol=1e-6)


def test_bad_arguments() -> None:
    for dimension in (1, 2.5, True):
        with pytest.raises(ValueError, match=r"dimension .* 2"):
            vmf.log_normaliser(dimension, 1.0)
    for k in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"concentration .* 0"):
            vmf.entropy(3, k)
        assert np.isnan(jax.jit(lambda k: vmf.entropy(3, k))(k))
        assert np.isnan(jax.jit(lambda k: vmf.log_normaliser(3, k))(k))
    x = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="one length p"):
        vmf.log_density(x, jnp.ones(3), 1.0)
    with pytest.raises(ValueError, match=r"length of points .* 1; "):
        vmf.resultant(2 * x)
    for wrong in (jnp.array([2.0]), jnp.ones((3, 1)), jnp.ones((3, 2)), jnp.ones(())):
        with pytest.raises(ValueError, match=r"weights .* \[\.\.\., 3\]|weights \(3, 2\)"):
            vmf.resultant(jnp.eye(3), wrong)
    with pytest.raises(ValueError, match="weights must be"):
        vmf.resultant(x, jnp.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="sum of weights "):
        vmf.resultant(jnp.stack([x, x]), jnp.array([[1.0, 1.0], [0.0, 0.0]]))
    with pytest.raises(ValueError, match=r"length .* 0 and 1"):
        vmf.fit(3, 1.5)
    with pytest.raises(ValueError, match=r"length \+ spread must be 1"):
        vmf.fit(3, 0.5, 0.4)
    assert np.isnan(jax.jit(lambda r: vmf.fit(3, r))(1.5))


@pytest.mark.parametrize("dimension", [2, 3, 50])
def test_the_fit_has_a_derivative_at_no_direction(dimension):
    """A(k) is k / p there."""
    slopes = [float(jax.grad(lambda r: vmf.fit(dimension, r))(r)) for r in (0.0, 1e-6)]
    np.testing.assert_allclose(slopes, dimension, rtol=1e-4)
