"""Signs that a fitted spherical admixture model should not be trusted yet, in words."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike

from simplex_jax.evaluate import display
from simplex_jax.evaluate.matching import cosine

LARGEST_ENERGY = 0.1
"""How far from 1 the kinetic energy per dimension may be at equilibrium."""


def energy_warnings(metrics: Sequence[Mapping[str, float | None]]) -> list[str]:
    """Look for a sampler that is not at equilibrium, over the second half of the evaluations.

    Args:
        metrics: The evaluations in order, each with `kinetic` and perhaps `acceptance`.

    Returns:
        A sentence for each finding.

    Example:
        >>> energy_warnings([{"kinetic": 1.02}] * 4), len(energy_warnings([{"kinetic": 3.0}] * 4))
        ([], 1)
    """
    half = metrics[len(metrics) // 2 :]
    values = [value for record in half if display.finite(value := record.get("kinetic"))]
    accepted = [value for record in half if display.finite(value := record.get("acceptance"))]
    found = []
    if accepted and np.mean(accepted) < 0.1:
        found.append(
            f"Only {100 * np.mean(accepted):.1f} % of the moves of the topics were accepted: "
            "a smaller --step-size moves them."
        )
    if values and not accepted and abs(np.mean(values) - 1) > LARGEST_ENERGY:
        found.append(
            f"The sampler is not at equilibrium: its kinetic energy per dimension is "
            f"{np.mean(values):.3g} and should be 1. A smaller --step-size, a larger --friction, "
            "a larger --batch-size or a longer run may bring it there."
        )
    return found


def topic_warnings(
    metrics: Sequence[Mapping[str, float | None]],
    mean: ArrayLike,
    length: ArrayLike,
    *,
    similarity: float = 0.95,
    least: float = 0.3,
) -> list[str]:
    """Look for a log-perplexity that did not fall, topics alike, and topics that wandered.

    Args:
        metrics: The evaluations in order, each with `log_perplexity` where measured.
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
