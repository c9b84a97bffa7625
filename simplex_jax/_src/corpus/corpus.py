"""The corpus type, its digest, and validated counts from arrays."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from simplex_jax._src.corpus import frames

MAX_COUNT = 2**24
"""Largest count of a word in a document: float32 does not hold every whole number above it."""

MAX_WORDS = 2**31 - 1
"""Largest vocabulary: word ids are int32."""

_ROWS, _ENTRIES = 2**12, 2**22  # limits of a block

_UNNAMED = "Unnamed: 0"
"""What pandas calls the first column of a file if it has no name, as a written index."""


class CorpusError(ValueError):
    """A corpus that cannot be used: one line that says where, what is wrong and what to do."""

    __module__ = "simplex_jax.errors"  # where users find it


class EmptyCorpusError(CorpusError):
    """Documents without a single word: nothing to learn from, though a model may describe them.

    Attributes:
        names: The names of the documents.
    """

    def __init__(self, message: str, names: Sequence[str]) -> None:
        super().__init__(message)
        self.names = tuple(names)


class Tokens(NamedTuple):
    """What became of the tokens of texts, counted one by one or, with n-grams, in runs."""

    found: int  # words of any kind: runs of letters, digits and underscores, or the given tokens
    kept: int  # tokens that were counted
    dropped: dict[str, int]  # numbers of the others by reason, largest first


class Corpus(NamedTuple):
    """Word counts of documents, with the words and the document names.

    Attributes:
        counts: `scipy.sparse.csr_array` of shape [D, V], int32, 1..2**24; indices sorted,
            duplicates summed, no stored zeros. Rows without entries are empty documents.
        vocabulary: V distinct non-empty words, one per column.
        names: D document names, one per row (not necessarily distinct).
        excerpts: Beginnings of the D texts, for display; empty if there are no texts.
        tokens: Numbers of the texts' tokens that were counted or dropped; None without texts.
    """

    counts: sp.csr_array
    vocabulary: tuple[str, ...]
    names: tuple[str, ...]
    excerpts: tuple[str, ...] = ()
    tokens: Tokens | None = None

    def __repr__(self) -> str:
        """Return its sizes: the words and names of a corpus fill many screens."""
        tokens = int(self.counts.sum(dtype=np.int64))
        return describe(len(self.names), len(self.vocabulary), tokens)


def describe(documents: int, words: int, tokens: int) -> str:
    """Return the sizes of a corpus in a line."""
    return f"<corpus of {documents:,} documents with {words:,} words and {tokens:,} tokens>"


def printable(value: object) -> str:
    """Return text for a one-line message, escaped and cut at 200 characters."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= 200 else text[:197] + "..."


def error_at(place: object, problem: str, remedy: str, *, line: int | None = None) -> CorpusError:
    """Return the one-line error `PLACE:LINE: problem; remedy`."""
    where = printable(place) if line is None else f"{printable(place)}:{line}"
    return CorpusError(f"{where}: {problem}; {remedy}")


def row_blocks(counts: sp.csr_array) -> Iterator[sp.csr_array]:
    """Yield the rows of a table [D, V] in order, block by block.

    A memory-mapped table need not fit into memory: a block has at most 4,096 rows and, unless it
    is a single row, about 4 million entries.
    """
    first = 0
    while first < counts.shape[0]:
        # Capped: the sum may overflow the dtype of `indptr`, and another would copy `indptr`.
        limit = min(int(counts.indptr[first]) + _ENTRIES, int(counts.indptr[-1]))
        end = np.searchsorted(counts.indptr, counts.indptr.dtype.type(limit), "right") - 1
        last = min(max(first + 1, int(end)), first + _ROWS)
        ends = counts.indptr[first : last + 1]
        span = slice(ends[0], ends[-1])
        arrays = counts.data[span], counts.indices[span], (ends - ends[0]).astype(np.int32)
        yield sp.csr_array(arrays, shape=(last - first, counts.shape[1]))
        first = last


