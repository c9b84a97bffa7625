"""The embedded corpus: the same on every machine."""

import numpy as np

from simplex_jax._src.corpus import TextOptions, digest, embedded_corpus

DIGEST = "524ac3bafaef75b125a71716204c2fe6267a701555b08190052d834b1a020ead"


def test_the_embedded_corpus_is_the_same_everywhere():
    corpus = embedded_corpus()
    assert corpus.counts.shape == (9743, 3515)
    assert int(corpus.counts.sum()) == 206_139
    assert digest(corpus) == DIGEST
    assert {"freedom", "soviet", "farmers", "tax"} <= set(corpus.vocabulary)


def test_names_are_years_and_numbers():
    everything = TextOptions(token_pattern=r"\S+", stop_words="none", min_df=1, max_df=1.0)
    corpus = embedded_corpus(everything)
    years = np.array([int(name.split("-")[0]) for name in corpus.names])
    assert (years.min(), years.max()) == (1914, 2009)
    assert len(set(corpus.names)) == len(corpus.names)
    assert (np.diff(corpus.counts.indptr) > 0).all()


def test_other_limits():
    assert len(embedded_corpus(TextOptions(min_df=50)).vocabulary) < 1500
