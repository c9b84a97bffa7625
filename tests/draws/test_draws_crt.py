"""`draws.crt` against the exact law of a sum of Bernoulli variables.

P-values are judged by Holm's procedure at 1e-3 (`statistics_checks.family`): with a fresh seed a
correct library fails with a probability of at most 1e-3.
"""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from support import statistics_checks as checks
from support import tiny_lda

from simplex_jax._src import draws
from simplex_jax._src.draws.crt import many_tables

SIZE = 200_000
SETTINGS = [
    (c, n)
    for c in (1e-3, 0.05, 0.7, 3.0, 40.0)
    for n in (2, 3, 10, 200, 3000)
    if c * np.log(n) < 100
]


def law(c, n):
    """Probabilities of 0..m tables, m beyond which there are none to speak of."""
    p = np.float64(c) / (c + np.arange(n))
    most = int(min(n, p.sum() + 12 * np.sqrt(p.sum()) + 30))
    pmf = np.zeros(most + 1)
    pmf[0] = 1
    for chance in p:
        pmf[1:] = (1 - chance) * pmf[1:] + chance * pmf[:-1]
        pmf[0] *= 1 - chance
    return pmf


def p_values(getkey, factor=1.0, draw=draws.crt):
    result = {}
    for c, n in SETTINGS:
        pmf = law(np.float32(c), n)
        tables = np.asarray(draw(getkey(), factor * c, float(n), (SIZE,)))
        assert (tables == np.floor(tables)).all()
        assert (tables >= 1).all()
        seen = np.bincount(np.minimum(tables, pmf.size - 1).astype(int), minlength=pmf.size)
        result[c, n] = checks.chi_square(seen, pmf)
    return result


def test_law(getkey):
    assert not checks.family(p_values(getkey))


@pytest.mark.slow
def test_wrong_concentration_is_seen(getkey):
    assert checks.family(p_values(getkey, factor=1.02))


@pytest.mark.parametrize(("c", "n"), [(0.1, 1e6), (2.0, 1e7), (1e3, 2e4), (1e5, 300.0)])
def test_moments_of_many_customers(c, n, getkey):
    """One pair of checks each: the false-alarm rate of the test is 4e-4."""
    p = c / (c + np.arange(int(n)))
    mean, variance = p.sum(), (p * (1 - p)).sum()
    tables = np.asarray(draws.crt(getkey(), c, n, (4000,)), np.float64)
    assert checks.mean_z(tables, mean, variance) > 1e-4
    assert checks.mean_z(tables, mean * 1.1, variance) < 1e-4


@pytest.mark.parametrize(
    ("n", "a"), [(1214, 400.0), (1258, 1000.0), (3351, 100.0), (23_104, 50.0), (19_317, 7e5)]
)
def test_many_tables_are_close_to_the_exact_distribution(n, a):
    """In total variation, at the smallest variance at which they are used."""
    p, size = a / (a + np.arange(n)), 512  # 32 standard deviations
    first = int(p.sum()) - size // 2
    frequency = 2 * np.pi * np.arange(size // 2 + 1) / size
    log_characteristic = -1j * frequency * first
    for some in np.array_split(p, 10):
        log_characteristic += np.log1p(some[:, None] * np.expm1(1j * frequency)).sum(axis=0)
    exact = np.fft.irfft(np.exp(log_characteristic.conj()), size)
    with jax.enable_x64(True):
        number = first + np.arange(size)
        low, high = np.full(size, -12.0), np.full(size, 12.0)
        for _ in range(60):  # the normal from which on there are more tables
            z = (low + high) / 2
            drawn, many = many_tables(jnp.asarray(z), jnp.full(size, float(n)), a)
            upward = n > 2.5 * a
            below = np.asarray(drawn <= number if upward else drawn > number)
            low, high = np.where(below, z, low), np.where(below, high, z)
    assert bool(many[0])
    assert 256 <= (p * (1 - p)).sum() < 258
    cumulative = stats.norm.cdf(low) if upward else stats.norm.sf(low)
    assert abs(np.diff(cumulative, prepend=0) - exact).sum() / 2 < 2e-6


def test_broadcasts_and_counts_from_none(getkey):
    tables = draws.crt(getkey(), jnp.array([[0.5], [2.0]]), jnp.array([0, 1, 5]))
    assert tables.shape == (2, 3)
    np.testing.assert_array_equal(tables[:, :2], [[0, 1], [0, 1]])


def test_a_draw_goes_with_its_number(getkey):
    key, order = getkey(), np.random.default_rng(0).permutation(300)
    c, n = np.geomspace(0.01, 50, 300, dtype=np.float32), np.arange(300)
    permuted = draws.crt(key, c[order], n[order], columns=order)
    np.testing.assert_array_equal(permuted, draws.crt(key, c, n)[order])


@pytest.mark.slow
def test_mutant_is_seen(getkey):
    mutant = tiny_lda.mutated(
        importlib.import_module("simplex_jax._src.draws.crt"),
        "c + last) & (j < n)",
        "c + last - 1) & (j < n)",
    )
    assert checks.family(p_values(getkey, draw=mutant.crt))


def test_nothing_and_fractions(getkey):
    assert draws.crt(getkey(), jnp.zeros(0), 3.0).shape == (0,)
    assert np.isnan(jax.jit(draws.crt)(getkey(), 1.0, 2.5))
    # n / c overflows; the sum of all but the first probability is below 1e-20.
    for c, n in ((1e-36, 1e3), (1e-33, 1e6), (1e-30, 1e9)):
        assert draws.crt(getkey(), c, n) == 1


@pytest.mark.parametrize("columns", [7, [0, 1], [0.0, 1.0, 2.0], [0, -1, 2]])
def test_numbers_of_draws_are_whole_and_one_each(columns):
    with pytest.raises(ValueError, match=r"^columns "):
        draws.crt(jax.random.key(0), jnp.ones(3), 5.0, columns=jnp.array(columns))
