"""Text to counts: tokens and vocabulary limits."""

import functools
import itertools
import os
import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import frames
from simplex_jax._src.corpus.corpus import (
    Corpus,
    CorpusError,
    EmptyCorpusError,
    Tokens,
    distinct_words,
    empty_corpus,
    error_at,
    from_counts,
    labels_of,
    printable,
)
from simplex_jax._src.corpus.files import text_lines
from simplex_jax._src.corpus.vocabulary import composed, even_empty, warn_of_foreign
from simplex_jax._src.extras import needed
from simplex_jax._src.options import option, options
from simplex_jax._src.warn import warn_caller

# Words of any script in running text, including combining marks.

_CAPITALS = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a1\u03a3-\u03ab\u0401-\u042f"
_START, _END = r"(?<![^\W_])", r"(?![^\W_])"  # underscores around a word, as in _this_, are no part
PATTERN = rf"{_START}(?:[^\W\d_]\w+[^\W_]|[{_CAPITALS}]{{2}}){_END}"
"""The pattern that users see; it matches as `words` does in texts without marks."""

_JOINERS = "\u200c\u200d"  # within words of Persian, Hindi and others
_STYLES = "\ufe0e\ufe0f"  # marks, but of emoji, which a word may follow directly
_PLAIN = re.compile(PATTERN)
_PLAIN_RUN = re.compile(r"\w+")

# Scripts without blanks between words, and the mean length of their words when these are separated
_UNSPACED = {
    "Chinese or Japanese": ("\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff", 4),
    "Thai": ("\u0e00-\u0e7f", 9),
    "Lao": ("\u0e80-\u0eff", 9),
    "Burmese": ("\u1000-\u109f", 10),
    "Khmer": ("\u1780-\u17ff", 10),
}
_ANY_UNSPACED = re.compile(f"[{''.join(letters for letters, _ in _UNSPACED.values())}]")
_SYLLABLES = re.compile("[\u1100-\u11ff\uac00-\ud7af]")  # of Korean, two of which make a word


def words(text: str) -> list[str]:
    r"""Return the words of a text, before its conversion to lower case.

    A word has three or more letters, digits and underscores, of which the first is a letter and the
    last no underscore; or two capital letters. A mark or a joiner after a letter counts as a
    letter: Python's `\w` excludes marks and would split words of many scripts.

    Example:
        >>> words("the rivers नदी and நதி, new_york, covid19, AI and 2nd or h2")
        ['the', 'rivers', 'नदी', 'and', 'நதி', 'new_york', 'covid19', 'AI', 'and']
    """
    may_have_marks, marked, _ = _patterns()
    # The plain pattern finds the same words in texts without marks, twice as fast.
    return (marked if may_have_marks.search(text) else _PLAIN).findall(text)


def others(text: str, pattern: re.Pattern[str] | None = None) -> list[str]:
    """Return the runs of letters, digits and underscores in a text outside of its words.

    Args:
        text: The text.
        pattern: The pattern of a word; by default that of `words`.

    Example:
        >>> others("It is the 2nd of 10 rivers")
        ['It', 'is', '2nd', 'of', '10']
    """
    may_have_marks, marked, run = _patterns()
    plain = may_have_marks.search(text) is None
    rest = (pattern or (_PLAIN if plain else marked)).sub(" ", text)
    return (_PLAIN_RUN if plain else run).findall(rest)


def unspaced(text: str) -> dict[str, tuple[int, int]]:
    """Return the number and total length of words of each script that has no blanks between words.

    Example:
        >>> unspaced("the word 荷物と灯台が見える")
        {'Chinese or Japanese': (1, 9)}
    """
    found: dict[str, tuple[int, int]] = {}
    if _ANY_UNSPACED.search(text) is None:
        return found
    run = _patterns()[2]
    for script, (letters, _) in _UNSPACED.items():
        some = re.compile(f"[{letters}]")
        if lengths := [len(word) for word in run.findall(text) if some.search(word)]:
            found[script] = (len(lengths), sum(lengths))
    return found


