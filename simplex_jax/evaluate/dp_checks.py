"""Signs that a fitted Dirichlet-process mixture should not be trusted yet, in words."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike

from simplex_jax.evaluate import display

_MOST_OTHERS = 0.1
"""Share of the rows in clusters that are not shown above which it is said."""


def mixture_warnings(
    metrics: Sequence[Mapping[str, float | None]],
    sizes: ArrayLike,
    present: ArrayLike,
    rows: int,
    *,
    starts: Sequence[int] = (),
    least: float = 0.5,
) -> list[str]:
    """Look for a log predictive that did not rise, a single cluster, and clusters that come and go.

    Args:
        metrics: The evaluations in order, each with `log_predictive` where measured.
        sizes: Mean number of rows of each cluster, [C].
        present: Share of the samples that have it, [C].
        rows: Number of all rows.
        starts: Number of clusters that each chain started from.
        least: Share below which a cluster of more than a hundredth of the rows is said to come and
            go.

    Returns:
        One sentence for each finding; clusters are numbered from 0.

    Example:
        >>> mixture_warnings([], [90.0, 5.0], [1.0, 0.2], 100)
        ['Cluster 1 is in 20 % of the samples only: the chain has not settled, or the rows leave \
it open.']
    """
    values = [v for record in metrics if (v := record.get("log_predictive")) is not None]
    found = []
    if not all(display.finite(value) for value in values):
        found.append("A held-out log predictive is not finite: the run has failed.")
    elif len(values) > 1 and values[-1] <= values[0]:
        found.append(
            f"The held-out log predictive did not rise: {values[0]:.4g} at first, "
            f"{values[-1]:.4g} at the end."
        )
    found += _stuck(metrics, starts)
    means, share = np.asarray(sizes), np.asarray(present)
    if len(means) == 1 and rows > 1:
        found.append("All rows are in one cluster.")
    if means.sum() < (1 - _MOST_OTHERS) * rows:
        found.append(
            f"{100 * (1 - means.sum() / rows):.0f} % of the rows are in clusters that are not "
            "shown, because the reference sample does not have them."
        )
    found += [
        f"Cluster {cluster} is in {100 * share[cluster]:.0f} % of the samples only: the chain has "
        "not settled, or the rows leave it open."
        for cluster in np.flatnonzero((share < least) & (means > rows / 100))[:10]
    ]
    return found


def _stuck(metrics: Sequence[Mapping[str, float | None]], starts: Sequence[int]) -> list[str]:
    """Look for chains that have kept the number of clusters which they started from."""
    near = []
    for chain, start in enumerate(starts):
        name = f"occupied_chain_{chain}" if len(starts) > 1 else "occupied"
        half = [record.get(name) for record in metrics[len(metrics) // 2 :]]
        values = [value for value in half if display.finite(value)]
        if values and start > 1 and 0.9 * start <= min(values) and max(values) <= 1.2 * start:
            near.append(start)
    if not near:
        return []
    numbers = " and ".join(map(str, near))
    return [
        f"The number of clusters has stayed at about that of the start ({numbers}): compare a run "
        "from another number (--initial-clusters), or one with --split-merge."
    ]
