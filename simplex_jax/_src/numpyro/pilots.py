"""Short runs of a kernel that measure its effective samples per second."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro.diagnostics import effective_sample_size
from numpyro.infer.mcmc import MCMCKernel


class Chain(NamedTuple):
    """A pilot's trace [n, d] and its running time."""

    watched: np.ndarray
    seconds: float

    @property
    def moving(self) -> np.ndarray:
        """Mask of entries that changed."""
        return (self.watched != self.watched[0]).any(axis=0)

    @property
    def sizes(self) -> np.ndarray:
        """The effective sample size of each number that changed."""
        moving = self.watched[:, self.moving]
        return np.asarray(effective_sample_size(moving[None].astype(np.float64)))

    def rates(self) -> tuple[float, float]:
        """The smallest and the median effective sample size per second; 0 if nothing moved."""
        if not self.moving.any():
            return 0.0, 0.0
        sizes = self.sizes
        return sizes.min() / self.seconds, float(np.median(sizes)) / self.seconds


def sample(
    kernel: MCMCKernel,
    watch: Callable[[dict[str, jax.Array]], jax.Array],
    *,
    args: tuple,
    kwargs: Mapping[str, Any],
    key: jax.Array,
    num_warmup: int,
    seconds: float,
    chunk: int,
    patience: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> Chain | None:
    """Warm up, and then sample chunks of steps until the time is up, at least two.

    `watch` maps samples of all sites, [chunk, ...], to numbers, [chunk, d]. Compilation does not
    count. Return None if the warm-up took longer than `patience` seconds.
    """
    state = kernel.init(key, num_warmup, None, args, kwargs)
    postprocess = kernel.postprocess_fn(args, kwargs)

    def step(state: Any, _: None) -> tuple[Any, dict[str, jax.Array]]:
        state = kernel.sample(state, args, kwargs)
        return state, postprocess(getattr(state, kernel.sample_field))

    def run_chunk(state: Any) -> tuple[Any, jax.Array]:
        state, samples = jax.lax.scan(step, state, None, length=chunk)
        return state, watch(samples)

    run = jax.jit(run_chunk).lower(state).compile()
    start = clock()
    for _ in range(-(-num_warmup // chunk)):
        state = jax.block_until_ready(run(state)[0])
        if clock() - start > patience:
            return None
    draws: list[jax.Array] = []
    start = clock()
    while len(draws) < 2 or clock() - start < seconds:
        state, watched = run(state)
        draws.append(jax.block_until_ready(watched))
    return Chain(np.concatenate(draws), clock() - start)


def apart(one: Chain, other: Chain) -> float:
    """Return the largest difference between the means of two chains, in standard errors."""
    moving = one.moving & other.moving
    chains = [Chain(chain.watched[:, moving], chain.seconds) for chain in (one, other)]
    errors = [chain.watched.var(axis=0) / chain.sizes for chain in chains]
    difference = chains[0].watched.mean(axis=0) - chains[1].watched.mean(axis=0)
    return float(np.abs(difference / np.sqrt(sum(errors))).max(initial=0))