def short_in(word: str) -> bool:
    """Return whether words of this word's script are whole words at one or two letters."""
    return bool(_ANY_UNSPACED.search(word) or _SYLLABLES.search(word))


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a possible mark, of a word, and of a run of letters and digits."""
    # The planes that have marks; a fixed table would be outdated by the next version of Unicode.
    points = map(chr, (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)))
    ranges: list[list[str]] = []
    for mark in points:
        if unicodedata.category(mark) not in ("Mn", "Mc") or mark in _STYLES:
            continue
        if ranges and ord(ranges[-1][1]) == ord(mark) - 1:
            ranges[-1][1] = mark
        else:
            ranges.append([mark, mark])
    marks = "".join(f"{first}-{last}" for first, last in ranges)
    basic = "".join(f"{first}-{last}" for first, last in ranges if last <= "\uffff")
    extra = f"{marks}{_JOINERS}"
    # A mark may be the last letter, and no word begins after one.
    word = (
        rf"{_START}(?<![{marks}])(?:[^\W\d_][\w{extra}]+(?:[^\W_]|[{extra}])|[{_CAPITALS}]{{2}})"
        rf"{_END}(?![{extra}])"
    )
    return (
        re.compile(f"[{basic}{_JOINERS}\U00010000-\U0010ffff]"),
        re.compile(word),
        re.compile(rf"\w[\w{extra}]*"),
    )


TOKENS = ("words", "blanks", "icu")
"""What the tokens of a text can be; see `TextOptions`."""

_MANY = 0.05
"""Share of the tokens that are lost to the pattern at which a warning says so."""

_MOST_LOST = 0.5
"""The same for numbers, and for words of scripts in which short words are mostly function words."""

_LETTER, _CONTENT = re.compile(r"[^\W\d_]"), re.compile(r"[^\W_]")

_JOINED = re.compile(r"[^\W\d_]\d{0,9}[-:./]\d")
"""A sign in a word between letters, perhaps with digits, and a number, as in chr1:0-500."""

_CONTRACTIONS = frozenset((
    "ain", "aren", "couldn", "didn", "doesn", "don", "hadn", "hasn", "isn", "mightn", "mustn",
    "needn", "shan", "shouldn", "wasn", "weren", "wouldn", "d", "ll", "m", "re", "s", "t", "ve",
))  # fmt: skip
"""What words such as `don't` and `we've` become; scikit-learn's list lacks these."""

_EXCERPT = 200
"""Characters of an excerpt, which takes about as much memory as the counts of 25 words."""


def _checked_pattern(name: str, value: Any) -> str:
    try:
        groups = re.compile(value).groups
    except (re.error, TypeError) as error:
        raise ValueError(
            f"{name} must be a regular expression; it is {value!r} ({error})"
        ) from None
    if groups > 1:
        raise ValueError(f"{name} must have at most one group; it is {value!r}")
    return value


def _checked_ngrams(name: str, value: Any) -> tuple[int, int]:
    sizes: tuple[Any, ...] = tuple(value) if isinstance(value, Iterable) else ()
    whole = all(isinstance(size, Integral) and not isinstance(size, bool) for size in sizes)
    if len(sizes) != 2 or not whole or not 1 <= sizes[0] <= sizes[1]:
        raise ValueError(f"{name} must be two whole numbers from 1, in order; it is {value!r}")
    return int(sizes[0]), int(sizes[1])


def _checked_frequency(name: str, value: Any) -> int | float:
    if isinstance(value, Integral):
        if not isinstance(value, bool) and int(value) >= 1:
            return int(value)
    elif isinstance(value, Real) and 0 <= float(value) <= 1:
        return float(value)
    raise ValueError(
        f"{name} must be a whole number from 1 or a fraction from 0 to 1; it is {value!r}"
    )


