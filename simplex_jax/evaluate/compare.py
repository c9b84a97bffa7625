"""How many topics? Models of several K side by side, with the scatter of repeated fits."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax.draws import arguments
from simplex_jax.evaluate.coherence import coherence


class Entry(NamedTuple):
    """What several fits of one number of topics have come to.

    Attributes:
        num_topics: K.
        heldout: Held-out measure of each fit, float64 [repeats]; NaN without held-out documents.
        coherence: Mean coherence of the topics of each fit, float64 [repeats].
    """

    num_topics: int
    heldout: np.ndarray
    coherence: np.ndarray


class Estimate(NamedTuple):
    """A mean over fits and its standard error, NaN for a single fit."""

    mean: float
    error: float


def models(
    fit: Callable[[int, int], Any],
    num_topics: Sequence[int],
    counts: sp.csr_array,
    *,
    repeats: int = 3,
    heldout: str = "perplexity_average",
    measure: str = "npmi",
    top: int = 10,
) -> list[Entry]:
    """Fit every number of topics several times, and measure each fit.

    The scatter of repeats is that of random starts and of sampling. What else another set of
    held-out documents would have brought is common to all K, and hardly changes which is better.

    Args:
        fit: `(K, seed) -> fit`, with held-out documents; what it returns has `metrics`, of which
            the last record is read, and `mean`, topics [K, V].
        num_topics: The K to compare.
        counts: Reference documents of the coherence [D, V]; best not the training documents, whose
            noise the topics of a large K learn.
        repeats: Fits of each K, with the seeds 0, 1, ...
        heldout: Name of the held-out measure in the metrics; `log_perplexity_average` of spherical
            models.
        measure: Of `coherence.coherence`.
        top: Likewise.

    Returns:
        An entry for each K, in the order given; `plots.comparison` draws them.

    Raises:
        ValueError: `num_topics` is empty, `repeats` is below 1, or as for `coherence.coherence`.

    Example:
        >>> from types import SimpleNamespace
        >>> import numpy as np, scipy.sparse as sp
        >>> from simplex_jax.evaluate import compare
        >>> counts = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])
        >>> def fit(k, seed):  # topics.fit(train, k, seed=seed, heldout=(observed, target))
        ...     topics = np.random.default_rng(seed).dirichlet(np.ones(4), size=k)
        ...     return SimpleNamespace(metrics=[{"perplexity_average": 4 / k + seed}], mean=topics)
        >>> for entry in compare.models(fit, [1, 2], counts, repeats=3, top=2):
        ...     print(entry.num_topics, entry.heldout, compare.estimate(entry.heldout).mean)
        1 [4. 5. 6.] 5.0
        2 [2. 3. 4.] 3.0
    """
    if not len(num_topics):
        raise ValueError("num_topics must have at least one number of topics")
    repeats = arguments.at_least("repeats", repeats, 1)
    entries = []
    for k in num_topics:
        fits = [fit(arguments.at_least("num_topics", k, 1), seed) for seed in range(repeats)]
        lasts = [one.metrics[-1] if one.metrics else {} for one in fits]
        scores = [coherence(one.mean, counts, measure=measure, top=top) for one in fits]
        entries.append(
            Entry(
                int(k),
                np.array([float(last.get(heldout, np.nan)) for last in lasts]),
                np.array([_mean(score) for score in scores]),
            )
        )
    return entries


def estimate(values: np.ndarray) -> Estimate:
    """Return the mean of repeated fits and its standard error.

    Example:
        >>> estimate([3.0, 5.0])
        Estimate(mean=4.0, error=1.0)
    """
    array = np.asarray(values, np.float64)
    error = array.std(ddof=1) / math.sqrt(len(array)) if len(array) > 1 else math.nan
    return Estimate(float(array.mean()), float(error))


def _mean(scores: np.ndarray) -> float:
    """Mean over topics that have a coherence."""
    known = scores[np.isfinite(scores)]
    return float(known.mean()) if known.size else math.nan
