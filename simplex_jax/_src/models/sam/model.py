"""The spherical admixture model: documents and topics are unit vectors.

The mean of the topics is mu ~ vMF(m, kappa_0), topics are beta_k ~ vMF(mu, sigma), a document has
proportions theta_d ~ Dirichlet(alpha) and is v_d ~ vMF(b / |b|, kappa_1), b = sum_k theta_dk beta_k
(Reisinger et al. 2010). mu is integrated out. The position is beta, unit rows [K, V]; negative
entries mark words that a topic says are absent.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Kernel, bind
from simplex_jax._src.batches import Stream
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.estimators import Estimator, no_memory
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.models.sam import joint, local
from simplex_jax._src.models.sam.joint import (
    LEARN,
    Evidence,
    Hyperparameters,
    Minibatch,
    UnitDocuments,
)
from simplex_jax._src.models.sam.local import Local
from simplex_jax._src.samplers import gmc, gsgnht, sggmc
from simplex_jax._src.schedules import StepSize

# The global step of the spherical admixture model: topics given the proportions of a batch.

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
    """The model and its sampler options, arrays or static; see `build`."""

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
        return self.batch_size == joint.num_documents(self.documents)


def damped_inertia(friction: Any) -> Any:
    """Return the inertia of a critically damped thermostat, 2 / C^2.

    A thermostat as slow as that of the paper would not move within a run.
    """
    return 2 / friction**2


def is_metropolis(sampler: str) -> bool:
    """Return whether a sampler has a Metropolis test, which needs all documents."""
    return sampler.startswith("gmc")


def init_sampler(key: jax.Array, model: Model, position: jax.Array) -> Any:
    """Start the sampler of the topics."""
    if is_metropolis(model.sampler):
        change = bind(_change, model.documents, model.hyper)
        return gmc.init(key, position, log_density=change, manifold=SPHERE, needs_batch=True)
    options = {"manifold": SPHERE, "friction": model.friction}
    return _module(model).init(key, position, estimator=_estimator(model, model.hyper), **options)


def update_sampler(
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


def default_settings(
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


class State(NamedTuple):
    """State of the model."""

    position: jax.Array  # topics, unit rows [K, V]
    step: jax.Array  # number of updates done, int32
    alpha: jax.Array  # concentration of the proportions, a scalar
    sigma: jax.Array  # concentration of the topics
    kappa1: jax.Array  # concentration of the documents
    # Centred log-ratios of the proportions of all documents, [D, K], with full batches; else
    # [0, K].
    ratios: jax.Array
    evidence: Evidence  # statistics for learning the concentrations
    sampler: Any  # the state of the sampler of the topics without position and step


class Info(NamedTuple):
    """Diagnostics of one update."""

    local_acceptance: jax.Array  # acceptance rate of the moves of proportions
    fit: jax.Array  # mean cosine of the documents of the batch and their mean directions
    sampler: Any  # the Info of the sampler of the topics


def build(
    documents: UnitDocuments,
    shape: tuple[int, int],
    *,
    hyper: Hyperparameters,
    learn: tuple[str, ...] = (),
    shapes: Mapping[str, float] | None = None,
    sampler: str = "gsgnht",
    batch_size: int | None = None,
    local_step: Any = None,
    inner_steps: int | None = None,
    step_size: StepSize | None = None,
    friction: float | None = None,
    inertia: float | None = None,
    noise_estimate: bool = True,
) -> tuple[Kernel, Stream]:
    r"""Return the kernel of the topics of the model, and the stream of its batches.

    An update draws the proportions of the documents of a batch given the topics, and then moves
    the topics given them, `inner_steps` times with the same proportions:

    - "sggmc", "gsgnht": `samplers.sggmc` and `samplers.gsgnht` with the gradient of
      `joint.gradient`, scaled up from the batch; the velocity persists. The gradient noise,
      estimated from the documents of the batch, is subtracted from the injected noise. With all
      documents in a batch they are the full-batch versions.
    - "gmc-bgibbs": exact blocked Gibbs, a trajectory of `samplers.gmc` for p(topics | proportions,
      documents) with one sample of the proportions of every document. With N samples it is for the
      mean of their log joint densities, the GMC-apprMH of the paper: the Metropolis test ignores
      that other topics would have other proportions, which for small N biases the posterior towards
      topics that fit too well.

    Several steps with one batch accumulate its noise: at equal temperature of the topics
    `inner_steps` steps with one batch move no further than a single step can.

    Learned concentrations have gamma priors with the given values as means. Given the
    proportions and topics each moves by one Metropolis step per update. With all documents in a
    batch that is a Gibbs step, and "gmc-bgibbs" stays exact. With batches the statistics of the
    documents are a running average over about one pass, a stochastic approximation: correct on
    average, but lagging behind the topics by about a pass.

    Args:
        documents: The documents, `joint.to_device(vectors)`.
        shape: (K, V), numbers of topics and words, K at most V.
        hyper: Hyperparameters, see `hyperparameters`.
        learn: The concentrations of `LEARN` to learn.
        shapes: Shapes of their priors by name; 1, an exponential prior, for others.
        sampler: One of `SAMPLERS`.
        batch_size: Documents in a batch, by default all; for "gmc" samplers always all.
        local_step: Sampler of the proportions, a `local.Local`; see `default_local`.
        inner_steps: Number L of steps per update, by default 1, or 10 for "gmc" samplers.
        step_size: Step size of the sampler or a schedule; see `default_settings`.
        friction: C of "sggmc" and "gsgnht"; see there.
        inertia: Inertia of the thermostat of "gsgnht", by default 2 / C^2, critical damping; the
            paper uses 1.
        noise_estimate: For "sggmc" and "gsgnht" with batches: subtract the gradient noise from the
            injected noise, as above. False means V = 0, as in the paper.

    Returns:
        A kernel whose `init` takes topics [K, V], unit rows (see `start`), and a stream of batches
        for its `update`: indices of documents, int32 [batch_size].

    Raises:
        ValueError: An argument is out of range, not one of the names or not used by this
            sampler, or there are more topics than words.

    Example:
        >>> import jax, scipy.sparse as sp
        >>> from simplex_jax import run
        >>> from simplex_jax._src.models.sam import joint, model
        >>> vectors = sp.csr_array([[0.6, 0.8, 0, 0], [0.8, 0.6, 0, 0], [0, 0, 0.6, 0.8]])
        >>> documents = joint.to_device(vectors)
        >>> hyper = joint.hyperparameters(
        ...     joint.mean_direction(vectors), alpha=1, sigma=2, kappa0=2, kappa1=50)
        >>> kernel, stream = model.build(documents, (2, 4), hyper=hyper, sampler="gmc-bgibbs")
        >>> state = kernel.init(jax.random.key(0), model.start(jax.random.key(1), hyper, topics=2))
        >>> state, trace = run(jax.random.key(2), kernel, state, stream, num_steps=20)
        >>> trace.shape
        (20, 2, 4)
    """
    arguments.choice("sampler", sampler, SAMPLERS)
    learn = arguments.choices("learn", learn, LEARN)
    shape = joint.check_shape(documents, shape, hyper)
    size = joint.num_documents(documents)
    batch_size = check_batch_size(batch_size, size, sampler)
    local_step = default_local(sampler) if local_step is None else local_step
    local_step.check()
    if friction is not None and is_metropolis(sampler):
        raise ValueError(f"sampler={sampler!r} does not take friction")
    check_noise(sampler, inertia, noise_estimate)
    default = default_settings(sampler, size, shape, hyper, batch_size)
    step_size = default.step_size if step_size is None else step_size
    schedules.check(step_size)
    inner_steps = default.inner_steps if inner_steps is None else inner_steps
    drag = arguments.scalar("friction", default.friction if friction is None else friction)
    mass = damped_inertia(drag) if inertia is None else inertia
    model = Model(
        documents=documents,
        hyper=hyper,
        step_size=step_size,
        friction=drag,
        inertia=arguments.scalar("inertia", mass),
        sampler=sampler,
        shape=shape,
        batch_size=batch_size,
        local_step=local_step,
        inner_steps=arguments.at_least("inner_steps", inner_steps, 1),
        noise_estimate=bool(noise_estimate),
        learn=learn,
        shapes=tuple(float((shapes or {}).get(name, 1.0)) for name in learn),
    )
    kernel = Kernel(init=bind(_init, model), update=bind(_update, model))
    return kernel, joint.uniform_stream(documents, batch_size)


@functools.partial(jax.jit, static_argnames="topics")
def start(key: jax.Array, hyper: Hyperparameters, topics: int) -> jax.Array:
    """Return random initial topics [K, V], at angles of about 45 degrees to m."""
    v = hyper.mean.shape[0]
    drawn = jax.random.normal(key, (topics, v), hyper.mean.dtype) / math.sqrt(v)
    return SPHERE.retract(drawn + hyper.mean)


def default_local(sampler: str) -> Local:
    """Return the default local step.

    One sample is enough for a stochastic gradient: documents differ far more than samples of the
    proportions of one document. Chains of GMC-bGibbs continue from update to update.
    """
    return Local(burn_in=0) if sampler == "gmc-bgibbs" else Local()


def check_batch_size(batch_size: int | None, documents: int, sampler: str) -> int:
    """Return the batch size, or raise a ValueError unless it suits the sampler."""
    if batch_size is None:
        return documents
    if arguments.at_least("batch_size", batch_size, 1) > documents:
        raise ValueError(f"batch_size must be between 1 and {documents}; it is {batch_size}")
    if is_metropolis(sampler) and batch_size != documents:
        raise ValueError(
            f"{sampler} has a Metropolis test over all {documents} documents: leave batch_size out"
        )
    return batch_size


def check_noise(sampler: str, inertia: float | None, noise_estimate: bool) -> None:
    """Raise a ValueError if the sampler does not use these options."""
    if inertia is not None and sampler != "gsgnht":
        raise ValueError(f"inertia is for gsgnht; {sampler} has no thermostat: leave it out")
    if not noise_estimate and is_metropolis(sampler):
        raise ValueError(f"noise_estimate is for sggmc and gsgnht, not {sampler}: leave it out")


def _init(model: Model, key: jax.Array, position: jax.Array) -> State:
    if jnp.shape(position) != model.shape:
        raise ValueError(f"position must be topics {model.shape}; it has {jnp.shape(position)}")
    inner = init_sampler(key, model, position)
    dtype = inner.position.dtype
    ratios = (joint.num_documents(model.documents) if model.full else 0, model.shape[0])
    return State(
        position=inner.position,
        step=inner.step,
        ratios=jnp.zeros(ratios, dtype),
        evidence=Evidence(jnp.zeros((), dtype), jnp.zeros((), dtype)),
        sampler=inner._replace(position=None, step=None),
        # A state may be donated to jitted code, and must not share arrays with the kernel.
        **{name: jnp.array(getattr(model.hyper, name), dtype) for name in LEARN},
    )


def _update(model: Model, key: jax.Array, state: State, ids: jax.Array) -> tuple[State, Info]:
    """Draw the proportions of the batch, the concentrations given them, and then the topics."""
    key_local, key_learn, key_topics = jax.random.split(by_native_code(key), 3)
    hyper = model.hyper._replace(**{name: getattr(state, name) for name in LEARN})
    start = local.Start(state.ratios, state.step == 0) if model.full else None
    drawn = local.draw_all(
        key_local, model.documents, state.position, ids, hyper, model.local_step, start
    )
    evidence = state.evidence
    if model.learn:
        size = joint.num_documents(model.documents)
        share = ids.shape[0] / size
        evidence = joint.follow(evidence, drawn.evidence, state.step, share)
        hyper = joint.draw_concentrations(
            key_learn, hyper, model.hyper, state.position, evidence, size, model.learn, model.shapes
        )
    inner = state.sampler._replace(position=state.position, step=state.step)
    batch = Minibatch(ids, jax.nn.softmax(drawn.ratios))
    inner, info = update_sampler(key_topics, model, hyper, inner, batch)
    return State(
        position=inner.position,
        step=inner.step,
        ratios=drawn.ratios[:, -1] if model.full else state.ratios,
        evidence=evidence,
        sampler=inner._replace(position=None, step=None),
        **{name: getattr(hyper, name) for name in LEARN},
    ), Info(drawn.acceptance, drawn.evidence.fit, info)
