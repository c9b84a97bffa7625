"""Regressions agree with closed forms, and pools of them with the mixture that is drawn from."""

import numpy as np
import pytest
from scipy import stats
from support import statistics_checks as checks

from simplex_jax._src.evaluate import composition
from simplex_jax._src.evaluate.covariates import design

RNG = np.random.default_rng(5)
GROUP = np.repeat(["a", "b", "c"], [4, 9, 30])
SHARES = RNG.random((43, 2)) * np.repeat([0.1, 1.0, 0.4], [4, 9, 30])[:, None]


def regressed(columns, shares):
    made = design(columns)
    return composition.Regression(made.matrix, np.stack([t.row for t in made.terms])).of(shares)


def test_errors_of_groups_are_those_of_their_own_means():
    result = regressed({"g": GROUP}, SHARES)
    parts = [SHARES[group == GROUP] for group in "abc"]
    squares = np.array([part.var(axis=0, ddof=1) / len(part) for part in parts])
    np.testing.assert_allclose(result.error[:, :3].T, np.sqrt(squares), rtol=1e-9)
    np.testing.assert_allclose(result.error[:, 3], np.sqrt(squares[0] + squares[1]), rtol=1e-9)


def regression_of(columns):
    made = design(columns)
    return made, composition.Regression(made.matrix, np.stack([t.row for t in made.terms]))


def test_degrees_of_freedom_are_those_of_the_documents_of_a_term():
    """In groups a mean has its size less 1, a difference what Welch has of equal variances."""
    groups = np.repeat(["a", "b", "c", "d"], [5, 9, 30, 2])
    result = regressed({"g": groups}, RNG.random((46, 1)))
    welch = (1 / 5 + 1 / 30) ** 2 / (1 / 5**2 / 4 + 1 / 30**2 / 29)
    np.testing.assert_allclose(result.freedom[:4], [4, 8, 29, 3], rtol=1e-9)
    assert result.freedom[5] == pytest.approx(welch, rel=1e-9)


def test_degrees_of_freedom_are_those_of_the_quadratic_form():
    columns = {"x": RNG.gamma(1.0, size=44), "g": np.array(["a"] * 6 + ["b"] * 37 + ["c"])}
    made, regression = regression_of(columns)
    result = regression.of(RNG.random((44, 1))).freedom
    residual = np.eye(44) - made.matrix @ made.matrix.T
    room = np.diag(residual)
    for term, freedom in zip(made.terms, result, strict=True):
        squares = (made.matrix @ term.row) ** 2
        weights = np.append(squares[:43] / room[:43], 0)
        form = residual @ np.diag(weights) @ residual + squares[43] / 40 * residual
        expected = np.trace(form) ** 2 / (form**2).sum()
        assert freedom == pytest.approx(max(3, expected), rel=1e-6)


def test_intervals_of_a_small_group_beside_a_large_one_hold_its_mean(seed):
    """At 95%, of 6 documents beside 300; false alarm 1e-3.

    With the degrees of freedom of the whole regression 89% hold it, which is seen.
    """
    number = 1_000
    values = np.random.default_rng(seed).normal(size=(306, number))
    _, regression = regression_of({"g": np.repeat(["a", "b"], [300, 6])})
    result = regression.of(values)

    def held(freedom):
        pooled = composition.pool(result.mean[None], result.error[None], freedom)
        return ((pooled.lower < 0) & (pooled.upper > 0)).sum(axis=0)[1:]

    p_values = [stats.binomtest(int(k), number, 0.95).pvalue for k in held(result.freedom)]
    assert not checks.family({str(i): p for i, p in enumerate(p_values)})
    mutant = [stats.binomtest(int(k), number, 0.95).pvalue for k in held(304)]
    assert checks.family({str(i): p for i, p in enumerate(mutant)})


def test_errors_of_a_line_are_those_of_the_sandwich():
    x = RNG.normal(size=43)
    result = regressed({"x": x}, SHARES)
    matrix = np.column_stack([np.ones(43), x])
    bread = np.linalg.inv(matrix.T @ matrix)
    leverage = np.einsum("ij,jk,ik->i", matrix, bread, matrix)
    rest = SHARES[:, 0] - matrix @ bread @ matrix.T @ SHARES[:, 0]
    meat = (matrix * (rest**2 / (1 - leverage))[:, None]).T @ matrix
    assert result.error[0, -1] == pytest.approx(np.sqrt((bread @ meat @ bread)[1, 1]), rel=1e-8)
    line = stats.linregress(x, SHARES[:, 0])
    assert result.mean[0, -1] == pytest.approx(line.slope, rel=1e-9)


