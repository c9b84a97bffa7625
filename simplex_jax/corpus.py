"""Corpora: word counts of documents from arrays, text and files, and the embedded corpus.

`read` takes a file or folder of texts or counts, `from_texts` a list of texts, and `from_counts` a
table of counts; `convert` writes a large file to disk for `open_store`. Each gives what `lda.fit`
takes.
"""

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
