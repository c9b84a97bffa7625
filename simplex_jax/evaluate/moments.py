"""Posterior mean and standard deviation of a position, streaming: no sample is kept."""

import functools

import jax
import jax.numpy as jnp

from simplex_jax.runtime.hooks import Event, second_half


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
        """Add the position at hand, if it is time."""
        if second_half(event, self._max_seconds):
            self.add(event.state.position)

    def add(self, log_p: jax.Array) -> None:
        """Add a sample of log-probabilities."""
        if not self.samples:
            self._mean, self._squares = jnp.zeros_like(log_p), jnp.zeros_like(log_p)
        self.samples += 1
        self._mean, self._squares = _add(
            self._mean, self._squares, jnp.asarray(self.samples, log_p.dtype), log_p
        )

    @property
    def mean(self) -> jax.Array:
        """Posterior mean, once there is a sample."""
        return self._mean

    @property
    def sd(self) -> jax.Array:
        """Posterior standard deviation; NaN while there are fewer than two samples."""
        return jnp.sqrt(self._squares / jnp.where(self.samples > 1, self.samples - 1, jnp.nan))
