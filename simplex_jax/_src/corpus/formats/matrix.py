"""Matrices of counts in files: words and names, orientation and assembly."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import Corpus, error_at, from_counts, printable
from simplex_jax._src.corpus.files import MAX_UNUSED
from simplex_jax._src.corpus.reading import Reading
from simplex_jax._src.corpus.vocabulary import is_dictionary, numbered, read_names, read_vocabulary


def corpus_of(
    table: sp.sparray,
    path: Path,
    reading: Reading,
    words: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    *,
    first: int = 0,
) -> Corpus:
    """Make a corpus from the matrix in a file, with the words and names that the options give.

    `words` and `names` are the file's own labels of columns and rows, if any. Documents without
    names are numbered from `first`.
    """
    if reading.transpose:
        table, words, names = table.T, names, words
    if reading.vocabulary is not None:
        table, words = with_words(table, reading.vocabulary)
    if reading.names is not None:
        names = read_names(reading.names)
    documents, columns = table.shape
    check_length(path, reading, "words in the vocabulary", words, "columns", columns, documents)
    check_length(path, reading, "names", names, "documents", documents, columns)
    if documents > table.nnz + MAX_UNUSED:
        raise error_at(path, f"{documents} documents, {table.nnz} entries", "check the shape")
    if words is None and columns > table.nnz + MAX_UNUSED:
        raise error_at(path, f"{columns} words, {table.nnz} entries", "give a vocabulary")
    if names is None:
        names = numbered(documents, first)
    return from_counts(table, words, names, source=str(path))


def with_words(table: sp.sparray, vocabulary: str | Path) -> tuple[sp.sparray, tuple[str, ...]]:
    """Return a matrix and the words in a file, with columns for all words of gensim's dictionary.

    gensim's corpora end at the last word that they have.
    """
    words = read_vocabulary(vocabulary)
    if len(words) > table.shape[1] and is_dictionary(vocabulary):
        entries = sp.coo_array(table)
        entries.resize(table.shape[0], len(words))
        table = entries
    return table, words


def check_length(
    path: Path,
    reading: Reading,
    what: str,
    labels: Sequence[str] | None,
    unit: str,
    expected: int,
    other: int | None = None,
) -> None:
    """Raise a CorpusError unless there is one label (`what`: words or names) for each unit.

    There are `expected` units. If there are `other` labels, the number of units of the transposed
    matrix, the message suggests to transpose.
    """
    if labels is None or len(labels) == expected:
        return
    remedy = "give the file that belongs to these counts"
    if len(labels) == other:
        remedy = (
            "leave --transpose (transpose=True) out"
            if reading.transpose
            else "words are in rows: give --transpose (transpose=True)"
        )
    raise error_at(path, f"{len(labels)} {what} for {expected} {unit}", remedy)


def assembled(
    layout: str,
    shape: np.ndarray,
    parts: tuple[np.ndarray, np.ndarray, np.ndarray],
    path: Path,
    remedy: str,
) -> sp.sparray:
    """Return a sparse array from its parts, or raise a CorpusError.

    The layout is `csr`, `csc` or `coo`; the parts are the values, then indices and pointers, or
    rows and columns.
    """
    data, first, second = parts
    if data.dtype.kind not in "biuf" or any(
        array.dtype.kind not in "iu" for array in (shape, first, second)
    ):
        raise error_at(path, "arrays of the wrong types", remedy)
    sizes = tuple(shape.ravel().tolist())
    if len(sizes) != 2 or min(sizes) < 1:
        problem = f"the shape is {printable(sizes)}"
        raise error_at(path, problem, "give documents in rows, words in columns")
    try:
        if layout == "coo":
            return sp.coo_array((data, (first, second)), shape=sizes)
        return getattr(sp, f"{layout}_array")((data, first, second), shape=sizes)
    except (ValueError, TypeError, OverflowError) as error:
        raise error_at(path, f"inconsistent arrays ({printable(error)})", remedy) from None
