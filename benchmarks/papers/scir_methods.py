"""The samplers and posteriors of Figures 1 and 2 of Baker, Fearnhead, Fox and Nemeth (2018).

N = 1000 data in 10 categories, alpha = 0.1. Sparse: counts 800, 100, 100 and seven zeros, started
at the counts of 1000 uniform labels. Dense: the labels are uniform, and chains start at the
posterior mean. All chains start at theta = counts + alpha, so SGRLD starts at a total of about
1000, although its stationary total is about 1; "SGRLD, own total" starts at a draw of the
stationary one. Batches are drawn with replacement.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import common
import jax
import jax.numpy as jnp
import numpy as np
from baselines import reflected_cir

from simplex_jax._src import batches, estimators
from simplex_jax._src.base import Kernel
from simplex_jax._src.samplers import scir, sgrld, smld

CATEGORIES, SIZE, ALPHA = 10, 1000, 0.1
SPARSE_COUNTS = (800, 100, 100, 0, 0, 0, 0, 0, 0, 0)


class Method(NamedTuple):
    """A sampler: how to build it, its grid of step sizes, and its initial total.

    Attributes:
        build: `(estimator, alpha, step_size) -> Kernel`.
        step_sizes: The grid.
        given_total: Whether it starts from the experiment's theta, or from a total of its own.
    """

    build: Callable[..., Kernel]
    step_sizes: Sequence[float]
    given_total: bool = False


# SCIR's is the paper's grid. SGRLD's spans the paper's, in units of our h (half of theirs), and is
# finer and wider, as is SMLD's: each has its best step well inside.
METHODS = {
    "SCIR": Method(scir.build, (1, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001), True),
    "SGRLD": Method(
        sgrld.build, (0.02, 0.01, 0.005, 0.0025, 0.001, 5e-4, 2.5e-4, 1e-4, 5e-5), True
    ),
    "SGRLD, own total": Method(
        sgrld.build, (0.001, 2.5e-4, 1e-4, 5e-5, 2.5e-5, 1e-5, 5e-6, 2.5e-6)
    ),
    "SMLD": Method(smld.build, (0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 5e-4, 2e-4, 1e-4, 5e-5)),
    "reflected Euler": Method(reflected_cir.build, (1, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001), True),
}


class Data(NamedTuple):
    """Data sets, one per seed.

    Attributes:
        labels: The data, [seeds, N].
        start: Weights theta to start from, [seeds, K].
        posterior: Concentrations of the exact posterior, [seeds, K].
    """

    labels: np.ndarray
    start: np.ndarray
    posterior: np.ndarray


def data(case: str, seeds: Sequence[int]) -> Data:
    """Return the data sets of the "sparse" or the "dense" case."""
    uniform = np.stack(
        [np.random.default_rng(seed).integers(0, CATEGORIES, SIZE) for seed in seeds]
    )
    labels = uniform
    if case == "sparse":
        labels = np.tile(np.repeat(np.arange(CATEGORIES), SPARSE_COUNTS), (len(seeds), 1))
    return Data(labels, _counts(uniform) + ALPHA, _counts(labels) + ALPHA)


def _counts(labels: np.ndarray) -> np.ndarray:
    return np.stack([np.bincount(row, minlength=CATEGORIES) for row in labels])


def sample(
    seeds: Sequence[int],
    method: Method,
    step_sizes: Sequence[float],
    data: Data,
    batch_size: int,
    *,
    burn_in: int,
    kept: int,
) -> np.ndarray:
    """Return log-probabilities [step sizes, seeds, kept, K] of parallel chains."""
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    kept_positions = _sample(
        keys,
        jnp.asarray(step_sizes, jnp.float32),
        jnp.asarray(data.labels),
        jnp.asarray(data.start, jnp.float32),
        build=method.build,
        given_total=method.given_total,
        batch_size=batch_size,
        burn_in=burn_in,
        kept=kept,
    )
    return np.asarray(kept_positions, np.float64)


@functools.partial(
    jax.jit, static_argnames=("build", "given_total", "batch_size", "burn_in", "kept")
)
def _sample(
    keys: jax.Array,
    step_sizes: jax.Array,
    labels: jax.Array,
    starts: jax.Array,
    *,
    build: Callable[..., Kernel],
    given_total: bool,
    batch_size: int,
    **lengths: Any,
) -> jax.Array:
    def chain(
        key: jax.Array, step_size: jax.Array, labels: jax.Array, start: jax.Array
    ) -> jax.Array:
        key_init, key_run = jax.random.split(key)
        kernel = build(estimators.categorical(SIZE), ALPHA, step_size)
        state = kernel.init(key_init, start)
        if given_total:
            state = state._replace(log_total=jnp.log(start.sum(keepdims=True)))
        stream = batches.uniform(labels, batch_size)
        return common.trace(key_run, kernel, state, stream, **lengths)

    seeds = jax.vmap(chain, in_axes=(0, None, 0, 0))
    return jax.vmap(seeds, in_axes=(None, 0, None, None))(keys, step_sizes, labels, starts)


def exact(seeds: Sequence[int], posterior: np.ndarray, n: int) -> np.ndarray:
    """Return n independent draws of each posterior, logs [seeds, n, K]."""
    return np.stack(
        [
            common.log_dirichlet_draws(np.random.default_rng([seed, 1]), a, n)
            for seed, a in zip(seeds, posterior, strict=True)
        ]
    )


def tuned(log_omega: np.ndarray, posterior: np.ndarray) -> int:
    """Return the step size, of [step sizes, seeds, kept, K], with the lowest mean KS distance."""
    distances = common.ks_distance(log_omega, posterior).mean(axis=-1)
    return int(np.nanargmin(distances))
