"""Coherence and diversity of topics.

Coherence measures whether pairs of a topic's most probable words occur in the same documents of a
reference corpus. Only the columns of those words are read, and documents are counted for the pairs
of one topic at a time, so the cost is one pass over the corpus, in blocks of documents, independent
of the vocabulary and of K^2. A word counts once per document. Counts do not keep the order of
words, so there is no sliding window: "C_v" and "C_NPMI" with a window, see `windows`, are on
another scale, and only values from the same corpus and number of words are comparable.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.corpus.corpus import Corpus, counts_in, row_blocks
from simplex_jax._src.evaluate.matching import as_topics


def coherence(
    topics: ArrayLike, counts: Corpus | sp.csr_array, *, measure: str = "npmi", top: int = 10
) -> np.ndarray:
    """Return the coherence of every topic.

    With D documents, D(w) of them with the word w and D(v, w) with both:

    * "npmi", the mean over pairs of log(D(v, w) D / (D(v) D(w))) / -log(D(v, w) / D) (Bouma 2009;
      Aletras and Stevenson 2013), in [-1, 1]: -1 for words that never occur together, 0 for
      independent ones, 1 for words that always do;
    * "u_mass", the mean over pairs of log((D(v, w) + 1) / D(w)) with w the more probable of the two
      (Mimno et al. 2011, who take the sum); at most about 0, higher is better;
    * "c_v", the mean cosine between each word's vector of NPMI with all the words and the sum of
      these vectors (Röder et al. 2015), in [-1, 1].

    Args:
        topics: Topics [K, V] as floating-point numbers (probabilities, or signed loadings of
            spherical topics), or word ids [K, n] as integers, the most probable first.
        counts: The reference documents, a `Corpus` or counts [D, V]: the training corpus or a
            larger one.
        measure: "npmi", "u_mass" or "c_v".
        top: Number of words per topic, at least 2; at most V are used. Ignored for word ids.

    Returns:
        float64 [K]. Words that occur in no document are omitted; NaN if fewer than two remain.

    Raises:
        ValueError: An argument is out of range, a word id repeats or is outside the vocabulary, or
            topics and counts have different vocabularies.

    Example:
        >>> import scipy.sparse as sp
        >>> counts = sp.csr_array([[1, 2, 0, 0], [3, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 0]])
        >>> coherence([[0, 1], [2, 3], [0, 2]], counts).round(3).tolist()
        [1.0, 0.5, -1.0]
    """
    arguments.choice("measure", measure, MEASURES)
    counts = counts_in(counts, "counts")
    words = words_of(topics, counts.shape[1], top)
    scores = np.full(len(words), np.nan)
    for topic, joint in enumerate(_documents_together(words, counts)):
        occurring = np.flatnonzero(np.diagonal(joint))
        if len(occurring) >= 2:
            table = joint[np.ix_(occurring, occurring)]
            scores[topic] = MEASURES[measure](table, counts.shape[0])
    return scores


def top_words(topics: ArrayLike, top: int) -> np.ndarray:
    """Return the ids of the most probable words of every topic, int64 [K, min(top, V)].

    The most probable word comes first; ties are in the order of the vocabulary.
    """
    array = as_topics("topics", topics)
    return strongest(array, arguments.at_least("top", top, 1))


def diversity(topics: ArrayLike, top: int = 25) -> float:
    """Return the share of distinct words among the top words of all topics (Dieng et al. 2020).

    It is between 1 / K (all topics alike) and 1 (no shared top words). Topics are [K, V].

    Example:
        >>> diversity([[0.5, 0.4, 0.1], [0.5, 0.1, 0.4]], top=2)
        0.75
    """
    words = top_words(topics, top)
    return len(np.unique(words)) / words.size


def strongest(loadings: np.ndarray, top: int) -> np.ndarray:
    """Return the ids of the largest entries of each row in order, without sorting whole rows."""
    top = min(top, loadings.shape[1])
    ids = []
    for row in loadings:
        threshold = np.partition(row, len(row) - top)[len(row) - top]
        candidates = np.flatnonzero(row >= threshold)
        ids.append(candidates[np.argsort(-row[candidates], kind="stable")[:top]])
    return np.array(ids)


def words_of(topics: ArrayLike, num_words: int, top: int) -> np.ndarray:
    """Return the ids of the words to use, [K, n], from topics [K, V] or from ids."""
    array = np.asarray(topics)
    if array.dtype.kind not in "iu":
        top = arguments.at_least("top", top, 2)
        if array.ndim != 2 or not array.size or array.dtype.kind != "f":
            raise ValueError(f"topics must be numbers [K, V]; they are {array.dtype} {array.shape}")
        wrong = ~np.isfinite(array.sum(axis=1, dtype=np.float64))
        if wrong.any():
            raise ValueError(
                f"topics: row {int(np.argmax(wrong))} is not a topic: it is not finite"
            )
        if array.shape[1] != num_words:
            raise ValueError(
                f"topics have {array.shape[1]} words and counts {num_words}: "
                "use the same vocabulary for both"
            )
        array = strongest(array, top)
    if array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(f"word ids must be [K, n] with n at least 2; their shape is {array.shape}")
    if array.min() < 0 or array.max() >= num_words:
        raise ValueError(f"word ids must be from 0 to {num_words - 1}, the columns of counts")
    if (np.diff(np.sort(array, axis=1), axis=1) == 0).any():
        raise ValueError("word ids must not repeat within a topic")
    return array


def _documents_together(words: np.ndarray, counts: sp.csr_array) -> np.ndarray:
    """Count documents with both words of each pair, int64 [K, n, n]; D(w) on the diagonal."""
    used, place = np.unique(words, return_inverse=True)
    joint = np.zeros((*words.shape, words.shape[1]), np.int64)
    for rows in row_blocks(sp.csr_array(counts)):
        entries = rows[:, used].tocoo()
        present = np.zeros((len(used), rows.shape[0]), bool)
        present[entries.col[entries.data > 0], entries.row[entries.data > 0]] = True
        for topic, columns in enumerate(place.reshape(words.shape)):
            # Exact in float32: a block has few documents.
            own = present[columns].astype(np.float32)
            joint[topic] += (own @ own.T).astype(np.int64)
    return joint


def _npmi_table(joint: np.ndarray, documents: int) -> np.ndarray:
    """NPMI of all pairs [n, n]; words must occur."""
    occurrences = np.diagonal(joint)
    with np.errstate(divide="ignore", invalid="ignore"):
        pmi = np.log(joint * documents / np.multiply.outer(occurrences, occurrences))
        table = pmi / -np.log(joint / documents)
    table[joint == 0] = -1.0  # limits for words that never, or always, occur together
    table[joint == documents] = 1.0
    return table


def _u_mass(joint: np.ndarray, documents: int) -> float:
    first, second = np.triu_indices(len(joint), 1)
    return float(np.log((joint[first, second] + 1) / joint[first, first]).mean())


def _c_v(joint: np.ndarray, documents: int) -> float:
    vectors = _npmi_table(joint, documents)
    total = vectors.sum(axis=0)
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(total)
    # Vectors that cancel have no direction.
    return float(np.mean((vectors @ total) / norms)) if norms.all() else 0.0


MEASURES: dict[str, Callable[[np.ndarray, int], float]] = {
    "npmi": lambda joint, documents: float(
        _npmi_table(joint, documents)[np.triu_indices(len(joint), 1)].mean()
    ),
    "u_mass": _u_mass,
    "c_v": _c_v,
}
"""Coherence measures by name, from co-occurrence counts [n, n] and the number of documents."""
