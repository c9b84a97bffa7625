"""Signs that a fitted topic model should not be trusted yet, in words."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike

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


def _listed(numbers: np.ndarray) -> str:
    shown = ", ".join(str(number) for number in numbers[:10])
    return shown + (f" and {numbers.size - 10} more" if numbers.size > 10 else "")
