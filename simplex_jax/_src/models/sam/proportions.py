"""Topic proportions of any number of documents given topics, in bounded memory."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.corpus import vectors as unit
from simplex_jax._src.corpus.vectors import UnitVectors
from simplex_jax._src.models.sam import laplace, local

SHARD = 1_024
_SAMPLES, _BURN_IN = 256, 4
_STREAM = 0x7370  # keeps the random numbers apart from those of a fit with the same seed


def transform(
    topics: ArrayLike,
    documents: UnitVectors | sp.csr_array,
    *,
    alpha: float,
    kappa1: float,
    seed: int = 0,
    samples: int = _SAMPLES,
    shard: int = SHARD,
) -> np.ndarray:
    """Return the topic proportions of documents.

    They are the posterior means of each document's proportions given the topics, over steps of the
    method "hmc" of `models.sam.local`.

    Args:
        topics: Directions [K, V], of any length but 0, e.g. `Fit.topics`.
        documents: Unit vectors [D, V].
        alpha: Concentration of topic proportions, per topic, e.g. `Fit.alpha`.
        kappa1: Concentration of the documents, e.g. `Fit.kappa1`.
        seed: Seed of the draws.
        samples: Samples per document.
        shard: Number of documents processed together.

    Returns:
        Proportions, float32 [D, K]; rows sum to 1.

    Raises:
        ValueError: An argument is out of range, a document is not a unit vector, or documents and
            topics differ in their number of words.

    Example:
        >>> import numpy as np
        >>> from simplex_jax._src.models import sam
        >>> shares = sam.transform(
        ...     np.eye(2, 3), sp.csr_array([[1.0, 0.0, 0.0]]), alpha=0.5, kappa1=50.0)
        >>> bool(shares[0, 0] > 0.8), shares.shape
        (True, (1, 2))
    """
    options: dict[str, Any] = {"seed": seed, "samples": samples, "shard": shard}
    return np.concatenate([*shards(topics, documents, alpha=alpha, kappa1=kappa1, **options)])


def shards(
    topics: ArrayLike,
    documents: UnitVectors | sp.csr_array,
    *,
    alpha: float,
    kappa1: float,
    seed: int = 0,
    samples: int = _SAMPLES,
    shard: int = SHARD,
) -> Iterator[np.ndarray]:
    """Yield the proportions of documents as `transform` computes them, shard by shard.

    Arguments as for `transform`, which raises the same errors.

    Yields:
        The proportions of the next documents, float32 [n, K].
    """
    shard = arguments.at_least("shard", shard, 1)
    samples = arguments.at_least("samples", samples, 1)
    for name, value in (("alpha", alpha), ("kappa1", kappa1)):
        if not 0 < value < np.inf:
            raise ValueError(f"{name} must be finite and positive; it is {value}")
    directions = as_directions(topics)
    if not isinstance(documents, UnitVectors):
        documents = unit.from_array(documents)
    table = documents.values
    if table.shape[1] != directions.shape[1]:
        raise ValueError(
            f"the documents have {table.shape[1]} words and the topics {directions.shape[1]}: "
            "give documents over the vocabulary of the topics"
        )
    key = jax.random.fold_in(jax.random.key(arguments.seed(seed)), _STREAM)
    width = min(shard, table.shape[0])

    def work() -> Iterator[np.ndarray]:
        for number, first in enumerate(range(0, table.shape[0], shard)):
            part = table[first : first + shard]
            law = law_of(directions, part, alpha, kappa1, width)
            shares = means(jax.random.fold_in(key, number), law, _BURN_IN, samples)
            yield np.asarray(shares[: part.shape[0]])

    return work()


def as_directions(topics: ArrayLike) -> np.ndarray:
    """Return topics as unit rows, float32 [K, V], or raise a ValueError."""
    array = np.asarray(topics, np.float64)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"topics must be numbers [K, V]; their shape is {array.shape}")
    lengths = np.linalg.norm(array, axis=1)
    if not ((lengths > 0) & np.isfinite(lengths)).all():
        raise ValueError("topics must have rows that are finite and not zero")
    return (array / lengths[:, None]).astype(np.float32)


def law_of(
    topics: np.ndarray, table: sp.csr_array, alpha: float, kappa1: float, width: int
) -> laplace.Target:
    """Return the posterior of the proportions of documents, padded to `width` of them.

    It needs only the K cosines of a document with the topics, whose cost is that of its nonzeros.
    """
    cosines = np.zeros((width, len(topics)), np.float32)
    cosines[: table.shape[0]] = table @ topics.T
    gram = topics @ topics.T
    return laplace.Target(
        jnp.asarray(cosines), jnp.asarray(gram), jnp.float32(alpha), jnp.float32(kappa1)
    )


means = jax.jit(local.mean_shares)
