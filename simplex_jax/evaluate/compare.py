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
    heldout: str | Callable[[Any], float] = "perplexity_average",
    measure: str = "npmi",
    top: int = 10,
) -> list[Entry]:
    """Fit every number of topics several times, and measure each fit.

    The scatter of repeats is that of random starts and of sampling. What else another set of
    held-out documents would have brought is common to all K, and hardly changes which is better.

    Args:
        fit: `(K, seed) -> fit`, as of `topics.fit` or `spherical.fit`, or a fitted `scikit.LDA` or
            `SphericalAdmixture`.
        num_topics: The K to compare.
        counts: Reference documents of the coherence [D, V]; best not the training documents, whose
            noise the topics of a large K learn.
        repeats: Fits of each K, with the seeds 0, 1, ...
        heldout: Name of the held-out measure in the last record of the metrics, which they have of
            a fit with held-out documents; "log_perplexity_average" of spherical models. Or what
            measures a fit: an estimator holds nothing out, so say
            `lambda model: model.perplexity(others)`.
        measure: Of `coherence.coherence`.
        top: Likewise.

    Returns:
        An entry for each K, in the order given; `plots.comparison` draws them.

    Raises:
        ValueError: `num_topics` is empty, `repeats` is below 1, a fit has no topics, or as for
            `coherence.coherence`.
        KeyboardInterrupt: Ctrl-C, or SIGTERM, ended a fit before its time. What was compared until
            then is lost: call it for one K at a time to keep it.

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
        held, coherent = np.empty((2, repeats))
        for seed in range(repeats):
            fitted = fit(arguments.at_least("num_topics", k, 1), seed)
            interrupted = getattr(fitted, "interrupted", None)
            if interrupted is not None:
                raise KeyboardInterrupt(f"{interrupted.name} ended the fit of {k} topics early")
            scores = coherence(_topics(fitted), counts, measure=measure, top=top)
            coherent[seed] = _mean(scores)
            held[seed] = heldout(fitted) if callable(heldout) else _last(fitted, heldout)
        entries.append(Entry(int(k), held, coherent))
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


def _topics(fitted: Any) -> np.ndarray:
    """Return the topics of a fit, or of an estimator."""
    for name in ("mean", "components_"):
        if hasattr(fitted, name):
            return getattr(fitted, name)
    raise ValueError(
        "fit must return what `topics.fit` or `spherical.fit` has returned, or a fitted "
        f"`scikit.LDA` or `SphericalAdmixture`; it has returned a {type(fitted).__name__}"
    )


def _last(fitted: Any, name: str) -> float:
    """Return a measure of the last evaluation, NaN where it was not measured."""
    of_estimator = hasattr(fitted, "components_")
    metrics = getattr(fitted, "metrics_" if of_estimator else "metrics", None)
    return float(metrics[-1].get(name, math.nan)) if metrics else math.nan


def _mean(scores: np.ndarray) -> float:
    """Mean over topics that have a coherence."""
    known = scores[np.isfinite(scores)]
    return float(known.mean()) if known.size else math.nan
