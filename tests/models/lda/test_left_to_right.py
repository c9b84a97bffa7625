"""Probabilities of documents from left to right, against the sum over all labels."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax import lda
from simplex_jax.models.lda import probability as module

TOPICS = np.array([[0.6, 0.3, 0.05, 0.05], [0.05, 0.15, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]])
ALPHA = np.array([0.1, 0.2, 0.3])
COUNTS = sp.csr_array([[3, 1, 2, 0], [0, 0, 0, 0], [1, 0, 0, 0], [2, 1, 1, 2]])
SEEDS = 40


def exact(row):
    """p(w), the sum over the labels of all tokens."""
    tokens, total = np.repeat(np.arange(row.size), row), 0.0
    for labels in itertools.product(range(3), repeat=tokens.size):
        counts = np.bincount(labels, minlength=3) if tokens.size else np.zeros(3)
        log_p = math.lgamma(ALPHA.sum()) - math.lgamma(ALPHA.sum() + tokens.size)
        log_p += sum(map(math.lgamma, ALPHA + counts)) - sum(map(math.lgamma, ALPHA))
        total += math.exp(log_p) * np.prod(TOPICS[list(labels), tokens])
    return total


P = np.array([exact(row) for row in COUNTS.toarray()])


def ratios(**options):
    """Estimates of p over p, by seed: independent, with the mean 1."""
    result = [
        lda.left_to_right(TOPICS, ALPHA, COUNTS, seed=seed, **options) for seed in range(SEEDS)
    ]
    return np.exp([one.log_p for one in result]) / P, np.array([one.error for one in result])


def scores(ratios):
    """Deviations of the means from 1 in standard errors, of documents of more than a token."""
    some = ratios[:, [0, 3]]
    return (some.mean(axis=0) - 1) / (some.std(axis=0, ddof=1) / math.sqrt(SEEDS))


@pytest.mark.parametrize("sweeps", [False, True])
@pytest.mark.parametrize("particles", [4, 200])
def test_estimates_are_unbiased(sweeps, particles):
    """A false alarm in each of 4 cases of 2 documents once in 3,000: |t| of 39 degrees above 4.

    With 4 particles, one in each group, nothing is chosen and it is importance sampling.
    """
    result, errors = ratios(particles=particles, sweeps=sweeps)
    assert (abs(scores(result)) < 4).all(), scores(result)
    np.testing.assert_allclose(result[:, 1:3], 1, rtol=1e-6)  # no token, and one
    spread = result[:, [0, 3]].std(axis=0)
    np.testing.assert_allclose(np.sqrt((errors[:, [0, 3]] ** 2).mean(axis=0)), spread, rtol=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "sweeps"),
    [("as printed", False), ("as printed", True), ("own token", False)],
)
def test_mutants_are_biased(mutant, sweeps, monkeypatch):
    """Particles that fit badly and count like others, and a token that counts before its turn."""
    if mutant == "as printed":
        monkeypatch.setattr(
            module, "_ancestors", lambda key, p: jnp.zeros(p.shape, int) + jnp.arange(p.shape[-1])
        )
    else:
        choose = module.choose
        monkeypatch.setattr(module, "choose", lambda weights, u: choose(weights**2, u))
    jax.clear_caches()
    result, _ = ratios(particles=1000, sweeps=sweeps)
    jax.clear_caches()
    assert (abs(scores(result)) > 4).any(), scores(result)


@pytest.mark.slow
def test_sweeps_make_the_error_smaller():
    _, without = ratios(particles=40)
    _, swept = ratios(particles=40, sweeps=True)
    assert np.mean(swept[:, 0] ** 2) < np.mean(without[:, 0] ** 2)


def test_a_long_document_among_short_ones(monkeypatch):
    """Lengths decide what is drawn together, and not the result: few documents fit the room."""
    counts = sp.csr_array([[2, 1, 0, 0], [40, 30, 10, 20], [1, 2, 0, 0], [0, 0, 1, 2]])
    lengths = counts.sum(axis=1)
    monkeypatch.setattr(module, "_ROOM", 600)
    shapes, groups = [], module._groups
    monkeypatch.setattr(
        module,
        "_groups",
        lambda key, weights, alpha, words, *rest, **options: (
            shapes.append(words.shape) or groups(key, weights, alpha, words, *rest, **options)
        ),
    )
    result = lda.left_to_right(TOPICS, ALPHA, counts, particles=20)
    assert shapes == [(3, 4), (1, 128)]
    assert np.isfinite(result.log_p).all()
    assert (result.log_p < 0).all()
    assert result.log_p[1] / lengths[1] > np.log(0.1)


def test_words_that_no_topic_has_and_bad_arguments():
    topics = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
    result = lda.left_to_right(topics, 0.5, sp.csr_array([[1, 1, 1], [1, 1, 0]]))
    assert result.log_p[0] == -np.inf
    assert np.isfinite(result.log_p[1])
    assert np.isfinite(result.error).all()
    value, error = result._replace(log_p=np.log([0.5, 0.5]), error=np.array([0.3, 0.4])).perplexity(
        [1, 1]
    )
    assert (value, error) == (pytest.approx(2), pytest.approx(0.5))
    with pytest.raises(ValueError, match="documents have no token"):
        result.perplexity([0, 0])
    with pytest.raises(ValueError, match="particles must be an integer of at least 4"):
        lda.left_to_right(topics, 0.5, sp.csr_array([[1, 0, 0]]), particles=3)
    with pytest.raises(ValueError, match="row 0 sums to 5, not to 1"):  # it had p(documents) > 1
        lda.left_to_right(topics * [[5], [2]], 0.5, sp.csr_array([[1, 0, 0]]))
    with pytest.raises(ValueError, match="have 2 words and the topics 3"):
        lda.left_to_right(topics, 0.5, sp.csr_array([[1, 0]]))
    with pytest.raises(ValueError, match="seed must be at most 4294967295"):
        lda.left_to_right(topics, 0.5, sp.csr_array([[1, 0, 0]]), seed=2**32)
    with pytest.raises(ValueError, match="alpha"):
        lda.left_to_right(topics, 0.0, sp.csr_array([[1, 0, 0]]))
