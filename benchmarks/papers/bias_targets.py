"""Posteriors whose moments are known exactly, to measure the bias of samplers against.

Data are rows L_i [K] of likelihoods under each of K categories; the weights omega of the categories
have a Dirichlet prior, and the log likelihood is sum_i log(L_i . omega). Rows with a single 1 are
observed categories, and the posterior is a Dirichlet. Other rows make a mixture model, which is not
conjugate; its posterior is a mixture of Dirichlets, over all assignments of the data.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special


class Posterior(NamedTuple):
    """A posterior of category weights.

    Attributes:
        alpha: Prior concentrations, [K].
        rows: The data, [N, K].
        shapes: Concentrations of its Dirichlet components, [C, K].
        weights: Weights of the components, [C].
    """

    alpha: np.ndarray
    rows: np.ndarray
    shapes: np.ndarray
    weights: np.ndarray

    def moment(self, order: int) -> np.ndarray:
        """Return E[omega^order], [K]."""
        return self.weights @ dirichlet_moment(self.shapes, order)

    def draws(self, generator: np.random.Generator, n: int) -> np.ndarray:
        """Draw n points exactly, logs [n, K]."""
        component = generator.choice(len(self.weights), n, p=self.weights)
        # Rows of different shapes: log Gamma(a) = log Gamma(a + 1) + log(U) / a.
        a = self.shapes[component]
        logs = np.log(generator.gamma(a + 1)) + np.log(generator.uniform(size=a.shape)) / a
        return special.log_softmax(logs, axis=-1)


def dirichlet_moment(shapes: np.ndarray, order: int) -> np.ndarray:
    """Return E[omega_j^order] under Dirichlet(shapes), shapes [..., K]."""
    total = shapes.sum(axis=-1, keepdims=True)
    return np.prod([(shapes + i) / (total + i) for i in range(order)], axis=0)


def posterior(alpha: np.ndarray, rows: np.ndarray) -> Posterior:
    """Sum over the assignments that have a likelihood."""
    alpha, rows = np.asarray(alpha, np.float64), np.asarray(rows, np.float64)
    totals: dict[tuple[int, ...], float] = {}
    for assignment in itertools.product(*[np.flatnonzero(row) for row in rows]):
        counts = tuple(np.bincount(assignment, minlength=len(alpha)))
        likelihood = np.prod(rows[np.arange(len(rows)), list(assignment)])
        totals[counts] = totals.get(counts, 0.0) + likelihood
    shapes = alpha + np.array(list(totals))
    log_weights = np.log(list(totals.values())) + special.gammaln(shapes).sum(axis=-1)
    return Posterior(alpha, rows, shapes, special.softmax(log_weights))


def observed(counts: tuple[int, ...]) -> np.ndarray:
    """Return rows of observed categories."""
    return np.repeat(np.eye(len(counts)), counts, axis=0)


def log_likelihood(log_omega: jax.Array, rows: jax.Array) -> jax.Array:
    """Return sum_i log(L_i . omega)."""
    return jax.nn.logsumexp(log_omega + jnp.log(rows), axis=-1).sum()


def log_likelihood_observed(log_omega: jax.Array, rows: jax.Array) -> jax.Array:
    """Return the same for rows of observed categories."""
    return (rows.sum(axis=0) * log_omega).sum()


class Statistics(NamedTuple):
    """Exact means and standard deviations of what is averaged."""

    mean: np.ndarray
    sd: np.ndarray


def omega_and_square(omega: jax.Array) -> jax.Array:
    """Return omega and its square, [2 K]."""
    return jnp.concatenate([omega, omega**2], axis=-1)


# Positive numbers: shapes and a rate of a gamma law, means and a precision of logs of a lognormal.
SHAPES, RATE = np.array([0.1, 2.5]), 2.0
LOG_MEANS, LOG_PRECISION = np.array([-1.0, 0.5]), 4.0


def statistics_of_gamma() -> Statistics:
    """Return the exact law of theta and theta^2, theta ~ Gamma(SHAPES, RATE)."""
    first, second, fourth = (special.poch(SHAPES, n) / RATE**n for n in (1, 2, 4))
    variance = np.concatenate([second - first**2, fourth - second**2])
    return Statistics(np.concatenate([first, second]), np.sqrt(variance))


def statistics_of_lognormal() -> Statistics:
    """Return the exact law of x = log theta and x^2, x ~ N(LOG_MEANS, 1 / LOG_PRECISION)."""
    v = 1 / LOG_PRECISION
    variance = np.concatenate([np.full(2, v), 2 * v**2 + 4 * v * LOG_MEANS**2])
    return Statistics(np.concatenate([LOG_MEANS, LOG_MEANS**2 + v]), np.sqrt(variance))


def statistics_of(target: Posterior) -> Statistics:
    """Return the exact law of `omega_and_square`."""
    first, second, fourth = (target.moment(order) for order in (1, 2, 4))
    variance = np.concatenate([second - first**2, fourth - second**2])
    return Statistics(np.concatenate([first, second]), np.sqrt(variance))


DENSE = posterior(np.array([0.5, 1.0, 1.5]), observed((2, 3, 5)))
SPARSE = posterior(np.array([0.1, 0.1, 0.1]), observed((8, 2, 0)))
MIXTURE = posterior(
    np.array([0.6, 1.0, 1.4]),
    np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.2, 0.2, 0.6]])[[0, 0, 0, 1, 1, 2]],
)

SLOPES = np.array([1.0, 3.0])


def log_density_box(x: jax.Array) -> jax.Array:
    """Return -x_1 - 3 x_2: exponential laws cut off at 1, on the unit square."""
    return -(jnp.asarray(SLOPES, x.dtype) * x).sum()


def statistics_of_box() -> Statistics:
    """Return the exact law of x and x^2 on the unit square, by quadrature."""
    nodes, weights = special.roots_legendre(40)
    x = (nodes[:, None] + 1) / 2
    density = weights[:, None] * np.exp(-SLOPES * x)
    density /= density.sum(axis=0)
    moments = [(density * x**order).sum(axis=0) for order in (1, 2, 4)]
    variance = np.concatenate([moments[1] - moments[0] ** 2, moments[2] - moments[1] ** 2])
    return Statistics(np.concatenate(moments[:2]), np.sqrt(variance))


def draws_box(generator: np.random.Generator, n: int) -> np.ndarray:
    """Draw n points of the unit square exactly, [n, 2]."""
    u = generator.uniform(size=(n, 2))
    return -np.log1p(u * np.expm1(-SLOPES)) / SLOPES
