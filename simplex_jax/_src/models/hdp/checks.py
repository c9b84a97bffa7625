"""Warnings that a fitted hierarchical Dirichlet process may not be reliable."""

from simplex_jax._src.evaluate.diagnostics import LARGE_RHAT, chain_warnings
from simplex_jax._src.models.hdp.fitting import Fit
from simplex_jax._src.models.hdp.report import numbers_by_chain
from simplex_jax._src.models.topics.checks import empty_warnings, perplexity_warnings

_MOST_OTHERS = 0.1
"""Warn if more than this share of the tokens is at topics that are not reported."""


def warn(fitted: Fit) -> list[str]:
    """Return the reasons to doubt a fit, one sentence each."""
    sentences = perplexity_warnings(fitted.metrics, exact=True)
    others = 1 - fitted.prevalence.sum()
    if others > _MOST_OTHERS:
        sentences.append(
            f"{100 * others:.0f}% of the tokens are at topics that fewer than half of the samples "
            "have, which are not shown: run it longer."
        )
    if fitted.diagnostics.get("topics", {}).get("rhat", 1.0) > LARGE_RHAT:
        sentences.append(
            f"The chains disagree on the number of topics: {numbers_by_chain(fitted)}. The data "
            "allow for both as far as this run can tell; a longer run brings the chains together."
        )
    absent = "{their} words are of the samples that have {them}; in shares the others count as 0"
    sentences += chain_warnings(fitted.num_samples, fitted.diagnostics, fitted.shared, absent)
    return sentences + empty_warnings(fitted.num_empty_documents)
