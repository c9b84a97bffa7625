"""Probabilities of documents from left to right, against sums over all labels or topic counts."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special

from simplex_jax._src.models import lda
from simplex_jax._src.models.lda import probability as module

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


def log_mean(estimates):
    return special.logsumexp(estimates, axis=1) - math.log(estimates.shape[1])


def ratios(monkeypatch, **options):
    """Means of the groups' estimates of p over p, by seed: independent, with the mean 1."""
    monkeypatch.setattr(module, "_combined", lambda e: (log_mean(e), *np.zeros((2, len(e)))))
    result = [
        lda.left_to_right(TOPICS, ALPHA, COUNTS, seed=seed, **options) for seed in range(SEEDS)
    ]
    return np.exp([one.log_p for one in result]) / P


def scores(ratios):
    """Deviations of the means from 1 in standard errors, of documents of more than a token."""
    some = ratios[:, [0, 3]]
    return (some.mean(axis=0) - 1) / (some.std(axis=0, ddof=1) / math.sqrt(SEEDS))


@pytest.mark.parametrize("moves", [0, 2, 6])
@pytest.mark.parametrize("particles", [8, 200])
def test_estimates_of_groups_are_unbiased(moves, particles, monkeypatch):
    """A false alarm in each of 6 cases of 2 documents once in 3,000: |t| of 39 degrees above 4.

    With 8 particles, one in each group, nothing is chosen and it is importance sampling.
    """
    result = ratios(monkeypatch, particles=particles, moves=moves)
    assert (abs(scores(result)) < 4).all(), scores(result)
    np.testing.assert_allclose(result[:, 1:3], 1, rtol=1e-6)  # no token, and one


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "moves"),
    [("as printed", 0), ("as printed", 6), ("own token", 0), ("own label", 6)],
)
def test_mutants_are_biased(mutant, moves, monkeypatch):
    """Particles that fit badly and count like others, weights squared, a label that counts itself.

    The last is a move that draws a label given all labels, with its own.
    """
    if mutant == "as printed":
        monkeypatch.setattr(
            module, "_ancestors", lambda key, p: jnp.zeros(p.shape, int) + jnp.arange(p.shape[-1])
        )
    elif mutant == "own token":
        choose = module.choose
        monkeypatch.setattr(module, "choose", lambda weights, u: choose(weights**2, u))
    else:
        change = module._changed
        monkeypatch.setattr(
            module,
            "_changed",
            lambda counts, label, by: change(counts, label, jnp.maximum(by, 0)),
        )
    jax.clear_caches()
    result = ratios(monkeypatch, particles=1000, moves=moves)
    jax.clear_caches()
    assert (abs(scores(result)) > 4).any(), scores(result)


def documents_of(topics, alpha, documents, length, seed):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(len(topics), alpha), documents)
    return sp.csr_array(rng.multinomial(length, shares @ topics))


def summed(topics, alpha, row):
    """log p(w) of a document, the sum over the numbers of its tokens in each topic.

    The weight of the numbers n is the coefficient of x^n in the product over tokens of
    sum_k topics[k, w] x_k, here with x_1 = 1.
    """
    numbers, tokens = len(topics), np.repeat(np.arange(row.size), row)
    table, shift = np.ones((1,) * (numbers - 1)), 0.0
    for word in tokens:
        grown = np.pad(table * topics[0, word], [(0, 1)] * table.ndim)
        for k in range(1, numbers):
            place = tuple(slice(int(k == j), int(k == j) - 1 or None) for j in range(1, numbers))
            grown[place] += table * topics[k, word]
        scale = grown.max()
        table, shift = grown / scale, shift + math.log(scale)
    counts = np.indices(table.shape)
    first = tokens.size - counts.sum(axis=0)
    with np.errstate(divide="ignore"):
        logs = np.where(first >= 0, np.log(table), -np.inf)
    for count in (np.maximum(first, 0), *counts):
        logs = logs + special.gammaln(alpha + count) - math.lgamma(alpha)
    total = numbers * alpha
    return shift + special.logsumexp(logs) + math.lgamma(total) - math.lgamma(total + tokens.size)


def test_the_sum_over_topic_counts_is_that_over_labels():
    row = np.array([2, 1, 1, 2])
    uniform = [
        math.exp(
            math.lgamma(0.6)
            - math.lgamma(6.6)
            + sum(map(math.lgamma, 0.2 + np.bincount(labels, minlength=3)))
            - 3 * math.lgamma(0.2)
        )
        * np.prod(TOPICS[list(labels), np.repeat(np.arange(4), row)])
        for labels in itertools.product(range(3), repeat=6)
    ]
    assert summed(TOPICS, 0.2, row) == pytest.approx(math.log(sum(uniform)), abs=1e-10)


def judged(topics, alpha, documents, truth, seeds, **options):
    """Deviations of log p in stated errors [seeds, D], and of the perplexities, [seeds]."""
    lengths = documents.sum(axis=1)
    right = math.exp(-truth.sum() / lengths.sum())
    deviations, perplexities = [], []
    for seed in range(seeds):
        result = lda.left_to_right(topics, alpha, documents, seed=seed, **options)
        deviations.append((result.log_p - truth) / result.error)
        value, error = result.perplexity(lengths)
        perplexities.append((value - right) / error)
    return np.array(deviations), np.array(perplexities)


