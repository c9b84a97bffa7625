"""Rosenblatt's transform and Kolmogorov-Smirnov distances on the simplex."""

import numpy as np
import pytest
from scipy import special, stats
from support import statistics_checks as checks

from simplex_jax._src.evaluate import distances

A = np.array([0.1, 3.0, 0.002, 40.0, 0.7])


def log_dirichlet(rng, a, n):
    """Draws right where they underflow: Gamma(a) = Gamma(a + 1) U^(1/a)."""
    log_gamma = np.log(rng.gamma(a + 1, size=(n, len(a)))) + np.log(rng.random((n, len(a)))) / a
    return special.log_softmax(log_gamma, axis=-1)


def test_exact_draws_become_independent_and_uniform(seed):
    """At 1e-3 over all; the third category is below 1e-308 in most draws."""
    log_p = log_dirichlet(np.random.default_rng(seed), A, 20_000)
    assert (log_p[:, 2] < -708).mean() > 0.2
    u = distances.rosenblatt(log_p, A)
    p_values = {j: checks.dkwm(u[:, j], stats.uniform.cdf) for j in range(4)}
    scores = special.ndtri(np.clip(u, 1e-12, 1 - 1e-12))
    for j in range(4):
        for k in range(j):
            p_values["product", j, k] = checks.mean_z(scores[:, j] * scores[:, k], 0.0, 1.0)
    assert not checks.family(p_values)
    for j in range(3):
        wrong = distances.rosenblatt(log_p, A * np.where(np.arange(5) == j, 1.1, 1.0))
        assert checks.family({k: checks.dkwm(wrong[:, k], stats.uniform.cdf) for k in range(4)})


def test_against_the_plain_formula_where_nothing_underflows():
    p = np.array([0.2, 0.3, 0.1, 0.25, 0.15])
    plain = [special.betainc(A[j], A[j + 1 :].sum(), p[j] / p[j:].sum()) for j in range(4)]
    np.testing.assert_allclose(distances.rosenblatt(np.log(p)[None], A)[0], plain, rtol=1e-9)


def test_the_first_term_continues_the_distribution_function():
    a = np.array([0.01, 2e6])
    logs = np.array([-51.0, -50.0 - 1e-9, -50.0 + 1e-9, -49.0])
    u = distances.rosenblatt(np.stack([logs, np.log1p(-np.exp(logs))], axis=-1), a)[:, 0]
    np.testing.assert_allclose(u, special.betainc(*a, np.exp(logs)), rtol=1e-9)


def test_distance_is_that_of_scipy(seed):
    u = np.random.default_rng(seed).random((3, 50, 2))
    plain = [[stats.kstest(u[i, :, j], "uniform").statistic for j in range(2)] for i in range(3)]
    np.testing.assert_allclose(distances.uniform_distance(u), plain)


def test_rows_with_their_own_laws(seed):
    rng = np.random.default_rng(seed)
    laws = np.array([[0.3, 2.0, 1.0], [5.0, 0.01, 0.2]])
    log_p = np.stack([log_dirichlet(rng, a, 2000) for a in laws])
    together = distances.kolmogorov_smirnov(log_p, laws)
    apart = [distances.kolmogorov_smirnov(x, a) for x, a in zip(log_p, laws, strict=True)]
    np.testing.assert_allclose(together, apart)
    assert (distances.kolmogorov_smirnov(log_p, laws[::-1]) > 0.2).all()


@pytest.mark.parametrize(
    ("log_p", "a", "message"),
    [
        (np.zeros(3), np.ones(3), "must be"),
        (np.zeros((2, 3)), np.ones(2), "must be"),
        (np.zeros((2, 3)), np.array([1.0, 0.0, 1.0]), "positive"),
        (np.full((2, 3), 1 / 3), np.ones(3), r"^log_p .* 0\.333333: "),
    ],
)
def test_bad_input(log_p, a, message):
    with pytest.raises(ValueError, match=message):
        distances.rosenblatt(log_p, a)


def test_probabilities_of_zero_have_a_distance():
    """Two or more zeros at the end leave a rest of 0, of which no share is defined: it is 0."""
    rows = [[0.5, 0.5, 0, 0], [1, 0, 0, 0], [0.25] * 4, [0, 0, 1, 0], [0, 0, 0, 1]]
    with np.errstate(divide="ignore"):
        log_p = np.log(np.array(rows, float))
    u = distances.rosenblatt(log_p, np.ones(4))
    # Given a, the law of x_1 is 1 - (1 - x)^3, then 1 - (1 - x)^2, then uniform.
    expected = [[7 / 8, 1, 0], [1, 0, 0], [37 / 64, 5 / 9, 1 / 2], [0, 0, 1], [0, 0, 0]]
    np.testing.assert_allclose(u, expected, rtol=1e-14)
    distance = distances.kolmogorov_smirnov(log_p, np.ones(4))
    each = [stats.kstest(column, "uniform").statistic for column in np.array(expected).T]
    np.testing.assert_allclose(distance, np.mean(each), rtol=1e-14)
