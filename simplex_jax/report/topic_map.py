"""Topics as points of a plane, similar ones close together."""

import numpy as np
import scipy.linalg
from jax.typing import ArrayLike

from simplex_jax.evaluate.matching import Affinity, affinity


def positions(topics: ArrayLike, measure: Affinity = affinity) -> np.ndarray:
    """Place topics [K, V] in the plane by classical scaling of their Hellinger distances.

    Topics are points sqrt(phi_k) on the unit sphere, at distances H sqrt(2); these are the first
    two principal coordinates, the plane in which they are spread widest. Nothing in it is random,
    and distances there are never larger than the true ones: topics drawn apart are different, those
    drawn close together may differ in other dimensions. With `matching.cosine` for topics that are
    directions, the distances are those of the points on the sphere.

    The positions, [K, 2], are centred at 0, and the largest coordinate, by size, of each axis is
    positive. A coordinate is 0 where there is nothing to spread, as for a single topic.
    """
    table = measure(topics, topics)
    count = len(table)
    if count == 1:
        return np.zeros((1, 2))
    table -= table.mean(axis=0)
    table -= table.mean(axis=1, keepdims=True)
    values, vectors = scipy.linalg.eigh(table, subset_by_index=[count - 2, count - 1])
    spread = np.where(values > count * np.finfo(np.float32).eps, values, 0.0)
    placed = (vectors * np.sqrt(spread))[:, ::-1]
    # The sign of an axis is arbitrary: take that of its largest coordinate, of ties the first.
    sizes = np.abs(placed)
    leading = np.argmax(sizes >= (1 - 1e-6) * sizes.max(axis=0), axis=0)
    return placed * np.where(placed[leading, [0, 1]] < 0, -1.0, 1.0) + 0.0  # no -0.0
