"""Langevin kernels for the contract tests."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from baselines import rld
from baselines.parameterisations import EXPANDED_MEAN, REDUCED_MEAN, REDUCED_NATURAL

from simplex_jax._src import batches, estimators, gradient_noise, gradients
from simplex_jax._src.samplers import barker, sgbd, sgld
from support import mixture_target as mixture
from support.contract_case import Case

X = np.array([0.5, 3.0, 2.0, -1.0, 7.0, 1.5], np.float32)
LABELS = np.array([0] * 8 + [1] + [3])


def log_prior(position):
    return -((position["mean"] ** 2).sum() + position["log_scale"] ** 2) / 8


def log_likelihood(position, batch):
    z = (batch[:, None] - position["mean"][None]) * jnp.exp(-position["log_scale"])
    return -(z**2 / 2 + position["log_scale"]).sum()


def euclidean_position():
    return {"mean": jnp.array([1.0, 2.0]), "log_scale": jnp.array(1.0)}


def sgld_posterior():
    build = functools.partial(
        sgld.build,
        gradients.posterior(log_prior, log_likelihood, len(X)),
        preconditioner={"mean": jnp.array([1.0, 0.5]), "log_scale": 0.2},
    )
    return Case(build(0.01), euclidean_position(), batches.uniform(X, 3), build)


def sgld_running():
    estimator = gradients.running(log_prior, log_likelihood, X, euclidean_position(), block_size=4)
    build = functools.partial(sgld.build, estimator)
    return Case(build(0.005), euclidean_position(), batches.visits(batches.uniform(X, 3), 5), build)


def sgbd_posterior(**options):
    estimator = gradients.posterior(log_prior, log_likelihood, len(X))
    build = functools.partial(sgbd.build, estimator, **options)
    return Case(build(0.01), euclidean_position(), batches.uniform(X, 3), build)


def barker_posterior():
    def log_density(position, batch):
        return log_prior(position) + log_likelihood(position, batch)

    build = functools.partial(barker.build, log_density, needs_batch=True)
    return Case(build(0.1), euclidean_position(), batches.full(X), build)


def rld_of(step_size, **options):
    build = functools.partial(rld.build, estimators.categorical(len(LABELS)), 0.5, **options)
    stream = batches.full(LABELS) if "metropolis" in options else batches.uniform(LABELS, 4)
    return Case(build(step_size), jnp.full(5, 0.2), stream, build)


def mixtures(log_omega, batch):
    return sum(mixture.log_likelihood(leaf, batch) for leaf in jax.tree.leaves(log_omega))


def rld_joint():
    size = len(mixture.DATA)
    build = functools.partial(
        rld.build,
        gradients.counts(mixtures, size),
        mixture.ALPHA,
        metropolis=size,
        log_likelihood=mixtures,
    )
    position = {"a": jnp.ones(3), "b": jnp.ones((2, 3))}
    return Case(build(0.05), position, batches.full(mixture.DATA), build)


CASES = {
    "sgld": sgld_posterior,
    "sgld running": sgld_running,
    "sgbd": sgbd_posterior,
    "sgbd corrected": functools.partial(
        sgbd_posterior, noise_estimate=gradient_noise.fisher(log_likelihood, len(X))
    ),
    "barker": barker_posterior,
    "rld": functools.partial(rld_of, 0.01),
    "rld reduced mean corrected": functools.partial(
        rld_of, 0.01, parameterisation=REDUCED_MEAN, metropolis=len(LABELS)
    ),
    "ld reduced natural": functools.partial(
        rld_of, 0.05, parameterisation=REDUCED_NATURAL, riemannian=False
    ),
    "ld expanded mean corrected": functools.partial(
        rld_of, 0.001, parameterisation=EXPANDED_MEAN, riemannian=False, metropolis=len(LABELS)
    ),
    "rld joint": rld_joint,
}
