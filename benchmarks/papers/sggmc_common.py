"""Shared by the SGGMC experiments: parallel chains, and their references."""

from collections.abc import Callable

import common
import jax
import numpy as np
from scipy import special

from simplex_jax._src.base import Info, Kernel, PyTree, State
from simplex_jax._src.batches import Stream


def chains(
    key: jax.Array,
    kernel: Kernel,
    starts: PyTree,
    stream: Stream,
    *,
    burn_in: int,
    kept: int,
    thin: int = 1,
    collect: Callable[[State, Info], PyTree],
) -> PyTree:
    """Run a chain from each start; return collected leaves [chains, kept, ...]."""
    count = jax.tree.leaves(starts)[0].shape[0]
    keys = jax.random.split(key, (2, count))
    states = jax.vmap(kernel.init)(keys[0], starts)

    @jax.jit
    def run(keys: jax.Array, states: State) -> PyTree:
        def one(key: jax.Array, state: State) -> PyTree:
            lengths = {"burn_in": burn_in, "kept": kept, "thin": thin}
            return common.trace(key, kernel, state, stream, collect=collect, **lengths)

        return jax.vmap(one)(keys, states)

    return jax.tree.map(np.asarray, run(keys[1], states))


def angles(points: np.ndarray) -> np.ndarray:
    """Return the angles of points [..., 2] of the plane, in -pi..pi."""
    return np.arctan2(points[..., 1], points[..., 0])


def total_variation(result: np.ndarray, truth: np.ndarray) -> float:
    """Return half the sum of the differences of two arrays of masses, or counts."""
    return float(np.abs(result / result.sum() - truth / truth.sum()).sum() / 2)


def masses(log_density: np.ndarray) -> np.ndarray:
    """Return the cell masses of an even grid, from log densities at the centres."""
    return special.softmax(log_density)


def coarse(masses: np.ndarray, factor: int) -> np.ndarray:
    """Add up the masses of neighbouring cells, `factor` along each axis."""
    for axis in range(masses.ndim):
        shape = (*masses.shape[:axis], -1, factor, *masses.shape[axis + 1 :])
        masses = masses.reshape(shape).sum(axis=axis + 1)
    return masses


def effective(series: np.ndarray) -> float:
    """Return the effective sample size of a scalar, over chains [chains, n] (by batch means)."""
    count, n = series.shape
    length = max(1, int(np.sqrt(n)))
    blocks = series[:, : n - n % length].reshape(count, -1, length).mean(axis=2)
    spread = length * blocks.var(axis=1, ddof=1).mean()
    return float(series.size * series.var() / spread) if spread else float(series.size)
