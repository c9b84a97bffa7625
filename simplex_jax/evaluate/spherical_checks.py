"""Signs that a fitted spherical admixture model should not be trusted yet, in words."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike

from simplex_jax.evaluate import display
from simplex_jax.evaluate.matching import cosine

_LEAST_EFFECTIVE = 10


def topic_warnings(
    metrics: Sequence[Mapping[str, float | None]],
    mean: ArrayLike,
    length: ArrayLike,
    *,
    similarity: float = 0.95,
    least: float = 0.3,
) -> list[str]:
    """Look for log-perplexities that are not to be trusted, topics alike, and such that wandered.

    Args:
        metrics: The evaluations in order, each with `log_perplexity` and `heldout_ess` where
            measured.
        mean: Posterior mean directions, [K, V].
        length: Mean resultant lengths, [K].
        similarity: Cosine of two topics from which they count as the same.
        least: Length below which the samples of a topic have no common direction.

    Returns:
        One sentence for each finding; topics are numbered from 0.

    Example:
        >>> topic_warnings([], [[1.0, 0.0], [0.0, 1.0]], [0.9, 0.1])
        ['The samples of topic 1 have no common direction (length 0.10): it has not settled, or \
nothing in the documents holds it.']
    """
    values = [v for record in metrics if (v := record.get("log_perplexity")) is not None]
    found = []
    if values and not np.isfinite(values).all():
        found.append("A held-out log-perplexity is not finite: the run has failed.")
    elif len(values) > 1 and values[-1] >= values[0]:
        found.append(
            f"The held-out log-perplexity did not fall: {values[0]:,.1f} at first, "
            f"{values[-1]:,.1f} at the end."
        )
    half = metrics[len(metrics) // 2 :]
    sizes = [v for record in half if display.finite(v := record.get("heldout_ess"))]
    if sizes:
        found += effective_warnings(float(np.mean(sizes)))
    lengths = np.asarray(length, np.float64)
    found += [
        f"The samples of topic {topic} have no common direction (length {lengths[topic]:.2f}): it "
        "has not settled, or nothing in the documents holds it."
        for topic in np.flatnonzero(lengths < least)[:10]
    ]
    alike = np.triu(cosine(mean, mean), k=1)
    for first, second in np.argwhere(alike > similarity)[:10]:
        found.append(
            f"Topics {first} and {second} are nearly the same "
            f"(cosine {alike[first, second]:.2f}): fewer topics may do."
        )
    return found


def effective_warnings(effective: float) -> list[str]:
    """Judge the effective number of the draws that a held-out density is estimated from.

    Args:
        effective: Its median over documents.

    Example:
        >>> effective_warnings(100.0), len(effective_warnings(2.0))
        ([], 1)
    """
    if effective >= _LEAST_EFFECTIVE:
        return []
    return [
        f"The held-out log-perplexity is no estimate: a density is worth {effective:.1f} effective "
        "draws of the shares of its document. Few draws make it too high: it is not to be compared."
    ]
