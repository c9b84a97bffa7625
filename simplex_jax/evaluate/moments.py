"""Posterior mean and standard deviation of a position, streaming: no sample is kept."""

import functools

import jax
import jax.numpy as jnp

from simplex_jax.evaluate.perplexity import second_half
from simplex_jax.runtime.hooks import Event


@functools.partial(jax.jit, donate_argnums=(0, 1))
def _add(
    mean: jax.Array, squares: jax.Array, count: jax.Array, log_p: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Welford's (1962) update, which does not cancel where the deviation is small."""
    difference = jnp.exp(log_p) - mean
    mean = mean + difference / count
    return mean, squares + difference * (jnp.exp(log_p) - mean)


class Moments:
    """A hook that keeps the mean and sd of exp(position) over the second half of a run.

    One sample enters per call, that is per chunk of the run. The memory is two arrays of the size
    of the position, which must be one array.

    Args:
        max_seconds: The length of a run that ends by time.
    """

    def __init__(self, max_seconds: float | None = None) -> None:
        self._max_seconds = max_seconds
        self.samples = 0

    def __call__(self, event: Event) -> None:
        """Add the position at hand."""
        if not second_half(event, self._max_seconds):
            return
        log_p = event.state.position
        if not self.samples:
            self._mean, self._squares = jnp.zeros_like(log_p), jnp.zeros_like(log_p)
        self.samples += 1
        self._mean, self._squares = _add(
            self._mean, self._squares, jnp.asarray(self.samples, log_p.dtype), log_p
        )

    @property
    def mean(self) -> jax.Array:
        """Posterior mean."""
        return self._mean

    @property
    def sd(self) -> jax.Array:
        """Posterior standard deviation; zero after a single sample."""
        return jnp.sqrt(self._squares / max(self.samples - 1, 1))
