"""Coherence over sliding windows, by the definition, and what is refused."""

import sys

import numpy as np
import pytest

from simplex_jax._src.evaluate import coherence
from simplex_jax._src.evaluate.windows import coherence_in_windows

WORDS = ["bread", "moon", "salt", "sun", "tide"]
TEXTS = [
    ["sun", "moon", "tide", "the", "bread"],
    ["moon", "sun"],
    ["bread", "salt", "the", "the", "moon"],
    ["salt", "bread", "sun"],
    [],
]


@pytest.fixture
def gensim():
    pytest.importorskip("gensim")


def npmi(first, second, window):
    """From the definition: windows of one text, of which a short text is one."""
    runs = [
        set(text[i : i + window])
        for text in TEXTS
        for i in range(max(1, len(text) - window + 1))
        if text
    ]
    p, q = (np.mean([word in run for run in runs]) for word in (first, second))
    both = np.mean([first in run and second in run for run in runs])
    return np.log((both + 1e-12) / (p * q)) / -np.log(both + 1e-12)


@pytest.mark.parametrize("window", [2, 3, 10])
def test_npmi_is_that_of_the_definition(gensim, window):
    pairs = [[0, 2], [1, 3], [0, 1], [3, 4]]
    result = coherence_in_windows(pairs, TEXTS, WORDS, measure="c_npmi", window=window)
    expected = [npmi(WORDS[a], WORDS[b], window) for a, b in pairs]
    np.testing.assert_allclose(result, expected, atol=1e-9)


def test_a_window_over_whole_texts_is_the_coherence_of_documents(gensim):
    """C_V of topics [K, V], where every text is one window and no pair is never seen together."""
    rng = np.random.default_rng(0)
    counts = (rng.uniform(size=(60, 6)) < 0.6).astype(int)
    words = list("abcdef")
    texts = [[w for w, n in zip(words, row, strict=True) if n] for row in counts]
    topics = rng.dirichlet(np.ones(6), 3)
    whole = coherence.coherence(topics, counts[counts.any(axis=1)], measure="c_v", top=4)
    result = coherence_in_windows(topics, texts, words, measure="c_v", top=4)
    np.testing.assert_allclose(result, whole, atol=1e-6)


def test_words_of_no_text_are_left_out(gensim):
    words = [*WORDS, "comet", "star"]
    topics = [[0, 2, 5], [5, 6, 0]]
    result = coherence_in_windows(topics, TEXTS, words, measure="c_npmi")
    alone = coherence_in_windows([[0, 2]], TEXTS, words, measure="c_npmi")
    np.testing.assert_array_equal(result, [alone[0], np.nan])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"measure": "npmi"}, r"^measure .*c_v, c_npmi"),
        ({"window": 1}, "window must be"),
        ({"texts": [[], []]}, r"^texts "),
        ({"topics": [[0, 9]]}, r"word ids .* 0 to 4"),
    ],
)
def test_what_is_refused(gensim, given, message):
    arguments = {"topics": [[0, 1]], "texts": TEXTS, "vocabulary": WORDS} | given
    with pytest.raises(ValueError, match=message):
        coherence_in_windows(**arguments)


def test_without_gensim_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.corpora", None)
    with pytest.raises(ImportError, match=r"pip install 'simplex-jax\[coherence\]'"):
        coherence_in_windows([[0, 1]], TEXTS, WORDS)
