"""What the readers of counts share: words and names of their own files, and which way round."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus.corpus import Corpus, error_at, from_counts, printable
from simplex_jax.corpus.files import MAX_UNUSED
from simplex_jax.corpus.reading import Reading
from simplex_jax.corpus.vocabulary import numbered, read_names, read_vocabulary


def corpus_of(
    table: sp.sparray,
    path: Path,
    how: Reading,
    words: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    *,
    first: int = 0,
) -> Corpus:
    """Make a corpus of the matrix in a file, with the words and names that the options give.

    Args:
        table: documents in rows and words in columns, or the other way with `how.transpose`.
        path: the file, for messages.
        how: `vocabulary`, `names` and `transpose` are looked at.
        words: labels of the columns, if the file has them.
        names: labels of the rows, if the file has them.
        first: number of the first document where they have no names.

    Raises:
        CorpusError: there are not as many words as columns or names as rows, saying so if the
            matrix is the other way round; or the counts cannot be counts.
    """
    if how.transpose:
        table, words, names = table.T, names, words
    if how.vocabulary is not None:
        words = read_vocabulary(how.vocabulary)
    if how.names is not None:
        names = read_names(how.names)
    documents, columns = table.shape
    check_length(path, how, "words in the vocabulary", words, "columns", columns, documents)
    check_length(path, how, "names", names, "documents", documents, columns)
    if documents > table.nnz + MAX_UNUSED:
        raise error_at(path, f"{documents} documents, {table.nnz} entries", "check the shape")
    if words is None and columns > table.nnz + MAX_UNUSED:
        raise error_at(path, f"{columns} words, {table.nnz} entries", "give a vocabulary")
    if names is None:
        names = numbered(documents, first)
    return from_counts(table, words, names, source=str(path))


def check_length(
    path: Path,
    how: Reading,
    what: str,
    found: Sequence[str] | None,
    unit: str,
    wanted: int,
    other: int | None = None,
) -> None:
    """Refuse a list of words or names of the wrong length.

    Args:
        path: the file with the counts, for the message.
        how: whether they are transposed already.
        what: "names", for example.
        found: the list; None is of any length.
        unit: of what there must be one each.
        wanted: how many of these there are.
        other: how many there would be if the matrix were the other way round; None if it cannot.
    """
    if found is None or len(found) == wanted:
        return
    remedy = "give the file that belongs to these counts"
    if len(found) == other:
        remedy = (
            "leave --transpose (transpose=True) out"
            if how.transpose
            else "words are in rows: give --transpose (transpose=True)"
        )
    raise error_at(path, f"{len(found)} {what} for {wanted} {unit}", remedy)


def assembled(
    layout: str,
    shape: np.ndarray,
    parts: tuple[np.ndarray, np.ndarray, np.ndarray],
    path: Path,
    remedy: str,
) -> sp.sparray:
    """Put a sparse array together from the arrays in a file.

    Args:
        layout: `csr`, `csc` or `coo`.
        shape: rows and columns as the file declares them.
        parts: values, then indices and pointers, or rows and columns.
        path: the file, for messages.
        remedy: how to write it rightly.

    Raises:
        CorpusError: they do not fit together.
    """
    data, first, second = parts
    if data.dtype.kind not in "biuf" or any(
        array.dtype.kind not in "iu" for array in (shape, first, second)
    ):
        raise error_at(path, "arrays of the wrong types", remedy)
    sizes = tuple(shape.ravel().tolist())
    if len(sizes) != 2 or min(sizes) < 1:
        raise error_at(
            path, f"the shape is {printable(sizes)}", "give documents in rows, words in columns"
        )
    try:
        if layout == "coo":
            return sp.coo_array((data, (first, second)), shape=sizes)
        return getattr(sp, f"{layout}_array")((data, first, second), shape=sizes)
    except (ValueError, TypeError, OverflowError) as error:
        raise error_at(path, f"inconsistent arrays ({printable(error)})", remedy) from None