def test_one_alone_in_its_group_has_the_variance_of_all():
    group = np.array(["a"] * 10 + ["b"])
    shares = RNG.random((11, 1))
    result = regressed({"g": group}, shares)
    assert result.error[0, 1] == pytest.approx(np.sqrt(shares[:10].var(ddof=1)), rel=1e-9)
    assert result.mean[0, 1] == pytest.approx(shares[10, 0])


def test_few_shares_at_once_are_all_of_them(monkeypatch):
    whole = regressed({"g": GROUP}, np.tile(SHARES, 4))
    monkeypatch.setattr(composition, "_NUMBERS", 3 * len(SHARES))
    parts = regressed({"g": GROUP}, np.tile(SHARES, 4))
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(parts.error, whole.error, rtol=1e-12)


def test_one_draw_has_the_law_of_student():
    result = composition.pool([[0.3]], [[0.1]], 5, level=0.9)
    lower, upper = stats.t.interval(0.9, 5, 0.3, 0.1)
    assert (result.lower[0], result.upper[0]) == pytest.approx((lower, upper), rel=1e-10)
    assert result.sd[0] == pytest.approx(stats.t.std(5, 0, 0.1), rel=1e-10)


def pooled_p_values(seed, means, errors, freedom, result):
    """A coefficient is drawn for each of 200,000 draws of the shares, and judged by the pool."""
    rng = np.random.default_rng(seed)
    number = 200_000
    chosen = rng.integers(0, len(means), number)
    drawn = means[chosen] + errors[chosen] * rng.standard_t(freedom, number)
    inside = ((drawn > result.lower) & (drawn < result.upper)).mean()
    below = (drawn < result.lower).mean()
    z = (drawn.mean() - result.mean[0]) / result.sd[0] * np.sqrt(number)
    return {
        "mean": 2 * stats.norm.sf(abs(z)),
        "inside": stats.binomtest(round(inside * number), number, 0.8).pvalue,
        "below": stats.binomtest(round(below * number), number, 0.1).pvalue,
    }


def test_a_pool_is_the_mixture_that_coefficients_are_drawn_from(seed):
    """False alarm 1e-3 for the family; a pool of normal laws of the same moments is seen."""
    means = np.array([0.0, 0.0, 0.1, 3.0])
    errors = np.array([0.1, 0.5, 0.2, 1.0])
    result = composition.pool(means[:, None], errors[:, None], 7, level=0.8)
    assert not checks.family(pooled_p_values(seed, means, errors, 7, result))
    reach = stats.norm.ppf(0.9) * result.sd
    normal = result._replace(lower=result.mean - reach, upper=result.mean + reach)
    assert checks.family(pooled_p_values(seed, means, errors, 7, normal))


def test_draws_that_do_not_count_are_left_out():
    result = composition.pool([[0.1], [np.nan], [0.4]], [[0.1], [0.1], [0.2]], 9)
    alone = composition.pool([[0.1], [0.4]], [[0.1], [0.2]], 9)
    for one, other in zip(result, alone, strict=True):
        np.testing.assert_array_equal(one, other)


def test_shares_that_never_vary_have_intervals_of_no_width():
    result = composition.pool(np.ones((3, 1)), np.zeros((3, 1)), 9)
    assert [value[0] for value in result] == [1, 0, 1, 1]


def test_terms_of_a_pool_have_their_own_degrees_of_freedom():
    result = composition.pool([[0.3, 0.3]], [[0.1, 0.1]], [5, 50])
    for place, freedom in enumerate((5, 50)):
        lower, upper = stats.t.interval(0.95, freedom, 0.3, 0.1)
        ends = result.lower[place], result.upper[place]
        assert ends == pytest.approx((lower, upper), rel=1e-10)


def test_bad_levels_and_freedoms_are_refused():
    for level in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match="level"):
            composition.pool([[0.0]], [[1.0]], 9, level=level)
    with pytest.raises(ValueError, match="freedom"):
        composition.pool([[0.0]], [[1.0]], 2)


def test_a_term_that_is_0_has_no_error():
    groups = np.kron(np.eye(2), np.ones((4, 1))) / 2
    result = composition.Regression(groups, [[0.0, 0.0], [0.5, 0.0]]).of(np.arange(8.0)[:, None])
    assert result.error[0, 0] == 0
    assert np.isfinite(result.freedom).all()
