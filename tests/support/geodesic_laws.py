"""Distributions on manifolds, their exact draws, and checks of samples against them."""

import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from support import statistics_checks as checks

KAPPA = 3.0
MEAN = np.array([2.0, -1.0, 0.5, 1.5])
ALPHA = np.array([1.0, 1.6, 3.0])


def direction(n):
    return MEAN[:n] / np.linalg.norm(MEAN[:n])


def fisher_draws(rng, rows, n=3):
    """Von Mises-Fisher draws on the sphere in R^n."""
    law = stats.vonmises_fisher(direction(n), KAPPA, seed=rng)
    return np.asarray(law.rvs(rows)).reshape(rows, n)


def cosine_law(n, kappa=KAPPA):
    """Distribution of the cosine between a von Mises-Fisher vector and its mean direction."""
    nodes = np.linspace(-1, 1, 4001)
    middle = (nodes[1:] + nodes[:-1]) / 2
    weights = np.exp(kappa * middle) * (1 - middle**2) ** ((n - 3) / 2)
    below = np.concatenate([[0.0], np.cumsum(weights)]) / weights.sum()
    mean = middle @ weights / weights.sum()
    return lambda t: np.interp(t, nodes, below), mean, middle**2 @ weights / weights.sum() - mean**2


def fisher_checks(x, kappa=KAPPA):
    """Check the cosine, and around the mean direction a sine and a cosine of mean 0."""
    x = np.asarray(x, float)
    n = x.shape[1]
    along = x @ direction(n)
    cdf, mean, variance = cosine_law(n, kappa)
    around = x - along[:, None] * direction(n)
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    basis = np.linalg.svd(direction(n)[None])[2][1:]
    result = {
        "cosine": checks.dkwm(along, cdf, resolution=1e-6),
        "cosine, mean": checks.mean_z(along, mean, variance),
    }
    for j, axis in enumerate(basis):
        result["around", j] = checks.mean_z(around @ axis, 0, 1 / (n - 1))
        result["around, square", j] = checks.variance_z(
            around @ axis, 0, 1 / (n - 1), 3 / (n - 1) / (n + 1)
        )
    return result


def dirichlet_checks(x):
    x = np.asarray(x, float)
    result = {}
    for j, a in enumerate(ALPHA):
        b = ALPHA.sum() - a
        score = special.ndtri(
            np.clip(special.betainc(a, b, np.clip(x[:, j], 0, 1)), 1e-9, 1 - 1e-9)
        )
        result[j, "mean"] = checks.mean_z(score, 0, 1)
        result[j, "variance"] = checks.variance_z(score, 0, 1, 3)
    return result


def frame_draws(rng, rows):
    """Frames [4, 2]: the first column von Mises-Fisher, the second free."""
    first = fisher_draws(rng, rows, 4)
    second = rng.standard_normal((rows, 4))
    second -= first * (first * second).sum(axis=1, keepdims=True)
    second /= np.linalg.norm(second, axis=1, keepdims=True)
    return np.stack([first, second], axis=-1)


def frame_checks(x):
    """Archimedes: in a space of 3 dimensions a coordinate of a uniform direction is uniform."""
    x = np.asarray(x, float)
    first, second = x[:, :, 0], x[:, :, 1]
    result = fisher_checks(first)
    for j in range(4):
        axis = np.eye(4)[j] - first * first[:, j : j + 1]
        axis /= np.linalg.norm(axis, axis=1, keepdims=True)
        coordinate = (second * axis).sum(axis=1)
        result["second", j] = checks.dkwm((1 + coordinate) / 2, lambda u: np.clip(u, 0, 1))
    return result


def square_root(log_density):
    """Return the log density of y = sqrt(x) on `simplex_sphere`, given that of x on the simplex.

    The sum is the log of the Jacobian between the volume of the simplex and the area of the sphere.
    """
    return lambda y: log_density(y**2) + jnp.log(jnp.abs(y)).sum()
