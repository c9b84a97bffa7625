"""Vocabularies: files of words and names, words of other documents, and leaving words out."""

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import (
    Corpus,
    EmptyCorpusError,
    Tokens,
    distinct_words,
    empty_corpus,
    error_at,
    numbered_words,
    printable,
    row_blocks,
)
from simplex_jax._src.corpus.files import SUFFIXES, content_name, text_lines
from simplex_jax._src.corpus.frames import reads_as_number
from simplex_jax._src.corpus.vectors import UnitVectors
from simplex_jax._src.warn import warn_caller

FEATURES = ("features.tsv", "genes.tsv")
"""Ends of the names of files of features of a 10x matrix."""

_FEATURES = re.compile(r"(?:.*[_.-])?(?:features|genes)\.tsv", re.IGNORECASE)
"""Their whole names, in which a sample may come first."""

_ENTRY = re.compile(r"(\d{1,9})\t(\S.*)\t\d+")
"""A line of gensim's dictionary."""

_SUSPICIOUS = 50
"""Tokens of which a model should know at least one."""


def read_vocabulary(path: str | Path) -> tuple[str, ...]:
    """Read a vocabulary: one word a line, UTF-8, packed or not; word ids are line numbers.

    Blank lines at the end and blanks around words are ignored. The words are distinct. Two kinds of
    tables are read too: the dictionary that gensim's `Dictionary.save_as_text` writes, by its ids,
    and the `features.tsv` or `genes.tsv` of 10x, by its names, made `distinct`. Files of 10x may
    have a sample in front of their names, as in `GSM123_genes.tsv`.

    Raises:
        CorpusError: The file cannot be read, is not UTF-8 text, or has an empty or repeated word,
            or is another table.
    """
    path = Path(path)
    if _FEATURES.fullmatch(content_name(path)):
        names = read_features(path).names
        if not all(map(reads_as_number, names)):  # as scores of marker_genes.tsv would be
            return distinct(names)
    if is_dictionary(path):
        return _read_dictionary(path)
    line_of: dict[str, int] = {}
    blank = 0
    for number, line in text_lines(path):
        word = line.strip()
        if not word:
            blank = blank or number
        elif blank:
            raise error_at(path, "no word on this line", "give one word a line", line=blank)
        elif "\t" in word:
            problem = f"{word.count(chr(9)) + 1} fields that tabs separate, not a word"
            raise error_at(path, problem, "keep the words alone (cut -f)", line=number)
        elif word in line_of:
            raise error_at(
                path,
                f"{printable(word)!r} is already the word of line {line_of[word]}",
                "make the words distinct",
                line=number,
            )
        else:
            line_of[word] = number
    if not line_of:
        raise error_at(path, "no word in the file", "give one word a line")
    return tuple(line_of)


def is_dictionary(path: str | Path) -> bool:
    """Return whether a file is a dictionary of gensim: `id, word, documents`, separated by tabs."""
    head = [line for _, line in islice(text_lines(Path(path)), 2)]
    return _ENTRY.fullmatch(head[-1]) is not None


def _read_dictionary(path: Path) -> tuple[str, ...]:
    words: dict[int, str] = {}
    for number, line in text_lines(path):
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            if number == 1 and line.strip().isdecimal():
                continue  # the number of documents
            problem = "not an entry of gensim's dictionary"
            remedy = "write `id, word, documents`, separated by tabs"
            raise error_at(path, problem, remedy, line=number)
        index = int(entry[1])
        if index in words:
            remedy = "save the dictionary again"
            raise error_at(path, f"id {index} occurs again", remedy, line=number)
        words[index] = entry[2]
    missing = next((index for index in range(len(words)) if index not in words), None)
    if missing is not None:
        remedy = "make ids consecutive with compactify(), and write the corpus again"
        raise error_at(path, f"no word has id {missing}", remedy)
    return tuple(words[index] for index in range(len(words)))


class Features(NamedTuple):
    """The features of a 10x matrix, such as genes."""

    ids: tuple[str, ...]
    names: tuple[str, ...]  # not necessarily distinct
    types: tuple[str, ...]  # such as "Gene Expression", or empty if not known