def _checked_stop_words(name: str, value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        raise ValueError(
            f"{name} must be 'english', 'none', or a file with one word a line; it is "
            f"{printable(repr(value))}: write other words to a file"
        )
    return os.fspath(value)


@options
class TextOptions:
    """Tokens of text and limits of the vocabulary.

    Raises:
        ValueError: An option is out of range; the message names it.

    Example:
        >>> TextOptions(min_df=1.5)
        Traceback (most recent call last):
        ValueError: min_df must be a whole number from 1 or a fraction from 0 to 1; it is 1.5
    """

    tokens: str = option(
        "words: find them by token_pattern; blanks: texts are tokenised already, split them at "
        "blanks and drop none for its form (only stop words); icu: separate words of Chinese, "
        "Japanese, Thai, Lao, Khmer and Burmese by the dictionaries of ICU (needs pip install "
        "'simplex-jax[icu]').",
        default="words",
        choices=TOKENS,
        kw_only=False,
    )
    lowercase: bool = option(
        "Convert texts to lower case first, or not.",
        default=True,
        flag="--lowercase/--keep-case",
        kw_only=False,
    )
    token_pattern: str = option(
        "Regular expression of a word, with at most one group; texts are composed (NFC) first.",
        default=PATTERN,
        unset="three or more letters and digits, the first a letter; or two capitals",
        check=_checked_pattern,
        metavar="REGEX",
        kw_only=False,
    )
    ngrams: tuple[int, int] = option(
        "Count runs of MIN to MAX successive words, joined by a blank; stop words are left out "
        "first.",
        default=(1, 1),
        unset="1 1, single words",
        check=_checked_ngrams,
        least=1,
        metavar="MIN MAX",
        kw_only=False,
    )
    stop_words: str = option(
        "english (scikit-learn's list, and parts of contractions such as don and ve), none, or a "
        "file with one word a line.",
        default="english",
        check=_checked_stop_words,
        kw_only=False,
    )
    min_df: int | float = option(
        "Keep words in at least this many documents; in Python, a fraction is a share of them.",
        default=5,
        check=_checked_frequency,
        parse=int,
        metavar="NUMBER",
        kw_only=False,
    )
    max_df: int | float = option(
        "Keep words in at most this share of the documents; in Python, a whole number counts them.",
        default=0.5,
        check=_checked_frequency,
        parse=float,
        metavar="SHARE",
        kw_only=False,
    )
    max_vocabulary: int | None = option(
        "Number of most frequent words to keep.", default=30_000, least=1, kw_only=False
    )

    def __post_init__(self) -> None:
        if self.tokens != "words" and self.token_pattern != PATTERN:
            raise ValueError(f"tokens={self.tokens!r} has no effect with a token_pattern: omit one")


def from_texts(
    texts: Iterable[str | Sequence[str]],
    names: Sequence[str] | None = None,
    *,
    options: TextOptions | None = None,
    vocabulary: Sequence[str] | None = None,
    source: str = "texts",
) -> Corpus:
    """Count the words of texts.

    Args:
        texts: One string per document, or a list of its tokens, which are counted as they are
            except for case and stop words; read once, so it may be a generator. Documents without
            words are kept, empty.
        names: Names of the documents; by default the index of a pandas Series, otherwise
            `0, 1, ...`. Read after the last text, so it may be filled in the meantime.
        options: Tokens and vocabulary limits; by default `TextOptions()`.
        vocabulary: The words to count, in this order, regardless of limits and stop words; they are
            compared in composed form (NFC). With it the texts may have no word at all. A warning
            tells of words that the options cannot produce, such as runs of words without `ngrams`.
        source: Name of the texts in error messages, such as a file name.

    Returns:
        The corpus, with words in alphabetical order (or the order of `vocabulary`).

    Raises:
        CorpusError: There is no text, one is not a string, or, without `vocabulary`, no word is
            left.
        ImportError: `tokens="icu"`, and ICU is not installed.

    Example:
        >>> limits = TextOptions(min_df=1, max_df=1.0)
        >>> corpus = from_texts(["The apple and the pear", "Pear, pear!"], options=limits)
        >>> corpus
        <corpus of 2 documents with 2 words and 4 tokens>
        >>> corpus.vocabulary, corpus.counts.toarray().tolist()
        (('apple', 'pear'), [[1, 1], [0, 2]])
        >>> corpus.tokens.dropped
        {'stop words': 3}
        >>> from_texts([["New York", "AI"], ["AI"]], options=limits).vocabulary
        ('ai', 'new york')
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
    if names is None:
        names = getattr(texts, "index", None) if hasattr(texts, "dtype") else None
    words_nfc = None
    if vocabulary is not None:
        vocabulary = distinct_words(vocabulary, source)
        words_nfc = distinct_words([composed(word) for word in vocabulary], source)
    reader = _Reader(options, keep_stop_words=vocabulary is not None)
    excerpts, tokenised = list[str](), True

    def documents() -> Iterator[list[str]]:
        nonlocal tokenised
        for number, text in enumerate(texts):
            checked = _checked_text(text, number, source)
            tokenised &= not isinstance(checked, str)
            excerpts.append(excerpt(checked if isinstance(checked, str) else " ".join(checked)))
            yield reader.terms(checked)

    counts, found = _counted(documents(), words_nfc)
    words: Sequence[str]
    if vocabulary is None:
        chosen, lost = _limited(counts, options)
        counts, words = counts[:, chosen], [found[column] for column in chosen]
    else:
        words, lost = vocabulary, {"not in the vocabulary": reader.kept - int(counts.sum())}
    if counts.nnz:
        corpus = from_counts(counts, words, names, source=source)
        if vocabulary is not None:
            _warn_of_unmatched(corpus.vocabulary, options, source, tokenised=tokenised)
    else:
        error = str(error_at(source, *_no_word_error(options, len(excerpts), reader)))
        if not excerpts:
            raise CorpusError(error)
        shape = (len(excerpts), len(vocabulary or "_"))
        _, labels = labels_of((), shape, vocabulary, names, source)
        if vocabulary is None:
            raise EmptyCorpusError(error, labels)
        warn_of_foreign(reader.kept, source, "check its language, and upper and lower case")
        corpus = empty_corpus(vocabulary, labels)
    told = reader.tokens(int(counts.sum()), lost)
    if vocabulary is None and (problem := reader.problem()):
        warn_caller(f"{source}: {problem}")
    return corpus._replace(excerpts=tuple(excerpts), tokens=told)


def _warn_of_unmatched(
    vocabulary: tuple[str, ...], options: TextOptions, source: str, *, tokenised: bool
) -> None:
    """Warn of words of a given vocabulary that the options of texts never produce."""
    if words := unmatched(vocabulary, options, tokenised=tokenised):
        warn_caller(
            f"{source}: {len(words):,} of {len(vocabulary):,} words of the vocabulary are not "
            f"counted: these TextOptions cannot produce words such as {printable(words[0])!r}; "
            "give the options that made them, such as --ngrams (ngrams), --token-pattern "
            "(token_pattern) or --keep-case (lowercase=False), and to transform texts "
            "corpus.from_texts(texts, options=..., vocabulary=fit.vocabulary)",
        )


def _counted(
    documents: Iterable[list[str]], words: Sequence[str] | None
) -> tuple[sp.csr_array, Sequence[str]]:
    """Return the counts of some words, by default of all in alphabetical order, and the words."""
    columns: dict[str, int] = defaultdict(lambda: len(columns))
    if words is not None:
        columns = {word: column for column, word in enumerate(words)}
    tokens, ends = array("i"), array("q", [0])
    for document in documents:
        if words is None:
            tokens.extend(map(columns.__getitem__, document))
        else:
            tokens.extend(columns[word] for word in document if word in columns)
        ends.append(len(tokens))
    shape = (len(ends) - 1, len(columns))
    indices = np.array(tokens, np.intc)
    starts = np.array(ends, np.intc if len(tokens) < 2**31 else np.int64)
    if words is None:
        words = sorted(columns)
        place = np.empty(len(words), np.intc)
        place[[columns[word] for word in words]] = np.arange(len(words))
        indices = place[indices]
    counts = sp.csr_array((np.ones(len(indices), np.int64), indices, starts), shape=shape)
    counts.sum_duplicates()
    return counts, words


def _checked_text(text: Any, number: int, source: str) -> str | list[str]:
    """Return a text, or the tokens of a document as a list of strings."""
    if isinstance(text, str):
        return text
    if isinstance(text, list | tuple) and all(isinstance(word, str) and word for word in text):
        return list(text)
    raise error_at(
        source,
        f"text {number} (counted from 0) is {printable(repr(text))}, not a string",
        "give one string a document, or a list of its tokens, which are strings",
    )


def _limited(counts: sp.csr_array, options: TextOptions) -> tuple[np.ndarray, dict[str, int]]:
    """Return the columns within the limits, and the numbers of tokens that others have."""
    documents = np.bincount(counts.indices, minlength=counts.shape[1])
    totals = np.asarray(counts.sum(axis=0)).ravel()
    least, most = (
        limit if isinstance(limit, int) else limit * counts.shape[0]
        for limit in (options.min_df, options.max_df)
    )
    rare = documents < least
    common = (documents > most) & ~rare
    kept = ~(rare | common)
    if options.max_vocabulary is not None and kept.sum() > options.max_vocabulary:
        order = np.flatnonzero(kept)
        # As scikit-learn chooses between words of equal totals.
        order = order[(-totals[order]).argsort()[: options.max_vocabulary]]
        chosen = np.zeros_like(kept)
        chosen[order] = True
    else:
        chosen = kept
    lost = {
        f"in fewer documents than min_df={options.min_df:g}": rare,
        f"in more documents than max_df={options.max_df:g}": common,
        f"beyond max_vocabulary={options.max_vocabulary}": kept & ~chosen,
    }
    return np.flatnonzero(chosen), {why: int(totals[which].sum()) for why, which in lost.items()}


def count_texts(data: Any, vocabulary: Sequence[str] | None = None) -> Any:
    """Count the words of texts; return other data unchanged, unless they have words of their own.

    This lets functions that take a corpus also take a list of strings, an AnnData object, or a
    data frame with a word of a document in each row.

    Args:
        data: Texts, one string or list of tokens per document, in a list, tuple, generator, array
            or data frame column; or other data.
        vocabulary: The only V words to count, however rare; by default those of the texts, within
            the limits of `TextOptions()`. Words that its rules cannot produce, such as runs of
            words, are not counted, with a warning.

    Returns:
        A `Corpus` of texts, split into words by `TextOptions()`, or of the counts of AnnData or
        such a data frame; otherwise `data`.

    Raises:
        CorpusError: As for `from_texts`, or `data` is one string or path.

    Example:
        >>> count_texts(["An oak, and an elm.", "Ash."], ["ash", "oak"]).counts.toarray().tolist()
        [[0, 1], [1, 0]]
        >>> count_texts([[0, 1], [1, 0]])
        [[0, 1], [1, 0]]
    """
    if isinstance(data, Iterator):
        data = list(data)
    single = isinstance(data, str | os.PathLike)
    several = type(data) in (list, tuple) or (  # not the named tuple of unit vectors
        len(getattr(data, "shape", ())) == 1 and not sp.issparse(data)
    )
    if single or (several and any(map(_is_text, data))):
        return from_texts(data, vocabulary=vocabulary)
    if frames.is_annotated(data) or frames.triple_in(data):
        if vocabulary is None:
            return from_counts(data)
        return even_empty(vocabulary, lambda: from_counts(data))
    return data


def _is_text(document: Any) -> bool:
    """Return whether this is a text, or a list of tokens."""
    if isinstance(document, list | tuple) and len(document):
        return isinstance(document[0], str)
    return isinstance(document, str)


@functools.lru_cache(maxsize=4)  # for programs that pass one text at a time
def unmatched(
    vocabulary: tuple[str, ...], options: TextOptions, *, tokenised: bool = False
) -> tuple[str, ...]:
    """Return the words that these options produce from no text, stop words aside.

    From lists of tokens (`tokenised`), they produce all words of the right case.
    """
    if tokenised:
        terms = _Reader(replace(options, ngrams=(1, 1)), keep_stop_words=True).terms
        return tuple(word for word in vocabulary if composed(word) not in terms([word]))
    # What makes a word a word may be outside of it, as in #(\w+) and for dictionaries.
    if options.tokens == "icu" or re.compile(options.token_pattern).groups:
        return ()
    terms = _Reader(options, keep_stop_words=True).terms
    # A word of two letters comes from capitals.
    return tuple(
        word
        for word in vocabulary
        if composed(word) not in terms(word) and composed(word) not in terms(word.upper())
    )


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
    return map(_Reader(options, keep_stop_words=True).terms, texts)


def _no_word_error(options: TextOptions, documents: int, reader: "_Reader") -> tuple[str, str]:
    if documents == 0:
        return "no document", "give at least one"
    if reader.kept == 0:
        how = f"--token-pattern {options.token_pattern}" if options.tokens == "words" else ""
        return (
            f"no word is left: none of {documents} documents has one that matches "
            f"{printable(how or '--tokens ' + options.tokens)} and is not in "
            f"stop_words={options.stop_words}",
            "give --tokens blanks (tokens='blanks') or --token-pattern (token_pattern) if words "
            "are shorter, or check that this is text",
        )
    problem = (
        f"no word is left after min_df={options.min_df}, max_df={options.max_df}, "
        f"stop_words={options.stop_words}: none of {documents} documents keeps a word"
    )
    remedy = "lower min_df, raise max_df, or check that this is text, one document each"
    lost = reader.problem()
    return problem, f"{lost}; or {remedy}" if lost else remedy


@functools.cache
def _english_stop_words() -> frozenset[str]:
    """Return the list of scikit-learn, which takes a second to import."""
    file = resources.files("simplex_jax._src.corpus").joinpath("data", "english_stop_words.txt")
    return frozenset(file.read_text("utf-8").split())


class _Reader:
    """Finds the terms of documents, words or runs of words, and counts what it drops."""

    def __init__(self, options: TextOptions, *, keep_stop_words: bool) -> None:
        self._options, self._split = options, _splitter(options)
        stop_list: Iterable[str] = ()
        if not keep_stop_words and options.stop_words == "english":
            stop_list = _english_stop_words()
        elif not keep_stop_words and options.stop_words != "none":
            stop_list = [line for _, line in text_lines(Path(options.stop_words))]
        # Stop words are split like the text, so that "don't" stops the words it becomes; those of
        # two letters, such as ai, are found as capitals.
        split = (self._split(entry)[0] or self._split(entry.upper())[0] for entry in stop_list)
        self._stop = set(itertools.chain.from_iterable(split))
        if not keep_stop_words and options.stop_words == "english":
            self._stop |= _english_stop_words() | _CONTRACTIONS
        self.kept = 0  # terms returned
        self._found = self._stopped = 0
        self._others = Counter[str]()  # runs of letters and digits that are no words
        self._joined: str | None = None  # a word with signs of which numbers were left out
        self._unspaced = dict[str, tuple[int, int]]()

    def terms(self, document: str | list[str]) -> list[str]:
        """Return the terms of a text, or of the tokens of a document."""
        if isinstance(document, str):
            words, others = self._split(document)
            for script, (runs, length) in unspaced(document).items():
                before = self._unspaced.get(script, (0, 0))
                self._unspaced[script] = before[0] + runs, before[1] + length
            if self._joined is None and len(others) > len(words):
                self._joined = next(filter(_JOINED.search, document.split()), None)
        else:
            lower = str.lower if self._options.lowercase else str
            words, others = [composed(lower(word)) for word in document], []
        self._others.update(others)
        content = [word for word in words if word not in self._stop]
        self._found += len(words) + len(others)
        self._stopped += len(words) - len(content)
        shortest, longest = self._options.ngrams
        if longest > 1:
            starts = ((size, len(content) - size + 1) for size in range(shortest, longest + 1))
            content = [
                " ".join(content[i : i + size]) for size, ends in starts for i in range(ends)
            ]
        self.kept += len(content)
        return content

    def tokens(self, kept: int, lost: Mapping[str, int]) -> Tokens:
        """Return what became of the tokens, given the numbers that the vocabulary kept and lost."""
        reasons = Counter({"stop words": self._stopped}) + Counter(lost)
        for word, count in self._others.items():
            reasons[self._reason(word)] += count
        return Tokens(self._found, kept, {why: n for why, n in reasons.most_common() if n})

    def _reason(self, word: str) -> str:
        """Return why a run of letters and digits is no word."""
        if word.lower() in self._stop:
            return "stop words"
        if not _LETTER.search(word):
            return "numbers"
        if self._options.token_pattern != PATTERN:
            return "not matched by token_pattern"
        return "beginning with a digit" if len(word) > 2 else "of one or two letters"

    def problem(self) -> str | None:
        """Return what is lost that should not be, with a remedy; None for nothing."""
        for script, (runs, length) in self._unspaced.items():
            together = runs > _MANY * self._found and length / runs > _UNSPACED[script][1]
            if together and self._options.tokens != "icu":
                return (
                    f"whole clauses in {script} are counted as words, since these scripts have no "
                    "blanks between words: --tokens icu (TextOptions(tokens='icu')) separates them"
                )
        lost, numbers = Counter[str](), Counter[str]()
        for word, count in self._others.items():
            if (reason := self._reason(word)) != "stop words":
                (numbers if reason == "numbers" else lost)[word] = count
        whole = sum(count for word, count in lost.items() if short_in(word))
        if whole > _MANY * self._found or lost.total() > _MOST_LOST * self._found:
            examples = ", ".join(printable(word) for word, _ in lost.most_common(3))
            return (
                f"{lost.total():,} of {self._found:,} words, such as {examples}, are left out, as "
                "token_pattern does not match them (by default, words of three or more letters): "
                "--tokens blanks (TextOptions(tokens='blanks')) keeps all that blanks separate"
            )
        if self._joined and numbers.total() > _MOST_LOST * self._found:
            return (
                f"{numbers.total():,} of {self._found:,} tokens are numbers, which are left out "
                f"also in words such as {printable(self._joined)}: --tokens blanks "
                "(TextOptions(tokens='blanks')) keeps all that blanks separate"
            )
        return None


def _splitter(options: TextOptions) -> Callable[[str], tuple[list[str], list[str]]]:
    """Return the function from a text to its words, and its runs of letters and digits besides."""
    lower = str.lower if options.lowercase else str

    # Lower case may decompose a letter: that of İ is an i and a dot.
    def blanks(text: str) -> tuple[list[str], list[str]]:
        return composed(lower(text)).split(), []

    def default(text: str) -> tuple[list[str], list[str]]:
        text = composed(text)
        return composed(lower(" ".join(words(text)))).split(), others(text)

    def matches(text: str) -> tuple[list[str], list[str]]:
        text = composed(lower(text))
        # A pattern such as \w* also matches nothing, and its group may be part of no match.
        return list(filter(None, pattern.findall(text))), others(text, pattern)

    def segments(text: str) -> tuple[list[str], list[str]]:
        parts = [part for part in breaker(composed(lower(text)), "root") if _CONTENT.search(part)]
        return (
            [part for part in parts if _LETTER.search(part)],
            [part for part in parts if not _LETTER.search(part)],
        )

    if options.tokens == "blanks":
        return blanks
    if options.tokens == "icu":
        breaker = _word_breaker()
        return segments
    pattern = re.compile(options.token_pattern)
    return default if options.token_pattern == PATTERN else matches


def _word_breaker() -> Any:
    with needed("tokens='icu'", "icu"):
        from icu4py.breakers import WordBreaker
    return WordBreaker
