"""Streaming posterior means and standard deviations, without storing samples.

If the distribution of a quantity given the rest of a sample is explicit, its conditional mean and
variance are more informative than a draw. By the laws of total expectation and variance

    E[x] = E[E[x | rest]],    Var[x] = E[Var[x | rest]] + Var[E[x | rest]],

so the mean of the conditional means estimates E[x], and the mean of the conditional variances plus
the variance of the conditional means estimates Var[x] (the variance of the conditional means alone
would be too small). Without such a distribution the conditional mean is the draw, with variance 0.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.typing import ArrayLike

from simplex_jax._src import sharded_rows


@functools.partial(jax.jit, donate_argnums=(0, 1, 2))
def _add(
    mean: jax.Array,
    squares: jax.Array,
    within: jax.Array,
    count: ArrayLike,
    value: ArrayLike,
    variance: ArrayLike,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Welford's (1962) update, which avoids cancellation if the deviation is small."""
    value, variance = jnp.asarray(value, mean.dtype), jnp.asarray(variance, mean.dtype)
    share = _reciprocal(count, mean.dtype)
    difference = value - mean
    mean = mean + difference * share
    squares = squares + difference * (value - mean)
    return mean, squares, within + (variance - within) * share


def _reciprocal(x: ArrayLike, dtype: jnp.dtype) -> jax.Array:
    """Return 1 / x, to multiply by.

    Compiled code would replace a division by x with this on some numbers of devices only.
    """
    return 1 / jnp.asarray(x, dtype)


@jax.jit
def _deviation(squares: ArrayLike, within: ArrayLike, samples: ArrayLike) -> jax.Array:
    squares, number = jnp.asarray(squares), jnp.asarray(samples)
    share = _reciprocal(jnp.where(number > 1, number - 1, jnp.nan), squares.dtype)
    return jnp.sqrt(squares * share + within)


class Moments:
    """Streaming mean and standard deviation of an array, over samples and over chains.

    The shape is that of a sample, with chains along the first axis. This uses memory for two arrays
    of that size, three if samples have conditional variances. With a sharding, devices share their
    rows like those of samples (`sharded_rows`). Mean and deviation are returned whole, which is a
    collective operation with several processes.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        conditional: bool = False,
        sharding: NamedSharding | None = None,
    ) -> None:
        self.samples = 0
        self._shape, self._sharding = shape, sharding
        self._mean, self._squares = (sharded_rows.zeros(shape, sharding) for _ in range(2))
        within = (shape, sharding) if conditional else ((), None)
        self._within = sharded_rows.zeros(*within)

    def add(self, value: ArrayLike, variance: ArrayLike = 0.0) -> None:
        """Add a sample: draws, or conditional means with their conditional variances."""
        self.samples += 1
        parts = _add(self._mean, self._squares, self._within, self.samples, value, variance)
        self._mean, self._squares, self._within = parts

    def merge(self, other: "Moments") -> None:
        """Add all samples of another (Chan, Golub and LeVeque 1979)."""
        if not other.samples:
            return
        total = self.samples + other.samples
        share = other.samples / total
        mean, squares, within = self._parts()
        mean_of_other, squares_of_other, within_of_other = other._parts()
        difference = mean_of_other - mean
        self._mean = mean + share * difference
        self._squares = squares + squares_of_other + self.samples * share * difference**2
        self._within = within + share * (within_of_other - within)
        self.samples = total

    def _parts(self) -> list[Any]:
        """Return the arrays, on a CPU as NumPy's, uncopied: operations on these compile nothing."""
        parts = [self._mean, self._squares, self._within]
        if self._sharding is None and jax.default_backend() == "cpu":
            return [np.asarray(part) for part in parts]
        return parts

    @property
    def mean(self) -> np.ndarray:
        """Mean of each chain, of the shape of a sample."""
        return self._whole(self._mean)

    def _whole(self, array: jax.Array) -> np.ndarray:
        if self._sharding is not None and array.ndim:
            array = sharded_rows.gather_rows(array, self._shape[-2])
        return np.asarray(array)

    def pooled(
        self, order: ArrayLike | None = None, shared: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation over the samples of all chains, without their axis.

        The deviation of a single draw is NaN.

        Args:
            order: For each chain, the indices along the next axis that match the parts to those of
                the first chain, int [chains, K]; None if chains agree.
            shared: For each chain, whether its matched part counts, bool [chains, K], always true
                for the first; None if all count.
        """
        if len(self._mean) == 1:  # nothing to match, so only the results need to be whole
            sd = _deviation(self._squares, self._within, self.samples)
            return np.array(self._whole(self._mean)[0]), np.array(self._whole(sd)[0])
        arrays = [self._whole(array) for array in (self._mean, self._squares, self._within)]

        def part(chain: int) -> list[Any]:
            own = [array[chain] if array.ndim else array for array in arrays]
            rows = np.zeros(0, int) if order is None else np.asarray(order)[chain]
            if np.array_equal(
                rows, np.arange(rows.size)
            ):  # large arrays are not copied for nothing
                return own
            return [array[rows] if array.ndim else array for array in own]

        mean, squares, within = part(0)
        mean, total = mean.copy(), np.asarray(self.samples)
        count: Any = total
        for chain in range(1, len(arrays[0])):
            if shared is not None:
                use = np.asarray(shared)[chain].reshape(-1, *[1] * (mean.ndim - 1))
                count = np.where(use, self.samples, 0)
            # Chan, Golub and LeVeque (1979).
            other = part(chain)
            share = (count / (total + count)).astype(mean.dtype)
            difference = other[0] - mean
            squares = squares + np.where(count > 0, other[1], 0) + difference**2 * (total * share)
            mean = mean + difference * share
            within = within + (other[2] - within) * share
            total = total + count
        return mean, np.array(_deviation(squares, within, total))

    def save(self) -> dict[str, Any]:
        """Return the moments."""
        # Copies, since the next sample overwrites these in device memory.
        copy = np.array if self._sharding is None else jnp.copy
        return {
            "samples": self.samples,
            "mean": copy(self._mean),
            "squares": copy(self._squares),
            "within": copy(self._within),
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Restore the moments."""
        self.samples = saved["samples"]
        self._mean = self._restored(saved["mean"], self._mean)
        self._squares = self._restored(saved["squares"], self._squares)
        self._within = self._restored(saved["within"], self._within)

    def _restored(self, saved: ArrayLike, like: jax.Array) -> jax.Array:
        if like.ndim < 2:
            return jnp.array(saved)
        return sharded_rows.place_rows(np.asarray(saved), self._shape[-2], like)