def read_features(path: Path) -> Features:
    """Read a `features.tsv` of id, name and type, or a `genes.tsv` without types.

    Further fields are ignored. A feature without a name has its id.
    """
    rows = []
    for number, line in text_lines(path):
        feature, name, kind, *_ = (*map(str.strip, line.split("\t")), "", "", "")
        if not feature and line.strip():
            raise error_at(path, "no id of the feature", "write `id, name, type`", line=number)
        rows.append((feature, name or feature, kind))
    while rows and not rows[-1][0]:
        rows.pop()
    if not rows:
        raise error_at(path, "no feature in the file", "give one a line")
    if blank := next((number for number, row in enumerate(rows, 1) if not row[0]), None):
        raise error_at(path, "the line is blank", "give one feature a line", line=blank)
    return Features(*zip(*rows, strict=True))


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Append `-1`, `-2` and so on to names that occur again, as AnnData does.

    Example:
        >>> distinct(["a", "b", "a", "a-1", "a"])
        ('a', 'b', 'a-2', 'a-1', 'a-3')
    """
    taken, seen, result = set(names), dict[str, int](), []
    for name in names:
        count = seen.get(name, 0)
        label = name
        while count and label in taken:
            label, count = f"{name}-{count}", count + 1
        seen[name] = max(count, 1)
        taken.add(label)
        result.append(label)
    return tuple(result)


def columns_of(vocabulary: Sequence[str]) -> Callable[[str], int | None]:
    r"""Return a function from words to columns, None for unknown words.

    Without an exact match, a word has the first column whose word is the same text in Unicode:
    accented letters may be one character or several.

    Example:
        >>> column = columns_of(["caf\u00e9", "cafe"])
        >>> column("cafe"), column("cafe\u0301"), column("tea")
        (1, 0, None)
    """
    exact = {word: column for column, word in enumerate(vocabulary)}
    same = {composed(word): column for word, column in reversed(exact.items())}
    return lambda word: exact.get(word, same.get(composed(word)))


def warn_of_foreign(tokens: int, source: str, remedy: str) -> None:
    """Warn that not one of many tokens is a word of a model; a few unknown words are normal."""
    if tokens >= _SUSPICIOUS:
        warn_caller(
            f"{printable(source)}: none of its {tokens:,} tokens is a word of the model, and every "
            f"document is treated as empty; {remedy}",
        )


def composed(text: str) -> str:
    """Return a text in NFC, with accented letters as single characters where possible."""
    return unicodedata.normalize("NFC", text)


def vocabulary_beside(path: Path, names: Sequence[str]) -> Path | None:
    """Return the first of `names`, plain or packed, that exists in the folder of `path`.

    Each may also be in lower case.
    """
    spelled = (spelling for name in names for spelling in (name, name.lower()))
    files = (path.with_name(name + ending) for name in spelled for ending in ("", *SUFFIXES))
    return next((file for file in files if os.path.isfile(file)), None)


def read_names(path: str | Path) -> tuple[str, ...]:
    """Read document names: one a line, UTF-8, packed or not; blank lines at the end are ignored.

    Raises:
        CorpusError: The file cannot be read, or is not UTF-8 text.
    """
    names = [line.strip() for _, line in text_lines(Path(path))]
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def numbered(documents: int, first: int = 1) -> tuple[str, ...]:
    """Return numbers from `first` as names of documents that have none."""
    return tuple(map(str, range(first, first + documents)))


# Mapping documents to the vocabulary of a model.


class Mapped(NamedTuple):
    """Documents over another vocabulary."""

    corpus: Corpus  # all documents, empty without a word of the vocabulary
    unknown: int  # tokens left out because their word is not in the vocabulary


def to_vocabulary(
    corpus: Corpus, vocabulary: Sequence[str], *, source: str = "documents"
) -> Mapped:
    """Map documents to a vocabulary, word by word, and leave out other words.

    Accented letters may be one character or several. A document without a word of the vocabulary
    is empty; a warning says so if none of many tokens is one.

    Args:
        corpus: D documents.
        vocabulary: V distinct words, in the order of the columns of the result.
        source: Name of the documents in error messages, such as a file name.

    Returns:
        The documents with counts [D, V], and the number of tokens left out.

    Raises:
        CorpusError: The columns of the documents have no names, unlike those of the vocabulary, or
            the vocabulary has an empty or repeated word.

    Example:
        >>> from simplex_jax.corpus import from_counts
        >>> trees = from_counts([[3, 1, 2], [0, 4, 0]], ["oak", "elm", "ash"])
        >>> mapped = to_vocabulary(trees, ["ash", "oak", "fir"])
        >>> mapped.corpus.counts.toarray().tolist(), mapped.unknown
        ([[2, 3, 0], [0, 0, 0]], 5)
    """
    words = distinct_words(vocabulary, "the vocabulary")
    if words == corpus.vocabulary:
        return Mapped(corpus, 0)
    columns = np.array(
        [-1 if column is None else column for column in map(columns_of(words), corpus.vocabulary)]
    )
    shared = np.flatnonzero(columns >= 0)
    entries = sp.coo_array(corpus.counts[:, shared])
    tokens = int(corpus.counts.sum(dtype=np.int64))
    if not entries.nnz and tokens:
        if corpus.vocabulary == numbered_words(len(corpus.vocabulary)):
            raise error_at(
                source,
                f"its {len(columns):,} columns have no names, and the model has words, whose first "
                f"one is {printable(words[0])!r}",
                "name its columns as in the fit (--vocab, vocabulary)",
            )
        remedy = "check its language, and that its columns are named as in the fit"
        warn_of_foreign(tokens, source, remedy)
    rows, places = entries.coords
    counts = sp.csr_array(
        (entries.data, (rows, columns[shared][places])), shape=(len(corpus.names), len(words))
    )
    counts.sort_indices()
    mapped = int(counts.sum(dtype=np.int64))
    return Mapped(Corpus(counts, words, corpus.names, corpus.excerpts), tokens - mapped)


def even_empty(vocabulary: Sequence[str], read: Callable[[], Corpus]) -> Corpus:
    """Return the documents that `read` returns, or empty ones if they have no word at all."""
    try:
        return read()
    except EmptyCorpusError as error:
        return empty_corpus(vocabulary, error.names)


def same_words(
    vectors: UnitVectors, vocabulary: Sequence[str], *, source: str = "vectors"
) -> UnitVectors:
    """Check that unit vectors have a given vocabulary; they cannot be mapped word by word.

    The default words `w0, w1, ...` match any vocabulary of their length.

    Args:
        vectors: D documents.
        vocabulary: V words.
        source: Name of the vectors in error messages.

    Returns:
        The same vectors with this vocabulary.

    Raises:
        CorpusError: The words differ, or their order does.

    Example:
        >>> from simplex_jax._src.corpus.vectors import from_array
        >>> same_words(from_array([[0.6, 0.8]]), ["ash", "oak"]).vocabulary
        ('ash', 'oak')
    """
    words, unnamed = vectors.vocabulary, numbered_words(len(vocabulary))
    if words not in (tuple(vocabulary), unnamed):
        raise error_at(
            source,
            f"its {len(words)} words are not the {len(vocabulary)} of the model, or not in order",
            "give vectors over the vocabulary.txt of the model",
        )
    return vectors._replace(vocabulary=tuple(vocabulary))


# Finding the least informative words, and leaving words out of a corpus.

_MIN_SHARE = 0.1
_FEW = 60  # expected count below which the Poisson sum is computed


class Suggestion(NamedTuple):
    """A word that may be left out."""

    word: str  # the word
    share: float  # of the documents that contain it, 0..1
    information: float  # of a token about its document, in bits


class Sums(NamedTuple):
    """Sums over the documents of the counts n of each word, float64 [V], and the lengths."""

    documents: np.ndarray  # documents that contain the word
    tokens: np.ndarray  # sum of n
    n_log_n: np.ndarray  # sum of n log n
    lengths: np.ndarray  # tokens of each document, float64 [D]


def suggest(corpus: Corpus, count: int = 20, most: float = 0.3) -> list[Suggestion]:
    """Suggest frequent words that are spread over the documents almost at random.

    The measure is that of Gerlach, Shi and Amaral (2019), "A universal information theoretic
    approach to the identification of stopwords", Nature Machine Intelligence 1, 606-612: the
    entropy of a word's distribution over documents after shuffling all tokens of the corpus, minus
    its actual entropy. The first is computed here from Poisson counts instead of by shuffling, a
    close approximation for a word that is a small share of all tokens. Only words in a tenth of the
    documents or more are considered, as rare words say little by any measure.

    Returns at most `count` suggestions of at most `most` bits each, most frequent first.
    """
    sums = sums_of(corpus.counts)
    share = sums.documents / len(sums.lengths)
    frequent = np.flatnonzero(share >= _MIN_SHARE)
    bits = information(sums, frequent)
    chosen = np.flatnonzero(bits <= most)
    chosen = chosen[np.argsort(-sums.tokens[frequent[chosen]], kind="stable")][:count]
    return [
        Suggestion(corpus.vocabulary[word], float(share[word]), float(value))
        for word, value in zip(frequent[chosen], bits[chosen], strict=True)
    ]


def sums_of(counts: sp.csr_array) -> Sums:
    """Return sums over the documents of counts n [D, V]."""
    lengths, totals = [], np.zeros((3, counts.shape[1]))
    for rows in row_blocks(counts):
        n = rows.data.astype(np.float64)
        lengths.append(rows.sum(axis=1, dtype=np.float64))
        for total, value in zip(totals, (None, n, n * np.log(n)), strict=True):
            total += np.bincount(rows.indices, value, len(total))
    documents, tokens, n_log_n = totals
    return Sums(documents, tokens, n_log_n, np.concatenate(lengths))


def information(sums: Sums, words: np.ndarray) -> np.ndarray:
    """Return the information of a token of each word about its document, in bits, float64 [n].

    H(shuffled) - H with H = log n - sum_d n_d log n_d / n, where shuffled n_d are Poisson with mean
    n times the share of document d in all tokens. It is about zero for tokens spread at random, and
    negative for a word spread more evenly, such as once per document. `words` are distinct ids of
    words that occur.
    """
    observed = sums.n_log_n[words] / sums.tokens[words]
    sizes, times = np.unique(sums.lengths[sums.lengths > 0], return_counts=True)
    shares = sizes / sums.lengths.sum()
    expected = np.array([times @ _mean_n_log_n(n * shares) / n for n in sums.tokens[words]])
    return (observed - expected) / np.log(2)


def _mean_n_log_n(rate: np.ndarray) -> np.ndarray:
    """Return E[n log n] for Poisson n: rate E[log(n + 1)], from a table or an expansion."""
    large = np.maximum(rate, _FEW)
    expansion = np.log(large) + 1 / (2 * large) + 1 / (12 * large**2)
    table = np.interp(rate, _RATES, _MEAN_LOGS)
    return rate * np.where(rate < _FEW, table, expansion)


def _mean_logs(rates: np.ndarray) -> np.ndarray:
    n = np.arange(4 * _FEW)
    log_factorial = np.concatenate([[0], np.cumsum(np.log(n[1:]))])
    log_probability = n * np.log(rates)[:, None] - rates[:, None] - log_factorial
    return np.exp(log_probability) @ np.log(n + 1)


_RATES = np.geomspace(1e-6, _FEW, 2000)
_MEAN_LOGS = _mean_logs(_RATES)


def drop_words(corpus: Corpus, words: Collection[str]) -> Corpus:
    """Leave words out of a corpus; words that it lacks are ignored.

    Raises:
        CorpusError: No token is left.

    Example:
        >>> from simplex_jax.corpus import from_counts
        >>> drop_words(from_counts([[2, 1], [0, 3]], ["the", "cat"]), {"the", "an"}).vocabulary
        ('cat',)
    """
    out = {composed(word) for word in words}
    columns = [j for j, word in enumerate(corpus.vocabulary) if composed(word) not in out]
    counts = corpus.counts[:, columns]
    if counts.nnz == 0:
        raise error_at("words to leave out", "no word is left in any document", "leave out fewer")
    vocabulary = tuple(corpus.vocabulary[column] for column in columns)
    tokens = corpus.tokens
    if tokens is not None:
        lost = int(corpus.counts.sum(dtype=np.int64) - counts.sum(dtype=np.int64))
        dropped = Counter(tokens.dropped) + Counter({"words left out": lost})
        tokens = Tokens(tokens.found, tokens.kept - lost, dict(dropped.most_common()))
    return corpus._replace(counts=counts, vocabulary=vocabulary, tokens=tokens)
