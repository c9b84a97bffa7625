"""Warnings about a fitted topic model that should not be trusted yet."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.evaluate.diagnostics import chain_warnings, listed
from simplex_jax._src.models.goal import PREFIX, SHARE
from simplex_jax._src.models.lda import seeds
from simplex_jax._src.models.lda.fitting import Fit
from simplex_jax._src.models.lda.posterior import is_over
from simplex_jax._src.models.topics.checks import (
    empty_warnings,
    perplexity_warnings,
    share_warnings,
)
from simplex_jax._src.report.display import counted

# Measured: at alpha = 0.1 thirty blocked sweeps suffice. At 0.01 the first shares of a document are
# almost all in one topic: 38% of the tokens have their true topic after 30 sweeps, 74% after 200.
_SMALL_ALPHA, _MANY_SWEEPS = 0.05, 200

_LARGEST_COMPARISON = 5_000  # topics whose pairs are all compared


def topic_warnings(
    metrics: Sequence[Mapping[str, float | None]],
    mean: ArrayLike,
    prevalence: ArrayLike,
    *,
    exact: bool = False,
    similarity: float = 0.95,
) -> list[str]:
    """Return a sentence for each common failure that a topic model shows.

    The failures are a perplexity that overflowed or, beyond its noise, ends no lower than it began,
    rose by more than 2% from its minimum or is still falling; topics that no token uses; and topics
    that are nearly the same by their cosine, which is computed for up to 5,000 topics. The sampler
    is `exact` if it has neither discretisation nor subsampling error.

    Example:
        >>> topic_warnings([{"perplexity": 900.0}, {"perplexity": 950.0}], [[1.0, 0.0]], [1.0])
        ['The held-out perplexity did not fall: 900 at first, 950 at the end.']
    """
    sentences = perplexity_warnings(metrics, exact=exact)
    topics = np.asarray(mean)
    shares = np.asarray(prevalence)
    unused = np.flatnonzero(shares < 1e-4)
    if unused.size:
        sentences.append(f"No more than 0.01% of the tokens belong to topic {listed(unused)}.")
    if len(topics) > _LARGEST_COMPARISON:
        return sentences
    unit = topics / np.linalg.norm(topics, axis=1, keepdims=True)
    cosine = np.triu(unit @ unit.T, k=1)
    for first, second in np.argwhere(cosine > similarity)[:10]:
        sentences.append(
            f"Topics {first} and {second} are nearly the same "
            f"(cosine {cosine[first, second]:.2f}): fewer topics may do."
        )
    return sentences


def _shortfall(
    metrics: Sequence[Mapping[str, float | None]], target: float, topics: int, *, late: bool
) -> list[str]:
    """Return a sentence if a run ended before its goal, by a hook or, if `late`, at its limit."""
    checked = (record for record in metrics if any(name.startswith(PREFIX) for name in record))
    last: Mapping[str, float | None] = next(reversed(list(checked)), {})
    subjects = {
        "prevalence": f"{math.ceil(SHARE * topics)} of {topics} topics have",
        "log_predictive": "the held-out predictive has",
        "alpha": "alpha has",
        "beta": "beta has",
    }
    few = {
        name: size
        for name in subjects
        if (size := last.get(f"{PREFIX}{name}")) is not None and size < target
    }
    missing = [f"{subjects[name]} {math.floor(few[name])} effective samples" for name in few]
    if last.get("settled") == 0:
        missing.append("the held-out perplexity has not settled")
    if not missing:
        return []
    end, remedy = "A hook ended the run", "A longer run gives more"
    if late:
        end, remedy = "The time was over", "Raise the time limit"
        if "prevalence" in few:
            remedy += (
                "; if that does not help, a larger alpha lets topics mix faster, but they predict "
                "worse"
            )
    return [
        f"{end} before the goal of {target:g} effective samples: {', '.join(missing)}. {remedy}."
    ]


def warn(fitted: Fit) -> list[str]:
    """Return the reasons to doubt a fit, one sentence each."""
    settings = fitted.settings
    method = settings.sampler, settings.total, settings.counts
    exact = method == ("scir", "refreshed", "memoised")
    sentences = topic_warnings(fitted.metrics, fitted.topics, fitted.prevalence, exact=exact)
    if settings.target_ess is not None and fitted.interrupted is None:
        late = bool(fitted.metrics) and is_over(settings, fitted.metrics[-1])
        sentences += _shortfall(fitted.metrics, settings.target_ess, settings.num_topics, late=late)
    sentences += chain_warnings(fitted.num_samples, fitted.diagnostics, fitted.shared)
    if settings.local == "blocked" and settings.counts != "memoised":
        least = float(np.min(fitted.alpha))
        assert settings.sweeps is not None  # settled
        if least < _SMALL_ALPHA and settings.sweeps < _MANY_SWEEPS:
            sentences.append(
                f"Alpha is {least:.2g}, and {settings.sweeps} blocked sweeps from no labels leave "
                "most documents in the one topic where they began: give local='collapsed' "
                f"(--local collapsed), or {_MANY_SWEEPS} sweeps."
            )
    if fitted.stiffness > 2:
        sentences.append(
            f"The step size of SMLD was unstable (stiffness {fitted.stiffness:.0f}, at most 2): "
            "the topics are not posterior samples. Stable steps mix slowly; scir is stable at any "
            "step size."
        )
    if missing := seeds.unknown(settings.seed_words, fitted.vocabulary):
        sentence = f"Seed words that are not in the vocabulary: {listed(missing)}."
        if topics := seeds.unseeded(settings.seed_words, fitted.vocabulary):
            sentence += f" That leaves {counted(len(topics), 'topic')} without a seed: "
            sentence += f"{listed(topics)}."
        sentences.append(sentence)
    sentences += share_warnings(fitted.proportions_error, settings.share_error)
    return sentences + empty_warnings(fitted.num_empty_documents)
