"""Chains put together: topics matched to those of the first chain, and how well chains agree."""

from collections.abc import Mapping

import numpy as np

from simplex_jax.evaluate import diagnostics, matching


def align(topics: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Match the topics of all chains to those of the first.

    Args:
        topics: Posterior mean of the topics of each chain, [C, K, V].

    Returns:
        For each chain the topics that belong to topics 0..K-1, int [C, K], so that
        `topics[c][order[c]]` are in the order of the first chain; and the stability of each topic,
        float64 [K], see `matching.stability`.

    Example:
        >>> import numpy as np
        >>> from simplex_jax.topics import alignment
        >>> one = np.array([[0.9, 0.1], [0.2, 0.8]])
        >>> order, stability = alignment.align(np.stack([one, one[::-1]]))
        >>> order.tolist(), stability.round(3).tolist()
        ([[0, 1], [1, 0]], [1.0, 1.0])
    """
    own = np.arange(topics.shape[1])
    order = [own, *(matching.match(topics[0], other).order for other in topics[1:])]
    return np.stack(order), matching.stability(list(topics))


def diagnose(traces: Mapping[str, np.ndarray], order: np.ndarray) -> dict[str, dict[str, float]]:
    """Return R-hat and effective sample size of what means the same in all chains.

    Args:
        traces: "prevalence" [S, C, K], others [S, C].
        order: As `align` returns it.

    Returns:
        For each name `{"rhat": ..., "ess": ...}`; "prevalence 0" and so on, topics as matched. What
        never changes, such as concentrations that are given, is left out.
    """
    named = {name: trace.T for name, trace in traces.items() if name != "prevalence"}
    moving = {name: trace for name, trace in named.items() if not np.all(trace == trace.flat[0])}
    matched = np.take_along_axis(traces["prevalence"], order[None], axis=2)
    shares = {f"prevalence {k}": matched[:, :, k].T for k in range(matched.shape[2])}
    return diagnostics.summary(moving | shares)
