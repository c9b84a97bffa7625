"""The global step of the spherical admixture model: topics given the proportions of a batch."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import schedules
from simplex_jax._src.base import bind
from simplex_jax._src.estimators import Estimator, no_memory
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.models.sam import joint, sparse
from simplex_jax._src.models.sam.joint import Hyperparameters, Minibatch
from simplex_jax._src.models.sam.local import Local
from simplex_jax._src.models.sam.sparse import UnitDocuments
from simplex_jax._src.samplers import gmc, gsgnht, sggmc
from simplex_jax._src.schedules import StepSize

SAMPLERS = ("sggmc", "gsgnht", "gmc-bgibbs")

# h C, the damping of a step.
_DAMPING = 0.5

# Maximum share of the injected noise that the gradient noise may replace.
_SHARE = 0.9

_STATIC = {"static": True}

SPHERE = manifolds.sphere()


class Settings(NamedTuple):
    """Settings of the sampler of the topics: step size h, friction C and steps per update."""

    step_size: StepSize
    friction: float | jax.Array
    inner_steps: int


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """The model and its sampler options, arrays or static; see `model.build`."""

    documents: UnitDocuments
    hyper: Hyperparameters
    step_size: StepSize
    friction: float | jax.Array
    inertia: float | jax.Array  # of the thermostat
    sampler: str = dataclasses.field(metadata=_STATIC)
    shape: tuple[int, int] = dataclasses.field(metadata=_STATIC)
    batch_size: int = dataclasses.field(metadata=_STATIC)
    local_step: Local = dataclasses.field(metadata=_STATIC)
    inner_steps: int = dataclasses.field(metadata=_STATIC)
    noise_estimate: bool = dataclasses.field(metadata=_STATIC)
    learn: tuple[str, ...] = dataclasses.field(metadata=_STATIC)
    shapes: tuple[float, ...] = dataclasses.field(metadata=_STATIC)  # of the priors of these

    @property
    def full(self) -> bool:
        """True if a batch has all documents."""
        return self.batch_size == sparse.size(self.documents)


def damped_inertia(friction: Any) -> Any:
    """Return the inertia of a critically damped thermostat, 2 / C^2.

    A thermostat as slow as that of the paper would not move within a run.
    """
    return 2 / friction**2


def is_metropolis(sampler: str) -> bool:
    """Return whether a sampler has a Metropolis test, which needs all documents."""
    return sampler.startswith("gmc")


def init(key: jax.Array, model: Model, position: jax.Array) -> Any:
    """Start the sampler of the topics."""
    if is_metropolis(model.sampler):
        change = bind(_change, model.documents, model.hyper)
        return gmc.init(key, position, log_density=change, manifold=SPHERE, needs_batch=True)
    options = {"manifold": SPHERE, "friction": model.friction}
    return _module(model).init(key, position, estimator=_estimator(model, model.hyper), **options)


def update(
    key: jax.Array, model: Model, hyper: Hyperparameters, state: Any, batch: Minibatch
) -> tuple[Any, Any]:
    """Move the topics given the proportions of the documents of a batch."""
    options: dict[str, Any] = {"manifold": SPHERE, "step_size": model.step_size}
    options |= {"num_steps": model.inner_steps}
    if is_metropolis(model.sampler):
        change = bind(_change, model.documents, hyper)
        seen = batch, state.position
        return gmc.update(key, state, seen, log_density=change, needs_batch=True, **options)
    options |= {"estimator": _estimator(model, hyper), "friction": model.friction}
    if model.sampler == "gsgnht":
        options["inertia"] = model.inertia
    if model.noise_estimate and not model.full:
        most = 2 * model.friction / schedules.evaluate(model.step_size, state.step)
        options["noise_estimate"] = bind(_variance, model.documents, hyper, _SHARE * most)
    return _module(model).update(key, state, batch, **options)


def _module(model: Model) -> Any:
    return sggmc if model.sampler == "sggmc" else gsgnht


def _change(
    documents: UnitDocuments,
    hyper: Hyperparameters,
    topics: jax.Array,
    seen: tuple[Minibatch, jax.Array],
) -> jax.Array:
    """Return the log joint density relative to the start of the trajectory."""
    batch, reference = seen
    return joint.log_change(topics, documents, reference, batch, hyper)


def _estimator(model: Model, hyper: Hyperparameters) -> Estimator:
    return Estimator(no_memory, bind(_estimate, model.documents, hyper))


def _estimate(
    documents: UnitDocuments,
    hyper: Hyperparameters,
    key: jax.Array,
    memory: tuple,
    topics: jax.Array,
    batch: Minibatch,
) -> tuple[jax.Array, tuple]:
    del key
    return joint.gradient(documents, topics, batch, hyper), memory


def _variance(
    documents: UnitDocuments,
    hyper: Hyperparameters,
    most: jax.Array,
    topics: jax.Array,
    batch: Minibatch,
) -> jax.Array:
    """Return the variance of the gradient, at most the noise it is subtracted from."""
    variance = joint.gradient_variance(documents, topics, batch, hyper)
    return jnp.minimum(variance, most.astype(variance.dtype))


def defaults(
    sampler: str, documents: int, shape: tuple[int, int], hyper: Hyperparameters, batch_size: int
) -> Settings:
    r"""Return the default settings.

    They follow from two scales. Topics that documents share evenly, and that fit with a cosine of a
    half, have the curvature

    .. math:: \lambda = \sigma + \tfrac 12 \kappa_1 D / K,

    and a hundred times that in some directions if their sum nearly cancels, as in the posterior of
    concentrated documents: :math:`h = 0.1 / \sqrt\lambda` is stable there, too. The gradient
    estimate from B documents has a variance of about

    .. math:: \nu = \frac{\kappa_1^2 D (D - B)}{B K V}

    per coordinate, or several times that. h is reduced until :math:`h \nu \le 0.05\, C` at
    :math:`C = 0.5 / h`; more friction has a bias of its own (see `samplers.sggmc`).
    """
    k, v = shape
    kappa = float(hyper.kappa1)
    step = 0.1 / math.sqrt(float(hyper.sigma) + 0.5 * kappa * documents / k)
    if is_metropolis(sampler):
        # The error of a trajectory grows as the root of the dimension and the square of the step.
        return Settings(step * min(1, 7 * (k * v) ** -0.25), 1.0, 10)
    if batch_size < documents:
        variance = kappa**2 * documents * (documents - batch_size) / (batch_size * k * v)
        step = min(step, math.sqrt(0.05 * _DAMPING / variance))
    return Settings(step, _DAMPING / step, 1)
