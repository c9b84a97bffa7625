"""Representative documents of topics."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

MOST_DOCUMENTS, _WORDS = 10, 12


def representative(
    table: sp.csr_array,
    names: Sequence[str],
    vocabulary: Sequence[str],
    proportions: np.ndarray,
    topics: np.ndarray,
    excerpts: Sequence[str] = (),
) -> list[list[dict[str, object]]]:
    """Return the documents with the largest share of each topic, and their contents.

    The contents are the beginning of the text, if there are excerpts, and the most typical words.
    Empty documents represent no topic.

    `table` [D, V] has counts or weights, `topics` [K, V] are probabilities or loadings, and
    `proportions` are [D, K]; with any other number of rows there are no examples.
    """
    if len(proportions) != len(names):
        return []
    examples = []
    empty = np.diff(table.indptr) == 0  # Their shares are those of the prior.
    for topic, own in zip(topics, proportions.T, strict=True):
        shares = np.where(empty, -1, own)
        best = np.argpartition(-shares, min(MOST_DOCUMENTS, shares.size) - 1)[:MOST_DOCUMENTS]
        entries = []
        for document in best[np.argsort(-shares[best], kind="stable")]:
            if empty[document]:
                continue
            row = table[[document]]
            weight = row.data * topic[row.indices]
            words = row.indices[np.argsort(-weight, kind="stable")[:_WORDS]]
            entries.append(
                {
                    "name": _replace_surrogates(names[document]),
                    "share": float(shares[document]),
                    "words": [vocabulary[word] for word in words],
                    "text": _replace_surrogates(excerpts[document]) if excerpts else "",
                }
            )
        examples.append(entries)
    return examples


def _replace_surrogates(text: str) -> str:
    """Return a text with lone surrogates replaced: UTF-8 cannot encode them."""
    return text.encode("utf-8", "replace").decode()
