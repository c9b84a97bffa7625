"""Comparison of numbers of topics, with the variation of repeated fits."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src import arguments
from simplex_jax._src.corpus.corpus import Corpus, counts_in
from simplex_jax._src.evaluate.coherence import coherence
from simplex_jax._src.evaluate.fits import Fitted, Topics


class Entry(NamedTuple):
    """Measures of repeated fits with one number of topics."""

    num_topics: int  # K
    # Held-out measure of each fit, float64 [repeats]; NaN without held-out documents
    heldout: np.ndarray
    coherence: np.ndarray  # mean coherence of the topics of each fit, float64 [repeats]


class Estimate(NamedTuple):
    """A mean over fits and its standard error, NaN for a single fit."""

    mean: float
    error: float


def compare(
    fit: Callable[[int, int], Fitted | Topics],
    num_topics: Sequence[int],
    counts: Corpus | sp.csr_array,
    *,
    repeats: int = 3,
    heldout: str | Callable[[Any], float] = "perplexity_average",
    measure: str = "npmi",
    top: int = 10,
) -> list[Entry]:
    """Fit every number of topics several times, and measure each fit.

    Repeats vary by random starts and sampling. The effect of choosing other held-out documents is
    not included, but it is common to all K and hardly changes which is better.

    Args:
        fit: `(K, seed) -> fit`: a fit of `lda.fit`, `sam.fit` or `hdp.fit`, a fitted topic
            estimator of `simplex_jax.sklearn`, or `evaluate.Topics` from another program.
        num_topics: The K to compare.
        counts: Reference documents for the coherence, a `Corpus` or counts [D, V]; ideally not the
            training documents, to whose noise topics of a large K fit.
        repeats: Number of fits of each K, with seeds 0, 1, ...
        heldout: Name of the held-out measure in the last metrics record of a fit with held-out
            documents; "log_perplexity_average" for spherical models. Or a function of the fit:
            estimators hold nothing out, so use `lambda model: model.perplexity(others)`.
        measure: Measure of the coherence, see `evaluate.coherence`.
        top: Number of top words of each topic, see `evaluate.coherence`.

    Returns:
        An entry for each K, in the order given; `plots.comparison` draws them.

    Raises:
        ValueError: `num_topics` is empty, `repeats` is below 1, a fit has no topics, or held-out
            documents and no measure of this name; or as for `evaluate.coherence`.
        KeyboardInterrupt: Ctrl-C or SIGTERM ended a fit early. Earlier results are lost: to keep
            them, call this for one K at a time.

    Example:
        >>> import numpy as np, scipy.sparse as sp
        >>> from simplex_jax import evaluate
        >>> counts = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])
        >>> def fit(k, seed):  # lda.fit(train, k, seed=seed, holdout=100, holdout_seed=0)
        ...     topics = np.random.default_rng(seed).dirichlet(np.ones(4), size=k)
        ...     return evaluate.Topics(topics, [{"perplexity_average": 4 / k + seed}])
        >>> for entry in evaluate.compare(fit, [1, 2], counts, repeats=3, top=2):
        ...     print(entry.num_topics, entry.heldout, entry.heldout.mean())
        1 [4. 5. 6.] 5.0
        2 [2. 3. 4.] 3.0
    """
    if not len(num_topics):
        raise ValueError("num_topics must have at least one number of topics")
    repeats = arguments.at_least("repeats", repeats, 1)
    counts = counts_in(counts, "counts")
    entries = []
    for k in num_topics:
        heldout_values, coherences = np.empty((2, repeats))
        for seed in range(repeats):
            fitted = fit(arguments.at_least("num_topics", k, 1), seed)
            topics = _topics(fitted)
            if topics.interrupted is not None:
                name = topics.interrupted.name
                raise KeyboardInterrupt(f"{name} ended the fit of {k} topics early")
            scores = coherence(topics.topics, counts, measure=measure, top=top)
            coherences[seed] = _mean(scores)
            heldout_values[seed] = heldout(fitted) if callable(heldout) else _last(topics, heldout)
        entries.append(Entry(int(k), heldout_values, coherences))
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


def _topics(fitted: Fitted | Topics) -> Topics:
    """Return the topics of a fit or an estimator."""
    record = fitted.to_record() if isinstance(fitted, Fitted) else fitted
    if not isinstance(record, Topics):
        raise ValueError(
            "fit must return what `lda.fit`, `sam.fit` or `hdp.fit` returns, a fitted topic "
            "estimator of `simplex_jax.sklearn`, or `evaluate.Topics`; it has returned a "
            f"{type(fitted).__name__}"
        )
    return record


def _last(fitted: Topics, name: str) -> float:
    """Return a measure of the last evaluation; NaN if nothing was held out.

    Raises:
        ValueError: There are others.
    """
    last = fitted.metrics[-1] if fitted.metrics else {}
    averages = [other for other in last if other.endswith("_average")]
    if name not in last and averages:
        raise ValueError(f"heldout must be a measure of the fit, {averages[0]!r}; it is {name!r}")
    return float(last.get(name, math.nan))


def _mean(scores: np.ndarray) -> float:
    """Return the mean over topics that have a coherence."""
    coherent = scores[np.isfinite(scores)]
    return float(coherent.mean()) if coherent.size else math.nan
