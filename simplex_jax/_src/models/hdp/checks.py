"""Warnings about a fitted hierarchical Dirichlet process, and the verdict on it."""

from simplex_jax._src.evaluate.diagnostics import LARGE_RHAT, few_samples
from simplex_jax._src.models import verdict
from simplex_jax._src.models.hdp.fitting import Fit
from simplex_jax._src.models.hdp.report import numbers_by_chain
from simplex_jax._src.models.topics.checks import empty_warnings, perplexity_warnings
from simplex_jax._src.models.topics.report import INTERVAL, interval_kinds

_MOST_OTHERS = 0.1
"""Warn if more than this share of the tokens is at topics that are not reported."""


def warn(fitted: Fit) -> list[str]:
    """Return what is wrong with a fit or its data, and what to do, one sentence each."""
    sentences = perplexity_warnings(fitted.metrics, exact=True)
    others = 1 - fitted.prevalence.sum()
    if others > _MOST_OTHERS:
        sentences.append(
            f"{100 * others:.0f}% of the tokens are at topics that fewer than half of the samples "
            "have, and which are therefore not shown: run it longer."
        )
    sentences += few_samples(fitted.num_samples)
    if (number := len(fitted.predictive.ends)) < fitted.num_samples:
        sentences.append(
            f"Other documents are predicted from {number} of the {fitted.num_samples} samples, "
            "evenly spaced, because the topics of all of them would take more than 256 MiB; the "
            "proportions of the training documents use all."
        )
    return sentences + empty_warnings(fitted.num_empty_documents, len(fitted.names))


def judge(fitted: Fit, longer: str) -> list[str]:
    """Return the verdict, given the command or call of a longer run; see `Results.verdict`."""
    kinds = interval_kinds(fitted, fitted.prevalence_range)
    sentences = [
        verdict.predictions(fitted, "perplexity"),
        verdict.topics(fitted, kinds == INTERVAL, fitted.prevalence_range),
    ]
    apart = fitted.diagnostics.get("topics", {}).get("rhat", 1.0) > LARGE_RHAT
    if apart:
        sentences[1] += f" The chains disagree on their number: {numbers_by_chain(fitted)}."
    if apart or verdict.SETTLED not in sentences[0] or (kinds != INTERVAL).any():
        sentences += verdict.more_topics(fitted, longer)
    return sentences
