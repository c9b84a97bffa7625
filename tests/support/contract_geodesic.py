"""Small problems for the samplers on manifolds."""

import functools

import jax.numpy as jnp
import numpy as np

from simplex_jax._src import batches, gradient_noise, gradients
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.samplers import gmc, gsgnht, sggmc
from support.contract_case import Case

DATA = np.linspace(-1.0, 2.0, 12).astype(np.float32)
SPACE = manifolds.product({"direction": manifolds.sphere(), "level": manifolds.euclidean()})
POSITION = {
    "direction": jnp.array([[1.0, 0.0, 0.0], [0.6, 0.0, -0.8]]),
    "level": jnp.array([0.5, -0.5]),
}


def log_prior(x):
    return -jnp.sum(x["level"] ** 2) / 2 + x["direction"].sum()


def log_likelihood(x, batch):
    return -jnp.sum((batch[:, None] - (x["level"] + x["direction"][:, 1])[None]) ** 2) / 8


def stochastic(build, step_size, **options):
    estimator = gradients.posterior(log_prior, log_likelihood, len(DATA))

    def rebuild(step_size):
        return build(estimator, SPACE, step_size, **options)

    return Case(rebuild(step_size), POSITION, batches.uniform(DATA, 4), rebuild)


def exact(manifold, position, log_density):
    def rebuild(step_size):
        return gmc.build(log_density, manifold, step_size, num_steps=3)

    return Case(rebuild(0.2), position, batches.full(jnp.zeros(1)), rebuild)


CASES = {
    "sggmc": functools.partial(stochastic, sggmc.build, 0.1, friction=2.0, num_steps=2),
    "sggmc, diagonal friction": functools.partial(
        stochastic,
        sggmc.build,
        0.1,
        friction={"direction": jnp.array([1.0, 2.0, 3.0]), "level": 2.0},
        noise_estimate=gradient_noise.fisher(log_likelihood, len(DATA)),
    ),
    "gsgnht": functools.partial(
        stochastic, gsgnht.build, 0.1, friction=3.0, num_steps=2, noise_estimate=0.1
    ),
    "gmc": functools.partial(
        exact,
        manifolds.product((manifolds.sphere(), manifolds.simplex_flat())),
        (jnp.array([0.0, 0.6, 0.8]), jnp.array([0.2, 0.3, 0.5])),
        lambda x: 3 * x[0][2] + jnp.log(x[1]).sum(),
    ),
    "gmc on frames": functools.partial(
        exact, manifolds.stiefel(), jnp.eye(4, 2), lambda x: 3 * x[0, 0] - x[1, 1]
    ),
}
