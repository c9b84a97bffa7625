"""Corpora: word counts of documents from arrays, text and files, and the embedded corpus."""

from simplex_jax._src.corpus import (
    Corpus,
    TextOptions,
    convert,
    embedded_corpus,
    embedded_years,
    from_counts,
    from_texts,
    holdout,
    read,
    tokens,
)
from simplex_jax._src.corpus.store import open as open_store
from simplex_jax._src.corpus.vectors import cut

__all__ = [
    "Corpus",
    "TextOptions",
    "convert",
    "cut",
    "embedded_corpus",
    "embedded_years",
    "from_counts",
    "from_texts",
    "holdout",
    "open_store",
    "read",
    "tokens",
]


def __dir__() -> list[str]:
    return __all__
