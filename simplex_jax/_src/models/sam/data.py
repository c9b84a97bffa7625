"""Documents of the spherical admixture model: unit vectors, or counts with tf-idf weights."""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src import arguments
from simplex_jax._src.corpus import Corpus, from_counts, same_words, split, to_vocabulary
from simplex_jax._src.corpus import digest as digest_of
from simplex_jax._src.corpus import vectors as unit
from simplex_jax._src.corpus.corpus import error_at
from simplex_jax._src.corpus.text import count_texts
from simplex_jax._src.corpus.vectors import UnitVectors
from simplex_jax._src.corpus.vocabulary import even_empty


class Data(NamedTuple):
    """Documents; those without a direction are left out."""

    vectors: UnitVectors  # the documents with a direction
    names: tuple[str, ...]  # the names of all documents
    rows: np.ndarray  # indices of the documents with a direction, int64
    idf: np.ndarray  # idf weight of every word; ones for unit vectors
    counts: Corpus | None = None  # the counts of all documents, or None for unit vectors
    weighting: str | None = None  # the weighting rule, one of `vectors.IDF`; None for unit vectors

    @property
    def excluded(self) -> tuple[str, ...]:
        """Names of the documents without a direction."""
        out = np.setdiff1d(np.arange(len(self.names)), self.rows)
        return tuple(self.names[row] for row in out)

    def scatter_to_all(self, proportions: np.ndarray) -> np.ndarray:
        """Return proportions [D, K] of all documents, equal ones for those without a direction."""
        return scatter_to_all(np.isin(np.arange(len(self.names)), self.rows), proportions)


def scatter_to_all(present: np.ndarray, proportions: np.ndarray) -> np.ndarray:
    """Return proportions of all documents, float32, equal ones for those not present."""
    whole = np.full((len(present), proportions.shape[1]), 1 / proportions.shape[1], np.float32)
    whole[present] = proportions
    return whole


def weigh(corpus: Corpus, weighting: str = "log") -> Data:
    """Convert counts to unit vectors by tf-idf, with the weights of the corpus.

    Args:
        corpus: D documents; `corpus.cut` drops rare and ubiquitous words.
        weighting: The weighting rule, one of `vectors.IDF`, see `vectors.idf_weights`.

    Raises:
        ValueError: No document has a direction, or `weighting` is unknown.

    Example:
        >>> counts = from_counts([[2, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]])
        >>> data = weigh(counts)
        >>> data.idf.round(2).tolist(), data.excluded
        ([0.29, 0.29, 1.39], ('3',))
    """
    arguments.choice("weighting", weighting, unit.IDF)
    return _weighed(corpus, unit.idf_weights(corpus, weighting), weighting)


def _weighed(corpus: Corpus, idf: np.ndarray, weighting: str) -> Data:
    weighed = unit.tfidf(corpus, idf)
    return Data(weighed.vectors, corpus.names, weighed.rows, idf, corpus, weighting)


def as_data(documents: Any, source: str = "vectors") -> Data:
    """Check and return documents: unit vectors, or counts or texts, converted by `weigh`."""
    if isinstance(documents, Data):
        return documents
    if isinstance(documents, UnitVectors):
        return _of_vectors(documents)
    if (counts := _counts_of(documents)) is not None:
        return weigh(counts)
    return _of_vectors(unit.from_array(documents, source=source))


def _of_vectors(vectors: UnitVectors) -> Data:
    documents, words = vectors.values.shape
    return Data(vectors, vectors.names, np.arange(documents), np.ones(words))


def _counts_of(documents: Any, vocabulary: Sequence[str] | None = None) -> Corpus | None:
    documents = count_texts(documents, vocabulary)
    if isinstance(documents, Data):
        return documents.counts
    if isinstance(documents, Corpus):
        return documents
    if isinstance(documents, UnitVectors) or not _holds_counts(documents):
        return None
    if vocabulary is None:
        return from_counts(documents)
    return even_empty(vocabulary, lambda: from_counts(documents))


def _holds_counts(table: Any) -> bool:
    """Tell whether a table, such as an array, a DataFrame or lists of rows, has counts.

    Whole numbers of floating point are counts if one exceeds 1, as no number of a unit vector does.
    """
    try:
        values = table.data if sp.issparse(table) else np.asarray(table)
    except ValueError:  # Rows of different lengths: the reader of vectors raises the error.
        return False
    if values.dtype.kind != "f":
        return values.dtype.kind in "iub"
    return bool((values >= 2).any() and (values >= 0).all() and (values == np.rint(values)).all())


def match_vocabulary(
    documents: Any,
    vocabulary: tuple[str, ...],
    idf: np.ndarray,
    weighting: str | None,
    source: str = "documents",
) -> Data:
    """Return documents over a vocabulary, with counts weighted by the given idf.

    Counts and texts may have any vocabulary, unit vectors must have the given one. `source` names
    the documents in messages, and `weighting` is None for a model of unit vectors. Possibly no
    document has a direction: see `check_directions`.
    """
    counts = _counts_of(documents, vocabulary)
    if counts is None:
        data = as_data(documents, source)
        return data._replace(vectors=same_words(data.vectors, vocabulary, source=source))
    rule = check_weighting(weighting, source)
    mapped = to_vocabulary(counts, vocabulary, source=source).corpus
    if not (mapped.counts @ idf).any():
        none = UnitVectors(sp.csr_array((0, len(idf)), dtype=np.float32), mapped.vocabulary, ())
        return Data(none, mapped.names, np.zeros(0, np.int64), idf, mapped, rule)
    return _weighed(mapped, idf, rule)


def check_directions(data: Data, source: str) -> Data:
    """Return the data, or raise a CorpusError if no document has a direction."""
    if not data.rows.size:
        raise error_at(
            source,
            "no document has a direction, because none has a word with a weight in the model",
            "give others, or use a model with weights by the rule 'smooth' (the command's "
            "--idf smooth)",
        )
    return data


def check_weighting(weighting: str | None, source: str) -> str:
    """Return the weighting rule of counts, or raise a ValueError if there is none."""
    if weighting is None:
        raise ValueError(
            f"{source}: the model is of unit vectors, and this has counts, for which it has no "
            "weights: give unit vectors (a table of numbers, rows of length 1; to the command an "
            ".npz with --format vectors)"
        )
    return weighting


def digest(data: Data) -> str:
    """Return the digest of unit vectors, or of counts and their weighting rule."""
    if data.counts is None:
        return unit.digest(data.vectors)
    return hashlib.sha256(f"{digest_of(data.counts)} {data.weighting}".encode()).hexdigest()


def hold_out(data: Data, count: int, seed: int) -> tuple[Data, sp.csr_array | None]:
    """Hold out random documents, which do not affect the weights of the words.

    Return the other documents, and unit vectors of the held-out ones; if none of these has a
    direction, return all documents and None.
    """
    out = split.held_out(len(data.names), count, seed)
    if data.counts is None or data.weighting is None:
        train = _of_vectors(unit.select(data.vectors, ~out))
        return train, data.vectors.values[np.flatnonzero(out)]
    train = weigh(split.rows(data.counts, ~out), data.weighting)
    everything = unit.tfidf(data.counts, train.idf)
    outside = out[everything.rows]
    if not outside.any():
        return data, None
    return train, everything.vectors.values[np.flatnonzero(outside)]
