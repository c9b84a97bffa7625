"""Corpora: word counts of documents from arrays, text and files, and the embedded corpus."""

from simplex_jax._src.corpus.corpus import MAX_COUNT, Corpus, CorpusError, digest, from_counts
from simplex_jax._src.corpus.embedded import EMBEDDED_OPTIONS, embedded_corpus, embedded_years
from simplex_jax._src.corpus.formats import FORMATS
from simplex_jax._src.corpus.readers import (
    convert,
    read,
    read_columns,
    read_texts,
    read_vectors,
    reordered,
    resolve,
)
from simplex_jax._src.corpus.reading import Metadata, Reading, VectorReading
from simplex_jax._src.corpus.split import holdout, split_tokens
from simplex_jax._src.corpus.text import TextOptions, from_texts, tokens
from simplex_jax._src.corpus.vocabulary import (
    Mapped,
    drop_words,
    read_vocabulary,
    same_words,
    to_vocabulary,
)
