"""The global step of the spherical admixture model: topics given the proportions of a batch."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax import schedules
from simplex_jax.base import PyTree, bind
from simplex_jax.estimators import Estimator
from simplex_jax.geometry import manifolds
from simplex_jax.models import sam_documents, sam_joint
from simplex_jax.models.sam_documents import UnitDocuments
from simplex_jax.models.sam_joint import Hyperparameters, Minibatch
from simplex_jax.samplers import gmc, gsgnht, sggmc
from simplex_jax.schedules import StepSize

SAMPLERS = ("sggmc", "gsgnht", "gmc-apprmh", "gmc-bgibbs")

# h C, the damping of a step.
_DAMPING = 0.5

# Most of the injected noise that the estimated noise of the gradient may take the place of.
_SHARE = 0.9

SPHERE = manifolds.sphere()


class Settings(NamedTuple):
    """Settings of the sampler of the topics.

    Attributes:
        step_size: Its step size h.
        friction: C of "sggmc" and "gsgnht".
        num_steps: Number of steps of an update.
    """

    step_size: StepSize
    friction: float | jax.Array
    num_steps: int


def is_metropolis(sampler: str) -> bool:
    """Return whether a sampler has a Metropolis test, for which it needs all documents."""
    return sampler.startswith("gmc")


def init(
    key: jax.Array,
    position: jax.Array,
    documents: UnitDocuments,
    hyper: Hyperparameters,
    friction: jax.Array,
    sampler: str,
) -> Any:
    """Start the sampler of the topics."""
    if is_metropolis(sampler):
        change = bind(_change, documents, hyper)
        return gmc.init(key, position, log_density=change, manifold=SPHERE, needs_batch=True)
    module = sggmc if sampler == "sggmc" else gsgnht
    return module.init(
        key, position, estimator=_estimator(documents, hyper), manifold=SPHERE, friction=friction
    )


def update(
    key: jax.Array,
    state: Any,
    batch: Minibatch,
    documents: UnitDocuments,
    hyper: Hyperparameters,
    settings: Settings,
    sampler: str,
) -> tuple[Any, Any]:
    """Move the topics given the proportions of the documents of a batch."""
    options: dict[str, Any] = {"manifold": SPHERE, "step_size": settings.step_size}
    options |= {"num_steps": settings.num_steps}
    if is_metropolis(sampler):
        change = bind(_change, documents, hyper)
        seen = batch, state.position
        return gmc.update(key, state, seen, log_density=change, needs_batch=True, **options)
    module = sggmc if sampler == "sggmc" else gsgnht
    options |= {"estimator": _estimator(documents, hyper), "friction": settings.friction}
    if sampler == "gsgnht":
        # Critically damped: a thermostat as slow as that of the paper would not move in a run.
        options["inertia"] = 2 / jnp.square(settings.friction)
    if batch.ids.shape[0] < sam_documents.size(documents):
        most = 2 * settings.friction / schedules.at(settings.step_size, state.step)
        options["noise_estimate"] = bind(_variance, documents, hyper, _SHARE * most)
    return module.update(key, state, batch, **options)


def _change(
    documents: UnitDocuments,
    hyper: Hyperparameters,
    topics: jax.Array,
    seen: tuple[Minibatch, jax.Array],
) -> jax.Array:
    """Return the log joint density relative to that where the trajectory starts."""
    batch, reference = seen
    return sam_joint.log_change(topics, documents, reference, batch, hyper)


def _estimator(documents: UnitDocuments, hyper: Hyperparameters) -> Estimator:
    return Estimator(init=_no_memory, estimate=bind(_estimate, documents, hyper))


def _estimate(
    documents: UnitDocuments,
    hyper: Hyperparameters,
    key: jax.Array,
    memory: PyTree,
    topics: jax.Array,
    batch: Minibatch,
) -> tuple[jax.Array, PyTree]:
    del key
    return sam_joint.gradient(documents, topics, batch, hyper), memory


def _variance(
    documents: UnitDocuments,
    hyper: Hyperparameters,
    most: jax.Array,
    topics: jax.Array,
    batch: Minibatch,
) -> jax.Array:
    """Return the variance of the gradient, as far as there is noise to take it out of."""
    found = sam_joint.gradient_variance(documents, topics, batch, hyper)
    return jnp.minimum(found, most.astype(found.dtype))


def _no_memory(key: jax.Array) -> tuple:
    del key
    return ()


def defaults(
    sampler: str, documents: int, shape: tuple[int, int], hyper: Hyperparameters, batch_size: int
) -> Settings:
    r"""Return the settings used where none are given.

    They follow from two scales. Topics that documents share evenly, and that fit with a cosine of a
    half, have the curvature

    .. math:: \lambda = \sigma + \tfrac 12 \kappa_1 D / K,

    and where their sum nearly cancels, as it does at the posterior of concentrated documents, in
    some directions a hundred times that: :math:`h = 0.1 / \sqrt\lambda` is stable there, too. The
    estimate of the gradient from B documents has about the variance

    .. math:: \nu = \frac{\kappa_1^2 D (D - B)}{B K V}

    in a coordinate, or several times that. h is lowered to where :math:`h \nu = 0.05\, C` at
    :math:`C = 0.5 / h`; more friction has a bias of its own (see `samplers.sggmc`).
    """
    k, v = shape
    kappa = float(hyper.kappa1)
    step = 0.1 / math.sqrt(float(hyper.sigma) + 0.5 * kappa * documents / k)
    if is_metropolis(sampler):
        # The error of a trajectory grows with the root of the dimension and the square of the step.
        return Settings(step * min(1, 7 * (k * v) ** -0.25), 1.0, 10)
    if batch_size < documents:
        variance = kappa**2 * documents * (documents - batch_size) / (batch_size * k * v)
        step = min(step, math.sqrt(0.05 * _DAMPING / variance))
    return Settings(step, _DAMPING / step, 1)
