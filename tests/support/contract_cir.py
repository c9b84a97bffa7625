"""Small problems for SGRLD, the Cox-Ingersoll-Ross and lognormal kernels, and Dirichlet paths."""

import functools

import jax.numpy as jnp
import numpy as np
from baselines import reflected_cir

from simplex_jax._src import batches, estimators
from simplex_jax._src.samplers import cir, dirichlet_paths, gbm, scir, sgrld
from simplex_jax._src.samplers.positive import Evidence, LogEvidence
from support.contract_case import Case

LABELS = np.array([0] * 8 + [1] + [3])
EVENTS = np.array([0.0, 0, 0, 1, 0, 2, 0, 0, 30, 1])


def simplex(build, step_size, **options):
    rebuild = functools.partial(build, estimators.categorical(len(LABELS)), 1e-3, **options)
    return Case(rebuild(step_size), jnp.full(5, 0.2), batches.uniform(LABELS, 4), rebuild)


def events_and_time(key, log_theta, batch):
    # The second coordinate, of tiny shape, has exposure without events.
    counts = {"a": jnp.stack([batch.sum(), 0.0]), "b": batch.sum()}
    return Evidence(counts, jnp.asarray(1.0 * len(batch)))


def positive_cir():
    estimator = estimators.subsampled(events_and_time, len(EVENTS))
    shape = {"a": jnp.array([0.5, 1e-3]), "b": 2.0}
    rebuild = functools.partial(cir.build, estimator, shape, {"a": 1.0, "b": 3.0}, sigma=0.5)
    position = {"a": jnp.array([1.0, 0.1]), "b": jnp.array(4.0)}
    return Case(rebuild(0.2), position, batches.uniform(EVENTS, 4), rebuild)


def log_events(key, log_theta, batch):
    logs = jnp.log1p(batch).sum()
    return LogEvidence({"a": jnp.stack([logs, -logs]), "b": logs}, jnp.asarray(1.0 * len(batch)))


def positive_gbm():
    estimator = estimators.subsampled(log_events, len(EVENTS))
    mean = {"a": jnp.array([0.0, -5.0]), "b": 1.0}
    rebuild = functools.partial(gbm.build, estimator, mean, {"a": 1e-3, "b": 10.0}, sigma=0.5)
    position = {"a": jnp.array([1.0, 0.1]), "b": jnp.array(4.0)}
    return Case(rebuild(0.2), position, batches.uniform(EVENTS, 4), rebuild)


def paths():
    kernel = dirichlet_paths.build(0.5, [0.0, 0.5, 2.0, 0.0], parents=[-1, 0, 0, -1])
    counts = np.array([[8, 1, 0], [3, 3, 0], [9, 1, 3], [1, 0, 2]], np.float32)
    return Case(kernel, jnp.ones((4, 3)), lambda key, step: jnp.asarray(counts), None)


CASES = {
    "dirichlet_paths": paths,
    "cir": positive_cir,
    "gbm": positive_gbm,
    "scir": functools.partial(simplex, scir.build, 0.5),
    "scir refreshed": functools.partial(simplex, scir.build, 0.5, total="refreshed"),
    "sgrld": functools.partial(simplex, sgrld.build, 0.01),
    "reflected_cir": functools.partial(simplex, reflected_cir.build, 0.1),
    "reflected_cir refreshed": functools.partial(
        simplex, reflected_cir.build, 0.1, total="refreshed"
    ),
}