def digest(corpus: Corpus) -> str:
    """Return the SHA-256 of counts and vocabulary, but not names, as 64 hex digits.

    Example:
        >>> digest(from_counts([[1, 0], [2, 3]]))[:16]
        '1d1b9433bf420416'
    """
    return digest_rows(corpus.counts, "<i4", corpus.vocabulary)


def digest_rows(table: sp.csr_array, dtype: str, vocabulary: Sequence[str]) -> str:
    """Return the digest of a table [D, V], with values of type `dtype`, and its words."""
    arrays = ((table.indptr, "<i8"), (table.indices, "<i4"), (table.data, dtype))
    parts = (np.ascontiguousarray(array, kind) for array, kind in arrays)
    return digest_parts(table.shape, parts, vocabulary)


def digest_parts(
    shape: tuple[int, int], parts: Iterable[np.ndarray], vocabulary: Iterable[str]
) -> str:
    """Return the digest of a table, given its contiguous, little-endian arrays in parts."""
    sha = hashlib.sha256(np.asarray(shape, "<i8").tobytes())
    for part in parts:
        sha.update(part.data)
    for word in vocabulary:
        encoded = word.encode("utf-8", "surrogatepass")
        sha.update(len(encoded).to_bytes(8, "little") + encoded)
    return sha.hexdigest()


def from_counts(
    counts: npt.ArrayLike | sp.sparray | sp.spmatrix,
    vocabulary: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    *,
    source: str = "counts",
) -> Corpus:
    """Make a corpus from an array of counts, checking every entry.

    Duplicate entries of a sparse array are summed, explicit zeros dropped and empty documents
    kept. Whole numbers may be floats.

    Args:
        counts: [D, V], documents in rows: anything `numpy.asarray` accepts, a data frame, any
            SciPy sparse matrix or array, an AnnData object, whose `X` is used, or gensim's bags of
            words, a list of pairs of column and count for each document. Whole numbers in
            0..2**24, at least one of them positive. A data frame may also have a count of a word
            in a document in each row, in columns such as `document`, `term` and `count`, or a
            token in each row, in two such columns.
        vocabulary: V distinct non-empty words, or a dict that maps them to columns 0..V-1; by
            default the column names of a data frame, unless they count from 0, `var_names` of
            AnnData, otherwise `w0, w1, ...`.
        names: D document names; by default the index of a data frame, `obs_names` of AnnData,
            otherwise `0, 1, ...`.
        source: Name of the counts in error messages, such as a file name.

    Returns:
        The corpus.

    Raises:
        CorpusError: `counts` is not two-dimensional or not numeric, has a negative, NaN, infinite,
            fractional or larger count, is all zero, or begins with the index of a data frame that
            was written to a file; `vocabulary` or `names` has the wrong length, or `vocabulary` an
            empty or repeated word.

    Example:
        >>> corpus = from_counts([[2, 0, 1], [0, 0, 0]], ["apple", "pear", "plum"])
        >>> corpus.counts.sum(axis=1).tolist(), corpus.names
        ([3, 0], ('0', '1'))
        >>> from_counts([[(0, 2), (2, 1)], [(1, 1)]]).counts.toarray().tolist()
        [[2, 0, 1], [0, 1, 0]]
    """
    if frames.is_annotated(counts):
        source = "adata.X" if source == "counts" else source
    elif are_bags(counts):
        counts = _of_bags(counts, 0 if vocabulary is None else len(vocabulary), source)
    elif (triple := frames.triple_in(counts)) is not None:
        if vocabulary is not None or names is not None:
            problem = "each row is a word of a document, and names both"
            raise error_at(source, problem, "leave vocabulary and names out")
        try:
            counts, vocabulary, names = frames.counts_in(counts, triple)
        except ValueError as error:
            raise CorpusError(f"{source}: {printable(error)}") from None
    entries = entries_of(counts, source)
    words, labels = labels_of(counts, entries.shape, vocabulary, names, source)
    table = _checked(entries, source, _remedy_of(counts))
    if table.nnz == 0:
        remedy = "give documents with words in them"
        if frames.is_annotated(counts):
            remedy = frames.count_layers(counts)
        raise EmptyCorpusError(str(error_at(source, "every document is empty", remedy)), labels)
    return Corpus(table, words, labels)


