"""Corpora: word counts of documents, from arrays, text, files, and the documentation installed."""

from simplex_jax.corpus.corpus import MAX_COUNT, Corpus, CorpusError, digest, from_counts
from simplex_jax.corpus.embedded import EMBEDDED_OPTIONS, embedded_corpus
from simplex_jax.corpus.readers import FORMATS, convert, read
from simplex_jax.corpus.split import holdout, split_tokens
from simplex_jax.corpus.stopwords import drop_words
from simplex_jax.corpus.text import TextOptions, from_texts
from simplex_jax.corpus.vocabulary import read_vocabulary

__all__ = [
    "EMBEDDED_OPTIONS",
    "FORMATS",
    "MAX_COUNT",
    "Corpus",
    "CorpusError",
    "TextOptions",
    "convert",
    "digest",
    "drop_words",
    "embedded_corpus",
    "from_counts",
    "from_texts",
    "holdout",
    "read",
    "read_vocabulary",
    "split_tokens",
]
