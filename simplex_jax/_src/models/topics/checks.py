"""Warnings about topics, or their proportions in documents, that should not be trusted yet."""

from collections.abc import Mapping, Sequence

import numpy as np

from simplex_jax._src.models import heldout
from simplex_jax._src.report.display import counted

_RISE = 0.02
"""Least relative rise of the perplexity that matters."""

_EARLY = 100
"""Most passes before the first evaluation for it to show topics that are hardly trained."""

_MANY_EMPTY = 0.05
"""Least fraction of documents without a word at which the reading is to be checked."""

_MOST_SLOW = 0.05
"""Fraction of the documents whose proportions may exceed the error that the settings allow."""


def perplexity_warnings(
    metrics: Sequence[Mapping[str, float | None]], *, exact: bool, settled: bool = False
) -> list[str]:
    """Return a sentence if the held-out perplexity overflowed, did not fall, rose, or still falls.

    Changes within the noise of the evaluations, which is large if few tokens are held out, do not
    count. The sampler is `exact` if it has neither discretisation nor subsampling error. It
    need not fall if its chain had `settled` before, for another model.
    """
    values = [record.get("perplexity") for record in metrics]
    measured = np.array([value for value in values if value is not None], dtype=float)
    if not measured.size:
        return []
    if not np.isfinite(measured).all():
        return [
            "A held-out perplexity overflowed: the topics give some held-out words almost zero "
            "probability. Increase beta (--beta)."
        ]
    if settled:
        return []
    first, last, lowest = measured[0], measured[-1], measured.min()
    noise = heldout.noise(measured)
    began = next(r for r in metrics if r.get("perplexity") is not None).get("passes") or 0
    if began <= _EARLY and measured.size > 1 and last >= first + noise:
        return [
            f"The held-out perplexity did not fall: {first:,.4g} at first, {last:,.4g} at the end. "
            "The topics predict other documents no better than at the start: check the texts and "
            "the vocabulary, or run it longer."
        ]
    if last > (1 + _RISE) * lowest + noise:
        remedy = "run it longer" if exact else "a smaller step size or a larger batch may help"
        return [f"The held-out perplexity rose again, from {lowest:,.4g} to {last:,.4g}: {remedy}."]
    quarter = max(2, measured.size // 4)
    if measured.size < 2 * quarter:
        return []
    # Compare halves of the last quarter, since the perplexity of single samples is noisy.
    before, after = np.array_split(measured[-quarter:], 2)
    noise *= np.sqrt(1 / before.size + 1 / after.size)
    if after.mean() < (1 - _RISE / 2) * before.mean() - noise:
        return [
            f"The held-out perplexity was still falling, to {last:,.4g}: the chain has not "
            "settled, run it longer."
        ]
    return []


def share_warnings(errors: np.ndarray, most: float) -> list[str]:
    """Return a sentence if errors of proportions [D] often exceed the error that was set."""
    slow = errors > most
    if slow.sum() <= _MOST_SLOW * slow.size:
        return []
    return [
        f"The topic proportions of {100 * slow.mean():.1f}% of the documents have an estimated "
        f"Monte-Carlo error above {most:g} (share_error), up to {errors.max():.3f}: read them with "
        "this error, which doc_topics.npz has for each document."
    ]


def empty_warnings(empty: int, total: int) -> list[str]:
    """Return a sentence if many documents of all have no word."""
    if empty <= _MANY_EMPTY * total:
        return []
    return [
        f"{empty:,} of {counted(total, 'document')} have no word of the vocabulary, and their "
        "proportions say nothing: check the texts and the limits of the vocabulary (--min-df, "
        "--max-df, --stop-words, --token-pattern)."
    ]
