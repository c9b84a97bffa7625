"""Small problems for the samplers with momenta, and for the recipe behind them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src import batches, estimators, gradients
from simplex_jax._src.samplers import recipe, sghmc, sgnht, sgrhmc
from support.contract_case import Case

DATA = np.linspace(-1.0, 2.0, 12).astype(np.float32)
LABELS = np.array([0] * 8 + [1] + [3])
POSITION = {"a": jnp.zeros(3), "b": jnp.full((2, 2), 0.5)}


def log_prior(x):
    return -sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x)) / 2


def log_likelihood(x, batch):
    return (
        -jnp.sum((batch[:, None] - x["a"][None]) ** 2) / 8
        - jnp.sum(x["b"] ** 2) * batch.shape[0] / 16
    )


def euclidean(build, step_size, **options):
    estimator = gradients.posterior(log_prior, log_likelihood, len(DATA))

    def rebuild(step_size):
        return build(estimator, step_size, **options)

    return Case(rebuild(step_size), POSITION, batches.uniform(DATA, 4), rebuild)


def riemannian(z, v):
    """D(z) = diag(1 / (1 + x^2)), so that there is a correction."""
    return (jax.tree.map(lambda x, a: a / (1 + x**2), z[0], v[0]),)


def damped(z, v):
    return jax.tree.map(jnp.zeros_like, v[0]), v[1]


def turned(z, v):
    return jax.tree.map(jnp.negative, v[1]), v[0]


def energy(z):
    return sum(jnp.sum(r**2) for r in jax.tree.leaves(z[1])) / 2


def at_rest(key, position):
    return (jax.tree.map(jnp.zeros_like, position),)


def simplex(position, alpha, total):
    estimator = estimators.categorical(len(LABELS))

    def rebuild(step_size):
        return sgrhmc.build(estimator, alpha, step_size, total=total)

    return Case(rebuild(0.3), position, batches.uniform(LABELS, 4), rebuild)


CASES = {
    "recipe": functools.partial(
        euclidean,
        recipe.build,
        0.05,
        diffusion=damped,
        curl=turned,
        kinetic=energy,
        auxiliary=at_rest,
        noise_estimate=0.1,
    ),
    "recipe, coordinatewise": functools.partial(
        euclidean, recipe.build, 0.05, diffusion=riemannian, coordinatewise=True
    ),
    "sghmc": functools.partial(
        euclidean,
        sghmc.build,
        0.05,
        mass={"a": jnp.array([1.0, 2.0, 3.0]), "b": 1.0},
        noise_estimate=0.1,
    ),
    "sgnht": functools.partial(euclidean, sgnht.build, 0.05),
    "sgrhmc": functools.partial(simplex, jnp.full(5, 0.2), 0.1, "carried"),
    "sgrhmc refreshed": functools.partial(simplex, jnp.full(5, 0.2), 0.6, "refreshed"),
    # Empty categories have probabilities of about 10^-400.
    "sgrhmc, alpha = 1e-3": functools.partial(simplex, jnp.full(200, 0.005), 1e-3, "carried"),
}
