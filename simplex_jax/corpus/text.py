"""Text to counts: tokens and vocabulary limits, with scikit-learn's `CountVectorizer`."""

import functools
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus import letters
from simplex_jax.corpus.corpus import (
    Corpus,
    CorpusError,
    EmptyCorpusError,
    distinct_words,
    empty_corpus,
    error_at,
    from_counts,
    labels_of,
    printable,
)
from simplex_jax.corpus.files import text_lines
from simplex_jax.corpus.vocabulary import composed, warn_of_foreign

_EXCERPT = 200
"""Characters of an excerpt, which takes about as much memory as the counts of 25 words."""


@dataclass(frozen=True)
class TextOptions:
    """Tokens of text and limits of the vocabulary.

    Attributes:
        lowercase: Convert text to lower case first.
        token_pattern: Regular expression of a word, with at most one group; by default three or
            more letters of any script, with their marks. Texts are composed (NFC) first.
        ngrams: Shortest and longest runs of successive words to count: (1, 2) for words and pairs,
            joined by a blank. Stop words are left out first.
        stop_words: `english` (scikit-learn's list), `none`, or a UTF-8 file with one word a line.
        min_df: Leave out words in fewer documents: a number, or a fraction of the documents.
        max_df: Leave out words in more documents: a number, or a fraction of the documents.
        max_vocabulary: Number of most frequent words to keep; None for all.

    Raises:
        ValueError: An option is out of range; the message names it.

    Example:
        >>> TextOptions(min_df=1.5)
        Traceback (most recent call last):
        ValueError: min_df=1.5: give a whole number from 1 or a fraction from 0 to 1
    """

    lowercase: bool = True
    token_pattern: str = letters.PATTERN
    ngrams: tuple[int, int] = (1, 1)
    stop_words: str = "english"
    min_df: int | float = 5
    max_df: int | float = 0.5
    max_vocabulary: int | None = 30_000

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.token_pattern).groups
        except (re.error, TypeError) as error:
            raise ValueError(
                f"token_pattern={self.token_pattern!r}: not a regular expression ({error})"
            ) from None
        if groups > 1:
            raise ValueError(f"token_pattern={self.token_pattern!r}: use at most one group")
        if len(self.ngrams) != 2 or not 1 <= self.ngrams[0] <= self.ngrams[1]:
            raise ValueError(f"ngrams={self.ngrams!r}: give two whole numbers from 1, in order")
        for name in ("min_df", "max_df"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if not whole and not (isinstance(value, float) and 0 <= value <= 1):
                raise ValueError(
                    f"{name}={value!r}: give a whole number from 1 or a fraction from 0 to 1"
                )
        if self.max_vocabulary is not None and self.max_vocabulary < 1:
            raise ValueError(f"max_vocabulary={self.max_vocabulary}: give at least 1, or None")


def from_texts(
    texts: Iterable[str],
    names: Sequence[str] | None = None,
    *,
    options: TextOptions | None = None,
    vocabulary: Sequence[str] | None = None,
    source: str = "texts",
) -> Corpus:
    """Count the words of texts.

    Args:
        texts: One string per document, read once; documents without words are kept, empty.
        names: Names of the documents; by default `0, 1, ...`. Read after the last text, so it may
            be filled in the meantime.
        options: Tokens and vocabulary limits; by default `TextOptions()`.
        vocabulary: The words to count, in this order, regardless of limits and stop words; they are
            compared in composed form (NFC). With it the texts may have no word at all.
        source: Name of the texts in error messages, such as a file name.

    Returns:
        The corpus, with words in alphabetical order (or the order of `vocabulary`).

    Raises:
        CorpusError: There is no text, one is not a string, or, without `vocabulary`, no word is
            left.

    Example:
        >>> limits = TextOptions(min_df=1, max_df=1.0)
        >>> corpus = from_texts(["The apple and the pear", "Pear, pear!"], options=limits)
        >>> corpus.vocabulary, corpus.counts.toarray().tolist()
        (('apple', 'pear'), [[1, 1], [0, 2]])
    """
    if isinstance(texts, str | os.PathLike):
        raise error_at(
            source,
            f"one string or path, {printable(texts)!r}, in place of several texts",
            "give a list of strings, one a document, or for a file corpus.read(path)",
        )
    if isinstance(texts, Mapping) or len(getattr(texts, "shape", (0,))) != 1:
        # Iteration over them gives names, of columns or of documents.
        raise error_at(
            source,
            f"a {type(texts).__name__} in place of several texts",
            "give one of its columns, or the values of a dict of documents: one string a document",
        )
    options = options or TextOptions()
    words_nfc = None
    if vocabulary is not None:
        vocabulary = distinct_words(vocabulary, source)
        words_nfc = distinct_words([composed(word) for word in vocabulary], source)
    # Slow to import, and not needed for corpora of counts.
    from sklearn.feature_extraction.text import CountVectorizer

    terms = _analyzer(options, keep_stop_words=vocabulary is not None)
    tokens, excerpts = 0, list[str]()

    def strings() -> Iterator[str]:
        # CountVectorizer decodes bytes, and raises a ValueError for NaN, a missing text of pandas.
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                joined = ", such as ' '.join(words)" if isinstance(text, list | tuple) else ""
                raise error_at(
                    source,
                    f"text {number} (counted from 0) is {printable(repr(text))}, not a string",
                    f"give one string a document{joined}",
                )
            yield text

    def analyzer(text: str) -> list[str]:
        nonlocal tokens
        words = terms(text)
        tokens += len(words)
        excerpts.append(excerpt(text))
        return words

    vectorizer = CountVectorizer(
        analyzer=analyzer,
        lowercase=False,
        min_df=options.min_df,
        max_df=options.max_df,
        max_features=options.max_vocabulary,
        vocabulary=words_nfc,
        dtype=np.int64,
    )

    try:
        counts = vectorizer.fit_transform(strings())
    except CorpusError:
        raise
    except ValueError:
        counts = None
    if counts is not None and counts.nnz:
        words = vectorizer.get_feature_names_out() if vocabulary is None else vocabulary
        corpus = from_counts(counts, words, names, source=source)
    else:
        error = str(error_at(source, *_no_word_error(options, len(excerpts), tokens)))
        if not excerpts:
            raise CorpusError(error)
        shape = (len(excerpts), len(vocabulary or "_"))
        _, labels = labels_of((), shape, vocabulary, names, source)
        if vocabulary is None:
            raise EmptyCorpusError(error, labels)
        warn_of_foreign(tokens, source, "check its language, and upper and lower case")
        corpus = empty_corpus(vocabulary, labels)
    return corpus._replace(excerpts=tuple(excerpts))


def count_texts(data: Any, vocabulary: Sequence[str] | None = None) -> Any:
    """Count the words of texts; return anything else unchanged.

    This lets functions that take a corpus also take a list of strings.

    Args:
        data: Texts, one string per document, in a list, tuple, array or data frame column; or other
            data, which are not inspected.
        vocabulary: The only V words to count, however rare; by default those of the texts, within
            the limits of `TextOptions()`. Words that its rules cannot produce, such as runs of
            words, are not counted, with a warning.

    Returns:
        A `Corpus` of texts, split into words by `TextOptions()`; otherwise `data`.

    Raises:
        CorpusError: As for `from_texts`, or `data` is one string or path.

    Example:
        >>> count_texts(["An oak, and an elm.", "Ash."], ["ash", "oak"]).counts.toarray().tolist()
        [[0, 1], [1, 0]]
        >>> count_texts([[0, 1], [1, 0]])
        [[0, 1], [1, 0]]
    """
    single = isinstance(data, str | os.PathLike)
    several = type(data) in (list, tuple) or (  # not the named tuple of unit vectors
        len(getattr(data, "shape", ())) == 1 and not sp.issparse(data)
    )
    if single or (several and any(isinstance(text, str) for text in data)):
        corpus = from_texts(data, vocabulary=vocabulary)
        if vocabulary is not None and (words := unmatched(corpus.vocabulary, TextOptions())):
            warnings.warn(
                f"{len(words)} of {len(vocabulary)} words of the vocabulary are not counted: "
                f"TextOptions() cannot produce words such as {printable(words[0])!r}; count "
                "texts with corpus.from_texts and the options of the fit",
                stacklevel=2,
            )
        return corpus
    return data


@functools.lru_cache(maxsize=4)  # for programs that pass one text at a time
def unmatched(vocabulary: tuple[str, ...], options: TextOptions) -> tuple[str, ...]:
    """Return the words that these options produce from no text, stop words aside."""
    terms = _analyzer(options, keep_stop_words=True)
    return tuple(word for word in vocabulary if composed(word) not in terms(word))


def excerpt(text: str) -> str:
    """Return the beginning of a text, on one line."""
    start = " ".join(text[: 2 * _EXCERPT].split())
    cut = len(start) > _EXCERPT or len(text) > 2 * _EXCERPT
    return start[: _EXCERPT - 1].rstrip() + "…" if cut else start


def tokens(texts: Iterable[str], options: TextOptions | None = None) -> Iterator[list[str]]:
    """Yield the words of each text in order, including stop words.

    Args:
        texts: One string per document.
        options: Only case and pattern of the words are used.

    Example:
        >>> list(tokens(["The apple and the pear", ""]))
        [['the', 'apple', 'and', 'the', 'pear'], []]
    """
    options = replace(options or TextOptions(), ngrams=(1, 1))
    return map(_analyzer(options, keep_stop_words=True), texts)


def _no_word_error(options: TextOptions, documents: int, tokens: int) -> tuple[str, str]:
    if documents == 0:
        return "no document", "give at least one"
    if tokens == 0:
        return (
            f"no word is left: none of {documents} documents has one that matches "
            f"{printable(options.token_pattern)} and is not in stop_words={options.stop_words}",
            "give --token-pattern (token_pattern) if words are shorter, or check that this is text",
        )
    problem = (
        f"no word is left after min_df={options.min_df}, max_df={options.max_df}, "
        f"stop_words={options.stop_words}: none of {documents} documents keeps a word"
    )
    return problem, "lower min_df, raise max_df, or check that this is text, one document each"


def _analyzer(options: TextOptions, *, keep_stop_words: bool) -> Callable[[str], list[str]]:
    """Return the function from a text to its terms: words, or runs of words."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

    def preprocessor(text: str) -> str:
        # Lower case may decompose a letter: that of İ is an i and a dot.
        return composed(text.lower() if options.lowercase else text)

    words = CountVectorizer(
        preprocessor=preprocessor,
        tokenizer=letters.words if options.token_pattern == letters.PATTERN else None,
        token_pattern=options.token_pattern,
    ).build_analyzer()
    stop_list: Iterable[str] = ()
    if not keep_stop_words and options.stop_words == "english":
        stop_list = ENGLISH_STOP_WORDS
    elif not keep_stop_words and options.stop_words != "none":
        stop_list = [line for _, line in text_lines(Path(options.stop_words))]
    # Stop words are split like the text, so that "don't" stops the words it becomes.
    stop = {word for entry in stop_list for word in words(entry)}
    shortest, longest = options.ngrams

    def terms(text: str) -> list[str]:
        content = [word for word in words(text) if word not in stop]
        if longest == 1:
            return content
        starts = ((size, len(content) - size + 1) for size in range(shortest, longest + 1))
        return [" ".join(content[i : i + size]) for size, ends in starts for i in range(ends)]

    return terms
