"""Coherence by hand and against gensim's; diversity."""

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src.corpus import from_counts
from simplex_jax._src.evaluate import coherence

WORDS = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 2, 4, 7], [3, 0, 6, 1]]


def corpus():
    document, word = np.ogrid[:40, :9]
    present = (document * (word + 2) + document // 7) % 11 < 3 + word % 3
    return sp.csr_array(np.where(present, 1 + (document + word) % 3, 0))


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("u_mass", [-0.8222409426, -0.9562213434, -0.8327900843, -0.7273346882]),
        ("npmi", [0.0324410339, -0.0045467379, 0.0217056753, 0.0440604833]),
        ("c_v", [0.547036869, 0.4923376256, 0.531352134, 0.5546261193]),
    ],
)
def test_as_gensim(measure, expected):
    """CoherenceModel of gensim 4.4.0: u_mass, c_npmi and c_v with a window over whole documents.

    Its constant EPSILON was set to 1 / D for u_mass, which is the + 1 of the definition, and to
    1e-300 for the others (every pair here occurs together).
    """
    result = coherence.coherence(WORDS, corpus(), measure=measure)
    np.testing.assert_allclose(result, expected, rtol=1e-8)


def test_by_hand():
    counts = sp.csr_array([[1, 1, 0, 2], [0, 3, 0, 1], [1, 1, 0, 1], [0, 0, 0, 1], [0, 0, 5, 1]])
    pair = [[0, 1], [0, 2], [0, 3], [1, 3]]
    result = coherence.coherence(pair, counts)
    for given in (from_counts(counts), counts.toarray(), counts.toarray().tolist()):
        np.testing.assert_array_equal(coherence.coherence(pair, given), result)
    half = np.log(0.4 / (0.4 * 0.6)) / -np.log(0.4)
    np.testing.assert_allclose(result, [half, -1, 0, 0], atol=1e-15)
    result = coherence.coherence(pair, counts, measure="u_mass")
    np.testing.assert_allclose(result, np.log([3 / 2, 1 / 2, 3 / 2, 4 / 3]))
    # Two words with NPMI x: both cosines are (1 + x)^2 / sqrt(1 + x^2) / sqrt(2 (1 + x)^2).
    result = coherence.coherence(pair[:2], counts, measure="c_v")
    np.testing.assert_allclose(result, [(1 + half) / np.sqrt(2 * (1 + half**2)), 0], atol=1e-15)


@pytest.mark.parametrize("measure", coherence.MEASURES)
def test_words_that_always_come_together(measure):
    result = coherence.coherence([[0, 1, 2]], sp.csr_array(np.ones((5, 3), int)), measure=measure)
    np.testing.assert_allclose(result, np.log(6 / 5) if measure == "u_mass" else 1)


@pytest.mark.parametrize("measure", coherence.MEASURES)
def test_words_in_no_document_are_left_out(measure):
    counts = sp.csr_array([[1, 1, 0], [0, 1, 0], [1, 1, 0]])
    result = coherence.coherence([[0, 2, 1], [2, 0, 1]], counts, measure=measure)
    np.testing.assert_array_equal(
        result, np.repeat(coherence.coherence([[0, 1]], counts, measure=measure), 2)
    )
    counts = sp.csr_array([[1, 0, 0], [1, 0, 0]])
    assert np.isnan(coherence.coherence([[0, 1, 2]], counts, measure=measure)).all()


def test_topics_are_looked_at_through_their_top_words():
    counts = corpus()
    topics = np.random.default_rng(0).dirichlet(np.full(9, 0.3), 4)
    words = np.argsort(-topics, axis=1)
    for top in (3, 9, 50):
        np.testing.assert_array_equal(
            coherence.coherence(topics, counts, top=top),
            coherence.coherence(words[:, :top], counts),
        )


def test_entries_stored_twice_or_as_zero_do_not_count():
    good = sp.csr_array([[2, 1, 0], [1, 0, 1], [0, 1, 1]])
    data, indices = [1, 1, 1, 0, 1, 1, 1, 1], [0, 0, 1, 2, 0, 2, 1, 2]
    odd = sp.csr_array((data, indices, [0, 4, 6, 8]), shape=(3, 3))
    words = [[0, 1, 2]]
    assert coherence.coherence(words, odd) == coherence.coherence(words, good)
    assert odd.nnz == 8, "the argument is left as it was"


def test_top_words_with_ties():
    rng = np.random.default_rng(1)
    topics = rng.integers(1, 5, (6, 30)) / 4
    for top in (1, 7, 30, 99):
        result = coherence.top_words(topics, top)
        np.testing.assert_array_equal(result, np.argsort(-topics, axis=1, kind="stable")[:, :top])


def test_diversity():
    topics = np.array([[4, 3, 2, 1, 0], [4, 3, 0, 1, 2], [0, 0, 0, 0, 10.0]])
    assert coherence.diversity(topics, top=2) == 0.5
    assert coherence.diversity(np.ones((3, 4)), top=2) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((WORDS,), {"measure": "c_w2v"}, r"^measure .*'c_w2v'$"),
        ((np.full((2, 8), 0.1),), {}, "topics have 8 words and counts 9"),
        ((np.full((2, 9), 0.1),), {"top": 1}, r"top .* 2"),
        (([[0, 9]],), {}, "from 0 to 8"),
        (([[-1, 2]],), {}, "from 0 to 8"),
        (([[2, 2]],), {}, "must not repeat"),
        (([[2]],), {}, "n at least 2"),
        (([1, 2],), {}, "n at least 2"),
        (([[0.5] * 8 + [np.nan]],), {}, r"^topics: row 0 .*finite"),
        (([0.5, 0.5],), {}, r"topics .* \[K, V\]"),
    ],
)
def test_bad_arguments(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        coherence.coherence(*arguments, corpus(), **options)
