"""Finding the least informative words, and leaving words out of a corpus."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus.corpus import Corpus, error_at, row_blocks
from simplex_jax._src.corpus.vocabulary import composed

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
    expansion = np.log(large) + 1 / (2 * large) - 1 / (12 * large**2)
    table = np.interp(rate, _RATES, _MEAN_LOGS)
    return rate * np.where(rate < _FEW, table, expansion)


def _mean_logs(rates: np.ndarray) -> np.ndarray:
    n = np.arange(4 * _FEW)
    log_factorial = np.concatenate([[0], np.cumsum(np.log(n[1:]))])
    log_law = n * np.log(rates)[:, None] - rates[:, None] - log_factorial
    return np.exp(log_law) @ np.log(n + 1)


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
    return corpus._replace(counts=counts, vocabulary=vocabulary)
