"""`draws.crt` against the exact law of a sum of Bernoulli variables.

P-values are judged by Holm's procedure at 1e-3 (`statistics_checks.family`): with a fresh seed a
correct library fails with a probability of at most 1e-3.
"""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import statistics_checks as checks
from support import tiny_lda

from simplex_jax._src import draws

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
        importlib.import_module("simplex_jax._src.draws.crt"), "c + i + 1) & (j", "c + i) & (j"
    )
    assert checks.family(p_values(getkey, draw=mutant.crt))


def test_nothing_and_fractions(getkey):
    assert draws.crt(getkey(), jnp.zeros(0), 3.0).shape == (0,)
    assert np.isnan(jax.jit(draws.crt)(getkey(), 1.0, 2.5))
