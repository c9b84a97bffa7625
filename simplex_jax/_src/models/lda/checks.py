"""Warnings about a fitted topic model, and the verdict on it."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.evaluate.diagnostics import few_samples, listed
from simplex_jax._src.models import verdict
from simplex_jax._src.models.goal import EFFECTIVE
from simplex_jax._src.models.lda import seeds
from simplex_jax._src.models.lda.fitting import Fit
from simplex_jax._src.models.topics.checks import (
    empty_warnings,
    perplexity_warnings,
    share_warnings,
)
from simplex_jax._src.models.topics.report import INTERVAL, interval_kinds
from simplex_jax._src.report.display import counted

# Measured: at alpha = 0.1 thirty blocked sweeps suffice. At 0.01 a document is at first almost all
# in one topic: 38% of the tokens have their true topic after 30 sweeps, 74% after 200.
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
        >>> metrics = [{"perplexity": 900.0}, {"perplexity": 950.0}]
        >>> [sentence] = topic_warnings(metrics, [[1.0, 0.0]], [1.0])
        >>> sentence.split(". ")[0]
        'The held-out perplexity did not fall: 900 at first, 950 at the end'
    """
    sentences = perplexity_warnings(metrics, exact=exact)
    topics = np.asarray(mean)
    unused = np.flatnonzero(np.asarray(prevalence) < 1e-4)
    if unused.size:
        sentences.append(
            "Nearly empty topics, to which at most 0.01% of the tokens belong: "
            f"topic {listed(unused)}. Ignore them, or fit fewer topics."
        )
    if len(topics) > _LARGEST_COMPARISON:
        return sentences
    unit = topics / np.linalg.norm(topics, axis=1, keepdims=True)
    cosine = np.triu(unit @ unit.T, k=1)
    for first, second in np.argwhere(cosine > similarity)[:10]:
        sentences.append(
            f"Topics {first} and {second} are nearly the same "
            f"(cosine {cosine[first, second]:.2f}): try fewer topics."
        )
    return sentences


def warn(fitted: Fit) -> list[str]:
    """Return what is wrong with a fit or its data, and what to do, one sentence each."""
    settings = fitted.settings
    exact = settings.sampler == "scir" and settings.counts == "memoised"
    sentences = topic_warnings(fitted.metrics, fitted.topics, fitted.prevalence, exact=exact)
    sentences += few_samples(fitted.num_samples)
    if settings.local == "blocked" and settings.counts != "memoised":
        least = float(np.min(fitted.as_trained().alpha))
        assert settings.sweeps is not None  # settled
        if least < _SMALL_ALPHA and settings.sweeps < _MANY_SWEEPS:
            sentences.append(
                f"Alpha is {least:.2g}, and {settings.sweeps} blocked sweeps from no labels leave "
                "most documents in the one topic where they began: use local='collapsed' "
                f"(--local collapsed), or {_MANY_SWEEPS} sweeps (--sweeps {_MANY_SWEEPS})."
            )
    if fitted.stiffness > 2:
        sentences.append(
            f"The step size of SMLD was unstable (stiffness {fitted.stiffness:.0f}, at most 2): "
            "the topics are not posterior samples. Use the sampler scir, which is stable at any "
            "step size."
        )
    if missing := seeds.unknown(settings.seed_words, fitted.vocabulary):
        sentence = (
            f"Seed words that are not in the vocabulary, and have no effect: {listed(missing)}."
        )
        bare = set(seeds.unseeded(settings.seed_words, fitted.vocabulary))
        parts = enumerate(fitted.as_trained().parts)
        if topics := [topic for topic, part in parts if bare.issuperset(part)]:
            sentence += f" That leaves {counted(len(topics), 'topic')} without a seed: "
            sentence += f"{listed(topics)}."
        sentences.append(sentence)
    sentences += share_warnings(fitted.proportions_error, settings.share_error)
    return sentences + empty_warnings(fitted.num_empty_documents, fitted.corpus["documents"])


def judge(fitted: Fit, longer: str) -> list[str]:
    """Return the verdict, given the command or call of a longer run; see `Results.verdict`."""
    kinds = interval_kinds(fitted, fitted.prevalence_range)
    sentences = [verdict.predictions(fitted, "perplexity")]
    if len(fitted.topics) > 1:
        sentences.append(verdict.topics(fitted, kinds == INTERVAL, fitted.prevalence_range))
    if short := _shortfall(fitted):
        sentences[0] = f"{sentences[0]} {short}"
    if short or verdict.SETTLED not in sentences[0] or (kinds != INTERVAL).any():
        sentences += verdict.more_topics(fitted, longer)
    return sentences


def _shortfall(fitted: Fit) -> str:
    """Return a sentence if a run has not reached the effective sample sizes that it was to have."""
    target = fitted.settings.target_ess
    if target is None or fitted.ended == "goal":
        return ""
    names = ("prevalence", "alpha", "beta")
    checked = [
        (name, size)
        for record in reversed(fitted.metrics)
        for name in names
        if (size := record.get(f"{EFFECTIVE}{name}")) is not None
    ]
    if not checked:
        return ""
    name, size = checked[0]
    what = "nine in ten topics have" if name == "prevalence" else f"{name} has"
    return f"Of the {target:g} effective samples asked for, {what} {size:.0f}."
