"""Documents that stand for topics."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

_DOCUMENTS, _WORDS = 3, 12


def representative(
    table: sp.csr_array,
    names: Sequence[str],
    vocabulary: Sequence[str],
    proportions: np.ndarray,
    topics: np.ndarray,
) -> list[list[dict[str, object]]]:
    """Return documents with most of each topic, and their words that speak most for it.

    Args:
        table: Counts or weights of words [D, V].
        names: D document names.
        vocabulary: V words.
        proportions: Topic proportions [D, K]; with any other number of rows there is no example.
        topics: Probabilities or loadings of words [K, V].

    Returns:
        For each topic `{"name": ..., "share": ..., "words": [...]}`, largest share first.

    Example:
        >>> found = representative(sp.csr_array([[1, 2], [3, 0]]), ["a", "b"], ["oak", "elm"],
        ...     np.array([[0.9], [0.2]]), np.array([[0.5, 0.5]]))
        >>> found[0][0]
        {'name': 'a', 'share': 0.9, 'words': ['elm', 'oak']}
    """
    if len(proportions) != len(names):
        return []
    found = []
    for topic, shares in zip(topics, proportions.T, strict=True):
        best = np.argpartition(-shares, min(_DOCUMENTS, shares.size) - 1)[:_DOCUMENTS]
        entries = []
        for document in best[np.argsort(-shares[best], kind="stable")]:
            row = table[[document]]
            weight = row.data * topic[row.indices]
            words = row.indices[np.argsort(-weight, kind="stable")[:_WORDS]]
            entries.append(
                {
                    "name": names[document].encode("utf-8", "replace").decode(),
                    "share": float(shares[document]),
                    "words": [vocabulary[word] for word in words],
                }
            )
        found.append(entries)
    return found