def numbered_words(number: int) -> tuple[str, ...]:
    """Return the names of columns without names, `w0, w1, ...`."""
    return tuple(f"w{i}" for i in range(number))


def empty_corpus(vocabulary: Sequence[str], names: Sequence[str]) -> Corpus:
    """Return documents without a word."""
    shape = (len(names), len(vocabulary))
    return Corpus(sp.csr_array(shape, dtype=np.int32), tuple(vocabulary), tuple(names))


def are_bags(values: Any) -> bool:
    """Return whether these are lists of pairs, which no table of numbers is."""
    if not isinstance(values, list | tuple) or not all(isinstance(bag, list) for bag in values):
        return False
    pairs = [pair for bag in values for pair in bag]
    return bool(pairs) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs)


def _of_bags(bags: Any, words: int, source: str) -> sp.coo_array:
    """Return bags of words as an array with a column for each word, or at least for each index."""
    rows = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
    pairs = [pair for bag in bags for pair in bag]
    columns = np.asarray([column for column, _ in pairs])
    if columns.dtype.kind not in "iu" or columns.min() < 0:
        raise error_at(
            source, "a pair without the number of a column", "give pairs of column and count"
        )
    shape = (len(bags), max(words, int(columns.max()) + 1))
    return sp.coo_array((np.asarray([count for _, count in pairs]), (rows, columns)), shape=shape)