def are_right(deviations, perplexities):
    """Whether at least 80% of log p are within two stated errors, and all perplexities in 3.5."""
    return np.mean(abs(deviations) < 2) > 0.8 and max(abs(perplexities)) < 3.5


@pytest.mark.slow
@pytest.mark.parametrize("topics", [2, 3, 4], ids=lambda k: f"K={k}")
def test_errors_are_those_of_exact_sums(topics):
    """Documents of 100 tokens, few particles; perplexities at 3.5 errors alarm once in 2,000."""
    rows = np.random.default_rng(topics).dirichlet(np.full(60, 0.2), topics)
    documents = documents_of(rows, 0.1, {2: 10, 3: 20, 4: 6}[topics], 100, topics)
    truth = np.array([summed(rows, 0.1, row) for row in documents.toarray()])
    for particles in (32, 256):
        assert are_right(*judged(rows, 0.1, documents, truth, 4, particles=particles))


def by_spread(estimates):
    """The error of the mean over groups relative to it, as if the logarithm had no bias."""
    shares = special.softmax(estimates, axis=1) * estimates.shape[1]
    error = shares.std(axis=1, ddof=1) / math.sqrt(estimates.shape[1])
    return log_mean(estimates), error, np.zeros(len(estimates))


@pytest.mark.slow
@pytest.mark.parametrize(("topics", "alpha"), [(20, 0.05), (50, 0.02)])
def test_errors_are_those_of_many_particles(topics, alpha, monkeypatch):
    """With the default and with few particles, against 8,000; the error without bias must fail."""
    rows = np.random.default_rng(0).dirichlet(np.full(300, 0.1), topics)
    documents = documents_of(rows, alpha, 30, 100, 1)
    truth = lda.left_to_right(rows, alpha, documents, particles=8000, seed=99).log_p
    for particles in (32, 256):
        assert are_right(*judged(rows, alpha, documents, truth, 4, particles=particles))
    monkeypatch.setattr(module, "_combined", by_spread)
    assert not are_right(*judged(rows, alpha, documents, truth, 4, particles=32))


@pytest.mark.slow
def test_moves_make_the_error_smaller():
    rows = np.random.default_rng(0).dirichlet(np.full(300, 0.1), 20)
    documents = documents_of(rows, 0.05, 20, 100, 1)
    errors = [
        lda.left_to_right(rows, 0.05, documents, particles=64, moves=moves).error
        for moves in (0, 8, 100)
    ]
    sizes = [np.mean(error**2) for error in errors]
    assert sizes[2] < sizes[1] < sizes[0] / 2


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
    result = lda.left_to_right(TOPICS, ALPHA, counts, particles=24)
    assert shapes == [(3, 4), (1, 128)]
    assert np.isfinite(result.log_p).all()
    assert (result.log_p < 0).all()
    assert result.log_p[1] / lengths[1] > np.log(0.1)


@pytest.mark.slow
def test_words_that_no_topic_has_and_bad_arguments():
    topics = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
    result = lda.left_to_right(topics, 0.5, sp.csr_array([[1, 1, 1], [1, 1, 0]]))
    assert result.log_p[0] == -np.inf
    assert np.isfinite(result.log_p[1])
    assert np.isfinite(result.error).all()
    two = result._replace(log_p=np.log([0.5, 0.5]), error=np.array([0.3, 0.4]), bias=np.zeros(2))
    assert two.perplexity([1, 1]) == (pytest.approx(2), pytest.approx(0.5))
    biased = two._replace(error=np.array([0.5, 0.5]), bias=np.array([0.4, 0.3]))
    assert biased.perplexity([1, 1])[1] == pytest.approx(0.5 + 0.7)  # biases add up
    with pytest.raises(ValueError, match=r"^documents "):
        result.perplexity([0, 0])
    with pytest.raises(ValueError, match=r"particles .* 8"):
        lda.left_to_right(topics, 0.5, sp.csr_array([[1, 0, 0]]), particles=7)
    with pytest.raises(ValueError, match=r"moves .* 0"):
        lda.left_to_right(topics, 0.5, sp.csr_array([[1, 0, 0]]), moves=-1)
    with pytest.raises(ValueError, match="row 0 sums to 5, not to 1"):  # it had p(documents) > 1
        lda.left_to_right(topics * [[5], [2]], 0.5, sp.csr_array([[1, 0, 0]]))
    with pytest.raises(ValueError, match=r"2 words .* 3: "):
        lda.left_to_right(topics, 0.5, sp.csr_array([[1, 0]]))
    with pytest.raises(ValueError, match=r"seed .* 4294967295"):
        lda.left_to_right(topics, 0.5, sp.csr_array([[1, 0, 0]]), seed=2**32)
    with pytest.raises(ValueError, match="alpha"):
        lda.left_to_right(topics, 0.0, sp.csr_array([[1, 0, 0]]))
