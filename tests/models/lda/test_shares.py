"""Draws of the shares of documents have their posterior law, and are independent."""

import itertools

import jax
import numpy as np
import pytest
import scipy.sparse as sp
from support import statistics_checks as checks
from support.marks import slow_but
from support.native_sweeps import needs

from simplex_jax._src.models.lda.draws import ProportionDraws, draw_key

TOPICS = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], np.float32)
ALPHA = np.array([0.5, 0.8])
WORDS = [0, 0, 1, 2]
COPIES = 20_000


def labels_of(words):
    """Probabilities of the numbers of tokens in the first topic, by enumeration."""
    result = np.zeros(len(words) + 1)
    for z in itertools.product(range(2), repeat=len(words)):
        n, weight = np.zeros(2), 1.0
        for topic, word in zip(z, words, strict=True):
            weight *= (ALPHA[topic] + n[topic]) * TOPICS[topic, word]
            n[topic] += 1
        result[int(n[0])] += weight
    return result / result.sum()


def moments():
    """Mean and variance of the first share, and its fourth moment about the mean."""
    p, a = labels_of(WORDS), ALPHA[0] + np.arange(5)
    total = ALPHA.sum() + 4
    raw = np.ones(5)
    powers = []
    for order in range(4):
        raw = raw * (a + order) / (total + order)
        powers.append(p @ raw)
    one, two, three, four = powers
    fourth = four - 4 * one * three + 6 * one**2 * two - 3 * one**4
    return one, two - one**2, fourth


def p_values(share):
    mean, variance, fourth = moments()
    x = share.astype(np.float64)
    return {
        "mean": checks.mean_z(x, mean, variance),
        "variance": checks.variance_z(x, mean, variance, fourth),
        # Of the same words, and neighbours: independent all the same.
        "neighbours": checks.mean_z((x[1:] - mean) * (x[:-1] - mean), 0.0, variance**2),
    }


def counts_of(copies):
    row = np.bincount(WORDS, minlength=3)
    return sp.csr_array(np.tile(row, (copies, 1)).astype(np.int32))


@pytest.mark.parametrize("engine", slow_but(["native", "xla"], "native"))
def test_the_law_is_that_of_enumeration(engine, seed):
    """False alarm 1e-3 for the family; means in place of draws, and one number for all, fail."""
    needs(engine)
    shares = ProportionDraws(counts_of(COPIES), sweeps=25, engine=engine)
    drawn = shares.draw(draw_key(seed, 0), TOPICS, ALPHA)
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.sum(axis=1), 1, rtol=1e-5)
    assert not checks.family(p_values(drawn[:, 0]))
    n = np.random.default_rng(seed).choice(5, COPIES, p=labels_of(WORDS))
    given_labels = (ALPHA[0] + n) / (ALPHA.sum() + 4)
    assert "variance" in checks.family(p_values(given_labels))
    assert "neighbours" in checks.family(p_values(np.repeat(drawn[: COPIES // 50, 0], 50)))


def test_draws_of_other_numbers_and_seeds_differ_and_the_same_are_the_same():
    shares = ProportionDraws(counts_of(30), sweeps=3)
    first = shares.draw(draw_key(1, 0), TOPICS, ALPHA)
    np.testing.assert_array_equal(first, shares.draw(draw_key(1, 0), TOPICS, ALPHA))
    for key in (draw_key(1, 1), draw_key(2, 0)):
        assert (abs(first - shares.draw(key, TOPICS, ALPHA)).max(axis=1) > 1e-4).mean() > 0.9


def test_documents_are_where_they_were_in_shards_of_any_size(monkeypatch):
    """Documents of sizes in no order, a few at a time: each has the shares of its own words."""
    monkeypatch.setattr("simplex_jax._src.models.lda.draws.SHARD", 4)
    rows = [[60, 0, 0], [0, 0, 3], [0, 0, 90], [9, 0, 0], [0, 0, 30], [80, 0, 0]]
    clear = np.array([[0.98, 0.01, 0.01], [0.01, 0.01, 0.98]])
    shares = ProportionDraws(sp.csr_array(np.array(rows, np.int32)), sweeps=10)
    drawn = shares.draw(jax.random.key(0), clear, np.array([0.01, 0.01]))
    assert drawn.argmax(axis=1).tolist() == [0, 1, 1, 0, 1, 0]