def labels_of(
    values: Any,
    shape: tuple[int, int],
    vocabulary: Sequence[str] | None,
    names: Sequence[str] | None,
    source: str,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words and names of the columns and rows of `values`, checked, or defaults.

    The defaults are the labels of a data frame, whose columns may be in any order, or numbers.
    """
    if frames.is_annotated(values):
        vocabulary = values.var_names if vocabulary is None else vocabulary
        names = values.obs_names if names is None else names
    elif (columns := frames.names_of(values)) is not None:
        if vocabulary is None and not _count_from_zero(columns):
            if _is_written_index(values, columns):
                problem = f"the first column, {_UNNAMED!r}, numbers the rows, and is no word"
                raise error_at(source, problem, "read the table with index_col=0")
            vocabulary = [
                column if isinstance(column, str) else frames.texts_of("columns", [column])[0]
                for column in columns
            ]
        names = getattr(values, "index", None) if names is None else names  # polars has none
    if min(shape) < 1:
        raise error_at(source, f"the shape is {shape}", "give at least one document and one word")
    if shape[1] > MAX_WORDS:
        raise error_at(source, f"{shape[1]} words", f"keep at most {MAX_WORDS}")
    if vocabulary is None:
        vocabulary = numbered_words(shape[1])
    remedy = "make them distinct"
    if frames.is_annotated(values):
        remedy += ": adata.var_names_make_unique()"
    words = distinct_words(vocabulary, source, remedy)
    if len(words) != shape[1]:
        raise error_at(
            source,
            f"{len(words)} words in the vocabulary for an array of shape {shape}",
            "transpose the array" if len(words) == shape[0] else "give one word a column",
        )
    labels = tuple(map(str, range(shape[0]) if names is None else names))
    if len(labels) != shape[0]:
        raise error_at(source, f"{len(labels)} names for {shape[0]} documents", "name every row")
    return words, labels


def _count_from_zero(columns: Sequence[Any]) -> bool:
    """Return whether columns are numbered, as pandas does where they have no names."""
    return all(map(frames.is_number, columns)) and list(columns) == list(range(len(columns)))


def _is_written_index(table: Any, columns: Sequence[Any]) -> bool:
    """Return whether the first column is the index of a data frame that was written to a file."""
    if columns[:1] != [_UNNAMED]:
        return False
    labels = np.asarray(table[_UNNAMED], np.float64)
    return bool((labels == np.floor(labels)).all()) and np.unique(labels).size == labels.size


def counts_in(documents: Any, source: str) -> Any:
    """Return the counts of a corpus, or a table of counts itself; what is not sparse is checked."""
    if isinstance(documents, Corpus):
        return documents.counts
    return documents if sp.issparse(documents) else checked_counts(documents, source)


def checked_counts(counts: Any, source: str, first: int = 0) -> sp.csr_array:
    """Return counts [D, V] as `from_counts` does, except that all documents may be empty.

    Errors number the rows from `first`.
    """
    return _checked(entries_of(counts, source), source, _remedy_of(counts), first)


def _remedy_of(counts: Any) -> Callable[[], str]:
    """Return a function that says what to do about values that are not counts."""
    if frames.is_annotated(counts):
        return lambda: frames.count_layers(counts)
    return lambda: f"counts are whole numbers from 0 to 2**24 = {MAX_COUNT}"


def _checked(
    entries: sp.coo_array, source: str, remedy: Callable[[], str], first: int = 0
) -> sp.csr_array:
    _check_values(entries, source, remedy, first)
    whole = sp.coo_array((entries.data.astype(np.int64), entries.coords), shape=entries.shape)
    table = sp.csr_array(whole)
    table.sum_duplicates()
    table.eliminate_zeros()
    _check_values(table.tocoo(), source, remedy, first)
    return table.astype(np.int32)


def entries_of(values: Any, source: str, numbers: str = "whole numbers") -> sp.coo_array:
    """Return a two-dimensional, numeric array in coordinates; values are not checked."""
    remedy = f"give {numbers}, one document a row and one word a column"
    if frames.is_annotated(values):
        annotated, values = values, frames.in_memory(values.X)
        if values is None:
            raise error_at(source, "there is no X", frames.count_layers(annotated))
    if (other := _other_kind(values)) is not None:
        problem, instead = other
        raise error_at(source, f"{problem} in place of {numbers}", instead)
    try:
        if frames.names_of(values) is not None and hasattr(values, "sparse"):
            with suppress(ValueError):  # of pandas: what it leaves out is not 0
                values = values.sparse.to_coo()
        if isinstance(values, sp.csr_array | sp.csr_matrix | sp.csc_array | sp.csc_matrix):
            values.check_format(full_check=True)
        if np.ma.is_masked(values):
            raise error_at(source, "the array has masked values", "replace them: values.filled(0)")
        array = values if sp.issparse(values) else np.asarray(values)
        if array.ndim != 2:
            raise error_at(source, f"the array has {array.ndim} dimensions, not 2", remedy)
        if array.dtype.kind == "O" and not sp.issparse(array):
            array = _as_numbers(array)
        if array.dtype.kind not in "biuf":
            if any(isinstance(cell, str) for cell in array[:1].ravel()):
                remedy += "; of a table with texts, give their column, such as table['text']"
            raise error_at(source, f"the values have dtype {array.dtype}", remedy)
        if not sp.issparse(values):
            # SciPy supports neither half precision nor foreign byte orders.
            native = np.float64 if array.dtype.kind == "f" else array.dtype.newbyteorder("=")
            array = array.astype(native, copy=False)
        return sp.coo_array(array)
    except CorpusError:
        raise
    except (ValueError, TypeError) as error:
        raise error_at(source, f"not a valid array ({printable(error)})", remedy) from None


def _as_numbers(cells: np.ndarray) -> np.ndarray:
    """Return objects as float64 if all are numbers, and otherwise as they are.

    Data frames of nullable or Arrow types, or of numbers and booleans, are arrays of objects.
    """
    if any(isinstance(cell, str | bytes) for cell in cells.ravel()):  # "7" would become a number
        return cells
    try:
        return cells.astype(np.float64)
    except (TypeError, ValueError, OverflowError):  # pandas.NA, for one
        return cells


def _other_kind(values: Any) -> tuple[str, str] | None:
    """Return what was given that is no table of numbers, and what to give instead."""
    if isinstance(values, Corpus):
        return "a Corpus", "give its counts"
    if isinstance(values, Mapping) and not sp.issparse(values):
        return "a dict", "give its values as a list, one document each, and its keys as names"
    if isinstance(values, Set):
        return f"a {type(values).__name__}, which has no order,", "give a list"
    if not isinstance(values, list | tuple):
        return None
    if not values:
        return "an empty list", "give at least one document"
    if any(map(_has_words, values)):
        return "lists of words", "join the words of each text: ' '.join(words)"
    row = values[0]
    if isinstance(row, np.ndarray) and row.dtype.kind in "UT":
        return "arrays of words", "give lists: [row.tolist() for row in rows]"
    if isinstance(row, bytes):
        return "bytes", "decode each text: text.decode()"
    if isinstance(row, Mapping):
        remedy = "sklearn.feature_extraction.DictVectorizer().fit_transform(dicts) makes an array"
        return "dicts", remedy
    return None


def _has_words(row: Any) -> bool:
    return isinstance(row, list | tuple) and len(row) > 0 and isinstance(row[0], str)


def _check_values(
    entries: sp.coo_array, source: str, remedy: Callable[[], str], first: int
) -> None:
    values = entries.data
    fractional = np.zeros(values.shape, bool)
    if values.dtype.kind == "f":
        values = values.astype(np.float64)
        fractional = ~(values == np.floor(values))
    bad = (values < 0) | (values > MAX_COUNT) | fractional
    if not bad.any():
        return
    place = int(np.argmax(bad))
    value = values[place].item()
    kind = "is not a whole number" if fractional[place] else "is out of range"
    row, column = (int(axis[place]) for axis in entries.coords)
    where = f"row {first + row}, column {column} (counted from 0)"
    raise error_at(source, f"{where} is {value}, which {kind}", remedy())


def distinct_words(
    vocabulary: Iterable[str], source: str, remedy: str = "make them distinct"
) -> tuple[str, ...]:
    """Return words as a tuple; a CorpusError says which is empty or repeated.

    A mapping from words to columns 0..V-1, such as `CountVectorizer().vocabulary_`, is sorted by
    column.
    """
    if isinstance(vocabulary, str):
        raise error_at(source, "the vocabulary is one string", "give a list of words")
    if isinstance(vocabulary, Mapping):
        vocabulary = _by_column(vocabulary)
    if isinstance(vocabulary, Mapping | Set):
        raise error_at(
            source,
            f"the vocabulary is a {type(vocabulary).__name__}, which has no order of columns",
            "give a list, such as get_feature_names_out()",
        )
    words = tuple(vocabulary)
    for index, word in enumerate(words):
        if not isinstance(word, str):
            problem = f"vocabulary word {index} (counted from 0) is {printable(repr(word))}"
            raise error_at(source, problem, "give strings")
    words = tuple(map(str, words))  # NumPy strings become Python strings
    if not words:
        raise error_at(source, "the vocabulary has no word", "give a list of words")
    if len(set(words)) == len(words) and "" not in words:
        return words
    first: dict[str, int] = {}
    index = next(i for i, word in enumerate(words) if not word or first.setdefault(word, i) < i)
    word = words[index]
    what = f"repeats word {first[word]}, {printable(word)!r}" if word else "is empty"
    raise error_at(source, f"vocabulary word {index} (counted from 0) {what}", remedy)


def _by_column(vocabulary: Mapping[str, Any]) -> Any:
    """Return the words of a mapping to columns 0..V-1 by column; otherwise the mapping."""
    columns = list(vocabulary.values())
    try:
        numbered = sorted(columns) == list(range(len(columns)))
    except (TypeError, ValueError):
        return vocabulary
    return sorted(vocabulary, key=vocabulary.__getitem__) if numbered else vocabulary
