"""The coordinates in which `bias` samples its targets.

A chart is a target in one kind of coordinates, with their volume element. A target has up to four:
real numbers, for Langevin and Hamiltonian dynamics of R^d; points of a convex set, for mirror maps;
points of a convex set of R^d, for metrics; and points of a manifold, for geodesics. Count kernels
need none.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import bias_targets
import jax
import jax.numpy as jnp
import numpy as np
from baselines import convex
from bias_targets import Posterior

from simplex_jax._src import gradients
from simplex_jax._src.base import Batch, Position, bind
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import manifolds, mirror


class Chart(NamedTuple):
    """A target in coordinates.

    Attributes:
        log_prior: `(position) -> scalar`, with the volume element.
        log_likelihood: `(position, rows) -> scalar`.
        size: Number of rows in the data.
        start: Exact draws, [chains, ...].
        read: `(position) -> point`, whose moments are taken.
        width: Approximate standard deviation of a coordinate; step sizes are in units of it, or of
            its square.
        slowness: Factor on the relaxation time of Langevin chains that `width` implies.
        space: A mirror map, a metric, or a manifold; None for real numbers.
        projection: Onto the convex set, for kernels without a mirror map; None for none.
    """

    log_prior: Callable[[Position], jax.Array]
    log_likelihood: Callable[[Position, Batch], jax.Array]
    size: int
    start: np.ndarray
    read: Callable[[Position], jax.Array]
    width: float
    slowness: float = 1.0
    space: Any = None
    projection: Any = None

    def gradient(self) -> Estimator:
        """Return gradients of the log density, from batches of the rows."""
        return gradients.posterior(self.log_prior, self.log_likelihood, self.size)

    def log_density(self) -> Callable[[Position, Batch], jax.Array]:
        """Return the log density given all rows; equal functions of equal charts."""
        return bind(_log_density, self.log_prior, self.log_likelihood)


def _log_density(
    log_prior: Callable, log_likelihood: Callable, position: Position, rows: Batch
) -> jax.Array:
    return log_prior(position) + log_likelihood(position, rows)


def itself(x: jax.Array) -> jax.Array:
    """Return a position, which already is a point."""
    return x


def log_softmax_with_reference(y: jax.Array) -> jax.Array:
    """Return log omega of y_j = log(omega_j / omega_K), j < K."""
    return jax.nn.log_softmax(jnp.append(y, 0))


def of_weights(target: Posterior, log_omega: np.ndarray, slowness: float) -> dict[str, Chart]:
    """Return the charts of category weights, which start at `log_omega` [chains, K]."""
    conjugate = len(target.weights) == 1
    likelihood = bias_targets.log_likelihood_observed if conjugate else bias_targets.log_likelihood
    alpha = jnp.asarray(target.alpha, jnp.float32)
    # Of log ratios and of roots of weights; a sparse one is wider, except its narrowest part.
    width, root_width = (0.7, 0.13) if conjugate else (1.0, 0.16)

    def chart(log_of: Callable, power: jax.Array, start: np.ndarray, read: Callable, **rest: Any):
        return Chart(
            lambda position: (power * log_of(position)).sum(),
            lambda position, rows: likelihood(log_of(position), rows),
            len(target.rows),
            start,
            read,
            slowness=slowness,
            **rest,
        )

    return {
        "real": chart(
            log_softmax_with_reference,
            alpha,
            log_omega[:, :-1] - log_omega[:, -1:],
            lambda y: jnp.exp(log_softmax_with_reference(y)),
            width=width,
        ),
        "set": chart(
            *(jnp.log, alpha - 1, np.exp(log_omega), itself),
            width=width,
            space=mirror.simplex(),
        ),
        "body": chart(
            lambda x: jnp.log(_with_last(x)),  # NaN outside
            alpha - 1,
            np.exp(log_omega[:, :-1]),
            _with_last,
            width=1.0,  # in the metric
            space=_dikin_of_simplex,
        ),
        "manifold": chart(
            lambda y: 2 * jnp.log(jnp.abs(y)),  # a root keeps more digits than a weight
            alpha - 0.5,
            np.exp(log_omega / 2),
            jnp.square,
            width=root_width,
            space=manifolds.simplex_sphere(),
        ),
    }


def of_square(x: np.ndarray) -> dict[str, Chart]:
    """Return the charts of the truncated normal, which start at `x` [chains, 2]."""

    def chart(log_volume: Callable, start: np.ndarray, read: Callable, **rest: Any) -> Chart:
        def log_likelihood(position: jax.Array, rows: jax.Array) -> jax.Array:
            return bias_targets.log_normal_density(read(position), rows[0])

        return Chart(log_volume, log_likelihood, 1, start, read, **rest)

    return {
        "real": chart(
            lambda y: (jax.nn.log_sigmoid(y) + jax.nn.log_sigmoid(-y)).sum(),
            np.log(x) - np.log1p(-x),
            jax.nn.sigmoid,
            width=1.3,
        ),
        "set": chart(
            *(_flat, x, itself),
            width=0.33,
            space=mirror.hypercube(0.0, 1.0),
            projection=convex.box(0.0, 1.0),
        ),
        "body": chart(
            lambda x: jnp.where(((x > 0) & (x < 1)).all(), 0.0, -jnp.inf),
            *(x, itself),
            width=1.0,
            space=_dikin_of_square,
        ),
        # Two simplices of two categories: a coordinate and its complement.
        "manifold": chart(
            lambda y: jnp.log(jnp.abs(y)).sum(),
            np.sqrt(np.stack([x, 1 - x], axis=-1)),
            lambda y: y[..., 0] ** 2,
            width=0.3,
            space=manifolds.simplex_sphere(),
        ),
    }


def of_sphere(x: np.ndarray) -> dict[str, Chart]:
    """Return the von Mises-Fisher charts, which start at `x` [chains, 3]."""

    def chart(log_volume: Callable, start: np.ndarray, read: Callable, **rest: Any) -> Chart:
        def log_likelihood(position: jax.Array, rows: jax.Array) -> jax.Array:
            return (rows @ read(position)).sum()

        return Chart(log_volume, log_likelihood, 1, start, read, **rest)

    return {
        "real": chart(
            lambda y: -2 * jnp.log1p(y @ y), x[:, :2] / (1 + x[:, 2:]), _stereographic, width=0.3
        ),
        "manifold": chart(_flat, x, itself, width=0.6, space=manifolds.sphere()),
    }


def _with_last(x: jax.Array) -> jax.Array:
    """Return all K weights of the first K - 1."""
    return jnp.append(x, 1 - x.sum())


def _dikin_of_simplex(x: jax.Array) -> jax.Array:
    """Return the second derivative of -sum_k log omega_k."""
    return jnp.diag(x**-2) + (1 - x.sum()) ** -2


def _dikin_of_square(x: jax.Array) -> jax.Array:
    return jnp.diag(x**-2 + (1 - x) ** -2)


def _flat(position: jax.Array) -> jax.Array:
    return jnp.zeros((), position.dtype)


def _stereographic(y: jax.Array) -> jax.Array:
    """Return the point of the sphere whose line from the lower pole meets the equator's plane."""
    square = y @ y
    return jnp.append(2 * y, 1 - square) / (1 + square)
