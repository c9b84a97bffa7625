"""Intervals by the beta law: quantiles, exact coverage, and moments that say nothing."""

import numpy as np
import pytest
from scipy import stats
from support import tiny_lda

from simplex_jax._src.corpus import device
from simplex_jax._src.evaluate.intervals import beta_interval, normal_interval

TAIL = 0.025


def moments(a, b):
    law = stats.beta(a, b)
    return law.mean(), law.std()


@pytest.mark.parametrize(
    ("a", "b"), [(0.05, 400.0), (0.5, 0.5), (3.05, 9000.0), (900.0, 90.0), (1e5, 1e7)]
)
def test_quantiles_of_the_law_whose_moments_they_are(a, b):
    lower, upper = beta_interval(*moments(a, b))
    np.testing.assert_allclose(stats.beta.cdf([lower, upper], a, b), [TAIL, 1 - TAIL], rtol=1e-6)


@pytest.mark.parametrize("mean", [1e-9, 0.01, 0.5, 0.999])
def test_narrow_laws_are_normal(mean):
    """SciPy's quantiles are NaN in the middle of this range."""
    for relative in 10.0 ** -np.arange(4, 16):
        sd = relative * min(mean, 1 - mean)
        lower, upper = beta_interval(mean, sd)
        reach = np.array([mean - lower, upper - mean])
        np.testing.assert_allclose(reach, 1.959964 * sd, rtol=2e-3, atol=2 * np.spacing(mean))


def coverage(posterior, topic, word, scale=1.0):
    """Exact probability of the interval of phi[topic, word] under a mixture of beta laws."""
    a = posterior.a[:, topic, word]
    b = posterior.a[:, topic].sum(axis=1) - a
    p, means = posterior.probabilities, a / (a + b)
    mean = p @ means
    variance = p @ (means * (1 - means) / (a + b + 1) + means**2) - mean**2
    lower, upper = beta_interval(mean, scale * np.sqrt(variance))
    return p @ (stats.beta.cdf(upper, a, b) - stats.beta.cdf(lower, a, b))


def test_coverage_over_an_enumerated_posterior_of_lda():
    """Topics told apart by their priors; 95% is met within 2.5%, and not if sd is 20 % short."""
    corpus = device.to_device(tiny_lda.table([[0, 0, 1, 2], [2, 2, 1], [0, 2]], 3))
    beta = np.array([[4.0, 1.0, 0.5], [0.5, 1.0, 4.0], [1.0, 4.0, 1.0]])
    posterior = tiny_lda.posterior(corpus, np.full(3, 0.7), beta)
    entries = list(np.ndindex(3, 3))
    assert max(abs(coverage(posterior, *entry) - 0.95) for entry in entries) < 0.025
    assert min(abs(coverage(posterior, *entry, 0.8) - 0.95) for entry in entries) > 0.025
    swapping = tiny_lda.posterior(corpus, np.full(3, 0.7), np.full(3, 0.05))
    for entry in entries:
        assert 0.835 < coverage(swapping, *entry) < 0.885  # the figures of the docstring


def test_coverage_from_few_samples():
    """The figures of the docstring; 4,000 repeats, so the standard error is below 0.3%."""
    rng = np.random.default_rng(0)
    for samples, stated in {10: 0.905, 25: 0.93, 100: 0.945}.items():
        x = rng.beta(20, 1000, size=(samples, 4000))
        lower, upper = beta_interval(x.mean(axis=0), x.std(axis=0, ddof=1))
        covered = (stats.beta.cdf(upper, 20, 1000) - stats.beta.cdf(lower, 20, 1000)).mean()
        assert covered == pytest.approx(stated, abs=0.01)


@pytest.mark.parametrize(
    ("mean", "sd", "expected"),
    [
        (0.3, 0.0, (0.3, 0.3)),
        (0.0, 0.0, (0.0, 0.0)),
        (1.0, 0.0, (1.0, 1.0)),
        (0.0, np.nan, (0.0, 1.0)),
        (0.3, np.nan, (0.0, 1.0)),
        (0.5, 0.5, (0.0, 1.0)),
        (0.01, 0.2, (0.0, 1.0)),
        (0.0, 0.1, (0.0, 1.0)),
        (1e-30, 1e-32, (9.8e-31, 1.02e-30)),
    ],
)
def test_edges(mean, sd, expected):
    np.testing.assert_allclose(beta_interval(mean, sd), expected, rtol=1e-3)


def test_no_nan_over_any_moments():
    rng = np.random.default_rng(3)
    mean = np.append(10.0 ** rng.uniform(-40, 0, 20_000), 1 - 10.0 ** rng.uniform(-16, 0, 20_000))
    sd = 10.0 ** rng.uniform(-300, 0, mean.size)
    lower, upper = beta_interval(mean, sd, 0.5)
    assert ((lower >= 0) & (lower <= upper) & (upper <= 1)).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0.1, 0.2], [0.1]), "same shape"),
        ((1.2, 0.1), "mean must be"),
        ((np.nan, 0.1), "mean must be"),
        ((0.1, -0.1), "sd must be"),
        ((0.1, np.inf), "sd must be"),
        ((0.1, 0.1, 95), "level must be"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        beta_interval(*arguments)
    if "mean must be" not in words:
        with pytest.raises(ValueError, match=words):
            normal_interval(*arguments)
