"""Export of fitted topics to pyLDAvis."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.corpus.corpus import checked_counts
from simplex_jax._src.evaluate.matching import as_topics


def to_pyldavis(
    topics: ArrayLike,
    proportions: ArrayLike,
    counts: sp.csr_array,
    vocabulary: Sequence[str],
    *,
    top_terms: int = 3000,
) -> dict[str, Any]:
    """Return the arguments of `pyLDAvis.prepare`.

    Its pages become slow with large vocabularies, so only the most frequent words are kept, and
    topics are rescaled to sum to 1 over them. Empty documents are omitted, as pyLDAvis rejects
    them.

    Args:
        topics: Word probabilities, [K, V], such as `Fit.topics`.
        proportions: Topic proportions of the documents, [D, K], such as `Fit.proportions`.
        counts: Word counts of the documents, integers [D, V].
        vocabulary: The V words.
        top_terms: Number of words to keep, at least 2.

    Returns:
        `topic_term_dists` [K, T], `doc_topic_dists` [D', K], `doc_lengths` [D'], `vocab` (T words,
        the most frequent first) and `term_frequency` [T].

    Raises:
        ValueError: An argument is out of range or the shapes do not go together.

    Example:
        >>> import scipy.sparse as sp
        >>> prepared = to_pyldavis(
        ...     [[0.5, 0.4, 0.1]], [[1.0], [1.0]], sp.csr_array([[3, 4, 0], [0, 0, 0]]),
        ...     ["sun", "moon", "star"], top_terms=2)
        >>> prepared["vocab"], prepared["term_frequency"].tolist(), prepared["doc_lengths"].tolist()
        (['moon', 'sun'], [4, 3], [7])
        >>> prepared["topic_term_dists"].round(4).tolist()
        [[0.4444, 0.5556]]
    """
    table = as_topics("topics", topics).astype(np.float64)
    shares = np.asarray(proportions, np.float64)
    counts = checked_counts(counts, "counts")
    if counts.shape[1] != table.shape[1] or shares.shape != (counts.shape[0], len(table)):
        raise ValueError(
            f"topics {table.shape}, proportions {shares.shape} and counts {counts.shape} must be "
            "[K, V], [D, K] and [D, V]"
        )
    if len(vocabulary) != table.shape[1]:
        raise ValueError(f"vocabulary has {len(vocabulary)} words for {table.shape[1]} columns")
    frequency = counts.sum(axis=0, dtype=np.int64)
    words = np.argsort(-frequency, kind="stable")[: arguments.at_least("top_terms", top_terms, 2)]
    lengths = counts.sum(axis=1, dtype=np.int64)
    nonempty = lengths > 0
    weights = table[:, words]
    if not (weights.sum(axis=1) > 0).all():
        raise ValueError(f"a topic has no word among the {len(words)} kept: raise top_terms")
    return {
        "topic_term_dists": weights / weights.sum(axis=1, keepdims=True),
        "doc_topic_dists": shares[nonempty] / shares[nonempty].sum(axis=1, keepdims=True),
        "doc_lengths": lengths[nonempty],
        "vocab": [str(vocabulary[word]) for word in words],
        "term_frequency": frequency[words],
    }
