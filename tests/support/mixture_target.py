"""A non-Dirichlet posterior on three categories: weights of a mixture of known components.

It is tabulated on a fine grid of log ratios, from which exact draws come.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

COMPONENTS = np.array([[0.7, 0.1, 0.3], [0.2, 0.1, 0.6], [0.1, 0.8, 0.1]])  # [outcome, component]
DATA = np.array([0] * 9 + [1] * 2 + [2] * 3)
ALPHA = np.array([1.5, 2.0, 1.2])


def log_likelihood(log_omega, batch):
    """Log density of log-probabilities [..., 3] and outcomes [n], summed over both."""
    log_rows = jnp.log(jnp.asarray(COMPONENTS, log_omega.dtype))
    seen = jnp.zeros(3, log_omega.dtype).at[batch].add(1)
    rows = jax.nn.logsumexp(log_omega.reshape(-1, 1, 3) + log_rows[None], axis=-1)
    return (seen[None] * rows).sum()


class Law(NamedTuple):
    """The posterior on a grid: cells with probabilities, [cells, 3] and [cells]."""

    omega: np.ndarray
    probability: np.ndarray

    @property
    def mean(self):
        return self.probability @ self.omega

    @property
    def variance(self):
        return self.probability @ (self.omega - self.mean) ** 2

    def draw(self, seed, rows):
        """Draws, exact up to the cells of the grid (1% of a standard deviation)."""
        rng = np.random.default_rng(seed)
        return self.omega[rng.choice(self.probability.size, rows, p=self.probability)]


def law():
    ratios = np.linspace(-20, 12, 1000)
    a, b = np.meshgrid(ratios, ratios, indexing="ij")
    log_w = np.stack([a, b, np.zeros_like(a)], axis=-1).reshape(-1, 3)
    omega = np.exp(log_w - np.logaddexp.reduce(log_w, axis=-1, keepdims=True))
    # In log ratios the density of Dirichlet(alpha) is proportional to prod omega_j^alpha_j.
    log_p = np.log(omega) @ ALPHA + np.log(omega @ COMPONENTS.T) @ np.bincount(DATA, minlength=3)
    p = np.exp(log_p - log_p.max())
    return Law(omega, p / p.sum())
