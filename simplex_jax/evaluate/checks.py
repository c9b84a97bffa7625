"""Signs that a fitted topic model should not be trusted yet, in words."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike

FEW_DRAWS = 10
"""Effective samples below which intervals are rough: 10 independent ones cover 91 % of 95 %."""

LARGE_RHAT = 1.1
"""R-hat from which chains are said to disagree; it is noisy over a few tens of samples."""

_UNSTABLE = 0.7
_LARGEST_COMPARISON = 5_000  # topics, of which all pairs are compared


def topic_warnings(
    metrics: Sequence[Mapping[str, float | None]],
    mean: ArrayLike,
    prevalence: ArrayLike,
    *,
    similarity: float = 0.95,
) -> list[str]:
    """Look for the usual failures of a topic model.

    They are a perplexity that is not a number, that ends no lower than it began or that has risen
    from its lowest value by more than 2 %; topics that no token uses; and topics that are nearly
    the same, which is looked for among up to 5,000 topics.

    Args:
        metrics: the evaluations in order, each with `perplexity` (None when not measured).
        mean: posterior mean of the topics, [K, V]; rows sum to 1.
        prevalence: share of the tokens in each topic, [K]; sums to 1.
        similarity: cosine between two topics from which they count as the same, in (0, 1].

    Returns:
        One sentence for each finding; topics are numbered from 0.

    Example:
        >>> topic_warnings([{"perplexity": 900.0}, {"perplexity": 950.0}], [[1.0, 0.0]], [1.0])
        ['The held-out perplexity did not fall: 900 at first, 950 at the end.']
    """
    found = _perplexity_warnings([record.get("perplexity") for record in metrics])
    topics = np.asarray(mean)
    shares = np.asarray(prevalence)
    unused = np.flatnonzero(shares < 1e-4)
    if unused.size:
        found.append(f"No more than 0.01 % of the tokens belong to topic {_listed(unused)}.")
    if len(topics) > _LARGEST_COMPARISON:
        return found
    unit = topics / np.linalg.norm(topics, axis=1, keepdims=True)
    cosine = np.triu(unit @ unit.T, k=1)
    for first, second in np.argwhere(cosine > similarity)[:10]:
        found.append(
            f"Topics {first} and {second} are nearly the same "
            f"(cosine {cosine[first, second]:.2f}): fewer topics may do."
        )
    return found


def chain_warnings(
    samples: int,
    diagnostics: Mapping[str, Mapping[str, float | None]],
    stability: ArrayLike,
) -> list[str]:
    """Look for chains that are too short, or do not agree.

    Args:
        samples: posterior samples behind the means, of all chains.
        diagnostics: quantity -> `rhat` and `ess`, as from `diagnostics.summary`.
        stability: how alike each topic is in all chains, [K], as from `matching.stability`.

    Returns:
        One sentence for each finding; topics are numbered from 0.

    Example:
        >>> chain_warnings(50, {"prevalence 0": {"rhat": 1.9, "ess": 30.0}}, [0.99])
        ['The chains disagree (R-hat above 1.1) on prevalence 0: run them longer, or take the \
intervals as those of one of several explanations of the corpus.']
    """
    found, total = [], np.size(stability)
    if samples < FEW_DRAWS:
        found.append(
            f"The means and deviations are of {samples} posterior samples only: "
            "a longer run or a smaller --eval-every gives more."
        )
    apart = [name for name, entry in diagnostics.items() if _above(entry.get("rhat"), LARGE_RHAT)]
    if apart:
        found.append(
            f"The chains disagree (R-hat above {LARGE_RHAT}) on {_named(apart, total)}: "
            "run them longer, or take the intervals as those of one of several explanations of "
            "the corpus."
        )
    few = [name for name, entry in diagnostics.items() if _above(FEW_DRAWS, entry.get("ess"))]
    if few and samples >= FEW_DRAWS:
        found.append(
            f"Fewer than {FEW_DRAWS} effective samples of {_named(few, total)}: "
            "their intervals are rough; a longer run or more chains give better ones."
        )
    different = np.flatnonzero(np.asarray(stability, float) < _UNSTABLE)  # NaN for one chain
    if different.size:
        found.append(
            f"The chains found different topics (stability below {_UNSTABLE}) "
            f"for topic {_listed(different)}."
        )
    return found


def _above(value: float | None, threshold: float | None) -> bool:
    return value is not None and threshold is not None and value > threshold


def _perplexity_warnings(values: Sequence[float | None]) -> list[str]:
    measured = np.array([value for value in values if value is not None], dtype=float)
    if not measured.size:
        return []
    if not np.isfinite(measured).all():
        return ["A held-out perplexity is not finite: the run has failed."]
    first, last, lowest = measured[0], measured[-1], measured.min()
    if measured.size > 1 and last >= first:
        return [
            f"The held-out perplexity did not fall: {first:,.0f} at first, {last:,.0f} at the end."
        ]
    if last > 1.02 * lowest:
        return [
            f"The held-out perplexity rose again, from {lowest:,.0f} to {last:,.0f}: "
            "a smaller step size or a larger batch may help."
        ]
    return []


def _named(quantities: Sequence[str], total: int) -> str:
    """List quantities; of many topics say how many: alpha, prevalence of 7 of 30 topics."""
    groups: dict[str, list[str]] = {}
    for quantity in quantities:
        name, _, number = quantity.rpartition(" ")
        groups.setdefault(name if number.isdigit() else quantity, []).append(quantity)
    return ", ".join(
        f"{name} of {len(members)} of {total} topics" if len(members) > 3 else ", ".join(members)
        for name, members in groups.items()
    )


def _listed(entries: Sequence[object] | np.ndarray) -> str:
    shown = ", ".join(str(entry) for entry in entries[:10])
    return shown + (f" and {len(entries) - 10} more" if len(entries) > 10 else "")
