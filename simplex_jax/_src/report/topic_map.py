"""Topics as points in a plane, similar ones close together."""

import numpy as np
import scipy.linalg
from jax.typing import ArrayLike

from simplex_jax._src.evaluate.matching import Affinity, affinity


def positions(topics: ArrayLike, measure: Affinity = affinity) -> np.ndarray:
    """Place topics [K, V] in the plane by classical scaling of their Hellinger distances.

    Topics are points sqrt(phi_k) on the unit sphere, at distances H sqrt(2). The positions are
    their first two principal coordinates, the plane of largest variance. Nothing is random, and
    distances in the plane are never larger than the true ones: distant topics are different, while
    close ones may differ in other dimensions. For topics that are directions, `matching.cosine`
    gives the distances of the points on the sphere.

    The positions, [K, 2], are centred at 0, and on each axis the coordinate of largest magnitude is
    positive. Axes without variance are 0, as for a single topic.
    """
    table = measure(topics, topics)
    count = len(table)
    if count == 1:
        return np.zeros((1, 2))
    table -= table.mean(axis=0)
    table -= table.mean(axis=1, keepdims=True)
    values, vectors = scipy.linalg.eigh(table, subset_by_index=[count - 2, count - 1])
    spread = np.where(values > count * np.finfo(np.float32).eps, values, 0.0)
    coordinates = (vectors * np.sqrt(spread))[:, ::-1]
    # The sign of an axis is arbitrary: make its largest coordinate positive, the first in a tie.
    sizes = np.abs(coordinates)
    leading = np.argmax(sizes >= (1 - 1e-6) * sizes.max(axis=0), axis=0)
    return coordinates * np.where(coordinates[leading, [0, 1]] < 0, -1.0, 1.0) + 0.0  # no -0.0
