"""Distributions with exactly known moments, for measuring the bias of samplers.

Posteriors of category weights: data are rows L_i [K] of likelihoods under each of K categories; the
category weights omega have a Dirichlet prior, and the log likelihood is sum_i log(L_i . omega).
Rows with a single 1 are observed categories, and the posterior is a Dirichlet. Other rows make a
mixture model, which is not conjugate; its posterior is a mixture of Dirichlets, over all
assignments of the data.

Low-dimensional distributions, `Law`, by quadrature: a normal truncated to the unit square, and a
von Mises-Fisher distribution on the sphere.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special


class Statistics(NamedTuple):
    """Exact means and standard deviations of a point and its square."""

    mean: np.ndarray
    sd: np.ndarray


def statistics(first: np.ndarray, second: np.ndarray, fourth: np.ndarray) -> Statistics:
    """Return those of a point with these moments about 0, [2 K]."""
    variance = np.concatenate([second - first**2, fourth - second**2])
    return Statistics(np.concatenate([first, second]), np.sqrt(variance))


def point_and_square(x: jax.Array) -> jax.Array:
    """Return a point and its square, [2 K]."""
    return jnp.concatenate([x, x**2], axis=-1)


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

    def statistics(self) -> Statistics:
        """Return the exact moments of omega and its square."""
        return statistics(*(self.moment(order) for order in (1, 2, 4)))

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
    """Sum over the assignments with positive likelihood."""
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


DENSE = posterior(np.array([0.5, 1.0, 1.5]), observed((2, 3, 5)))
SPARSE = posterior(np.array([0.1, 0.1, 0.1]), observed((8, 2, 0)))
MIXTURE = posterior(
    np.array([0.6, 1.0, 1.4]),
    np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.2, 0.2, 0.6]])[[0, 0, 0, 1, 1, 2]],
)


class Law(NamedTuple):
    """A low-dimensional distribution.

    Attributes:
        log_density: Of points [..., d], up to a constant.
        most: An upper bound of that.
        nodes: Points of a quadrature rule of its domain, [n, d].
        weights: Their weights, [n].
        uniform: `(generator, n) -> points [n, d]`, uniform on the domain.
    """

    log_density: Callable[[np.ndarray], np.ndarray]
    most: float
    nodes: np.ndarray
    weights: np.ndarray
    uniform: Callable[[np.random.Generator, int], np.ndarray]

    def statistics(self) -> Statistics:
        """Return the exact moments of x and its square, by quadrature."""
        mass = self.weights * np.exp(self.log_density(self.nodes) - self.most)
        mass /= mass.sum()
        return statistics(*(mass @ self.nodes**order for order in (1, 2, 4)))

    def draws(self, generator: np.random.Generator, n: int) -> np.ndarray:
        """Draw n points exactly, [n, d], by rejection from the uniform."""
        kept: list[np.ndarray] = []
        while sum(map(len, kept)) < n:
            x = self.uniform(generator, 4 * n)
            kept.append(x[np.log(generator.random(4 * n)) < self.log_density(x) - self.most])
        return np.concatenate(kept)[:n]


def on_sphere(log_density: Callable[[np.ndarray], np.ndarray], most: float) -> Law:
    """Return a distribution on the sphere in R^3: nodes are heights by longitudes."""
    heights, weights = special.roots_legendre(60)
    longitudes = np.arange(120) * 2 * np.pi / 120
    height, longitude = (grid.ravel() for grid in np.meshgrid(heights, longitudes, indexing="ij"))
    ring = np.sqrt(1 - height**2)
    nodes = np.stack([ring * np.cos(longitude), ring * np.sin(longitude), height], axis=-1)
    return Law(log_density, most, nodes, np.repeat(weights, len(longitudes)), _directions)


def _directions(generator: np.random.Generator, n: int) -> np.ndarray:
    x = generator.standard_normal((n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def on_square(log_density: Callable[[np.ndarray], np.ndarray], most: float) -> Law:
    """Return a distribution on the unit square."""
    nodes, weights = special.roots_legendre(40)
    points = np.stack(np.meshgrid((nodes + 1) / 2, (nodes + 1) / 2), axis=-1).reshape(-1, 2)
    return Law(
        log_density,
        most,
        points,
        np.outer(weights, weights).ravel(),
        lambda generator, n: generator.uniform(size=(n, 2)),
    )


# A normal whose centre is outside the square: its mass is at a side.
CENTRE, PRECISION = np.array([0.7, -0.2]), np.array([[9.0, -4.0], [-4.0, 8.0]])


def log_normal_density(x: jax.Array, centre: jax.Array) -> jax.Array:
    """Return -(x - centre) . PRECISION (x - centre) / 2, of one point."""
    away = x - centre
    return -(away @ jnp.asarray(PRECISION, x.dtype) @ away) / 2


def _log_normal_density(x: np.ndarray) -> np.ndarray:
    return -np.einsum("...i,ij,...j->...", x - CENTRE, PRECISION, x - CENTRE) / 2


TRUNCATED_NORMAL = on_square(_log_normal_density, 0.0)

PULL = 3.0 * np.array([0.48, -0.36, 0.8])  # concentration 3
VON_MISES_FISHER = on_sphere(lambda x: x @ PULL, 3.0)
