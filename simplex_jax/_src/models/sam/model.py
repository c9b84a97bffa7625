"""The spherical admixture model: documents and topics are unit vectors.

The mean of the topics is mu ~ vMF(m, kappa_0), topics are beta_k ~ vMF(mu, sigma), a document has
proportions theta_d ~ Dirichlet(alpha) and is v_d ~ vMF(b / |b|, kappa_1), b = sum_k theta_dk beta_k
(Reisinger et al. 2010). mu is integrated out. The position is beta, unit rows [K, V]; negative
entries mark words that a topic says are absent.
"""

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
from simplex_jax._src.models.sam import concentrations, local, sparse, step
from simplex_jax._src.models.sam.concentrations import LEARN, Evidence
from simplex_jax._src.models.sam.joint import Hyperparameters, Minibatch, hyperparameters
from simplex_jax._src.models.sam.local import Local
from simplex_jax._src.models.sam.sparse import UnitDocuments
from simplex_jax._src.models.sam.step import SAMPLERS, Model
from simplex_jax._src.schedules import StepSize

__all__ = [
    "LEARN",
    "SAMPLERS",
    "Hyperparameters",
    "Info",
    "Local",
    "State",
    "build",
    "hyperparameters",
    "start",
]


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
    hyper: Hyperparameters | None = None,
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
        documents: The documents, `sparse.to_device(vectors)`.
        shape: (K, V), numbers of topics and words, K at most V.
        hyper: Hyperparameters, see `hyperparameters`; by default those of the paper for 5,000
            words, with the mean direction of the documents.
        learn: The concentrations of `LEARN` to learn.
        shapes: Shapes of their priors by name; 1, an exponential prior, for others.
        sampler: One of `SAMPLERS`.
        batch_size: Documents in a batch, by default all; for "gmc" samplers always all.
        local_step: Sampler of the proportions, a `local.Local`; see `default_local`.
        inner_steps: Number L of steps per update, by default 1, or 10 for "gmc" samplers.
        step_size: Step size of the sampler or a schedule; see `step.defaults`.
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
        >>> from simplex_jax._src.models.sam import model, sparse
        >>> vectors = sp.csr_array([[0.6, 0.8, 0, 0], [0.8, 0.6, 0, 0], [0, 0, 0.6, 0.8]])
        >>> documents = sparse.to_device(vectors)
        >>> hyper = model.hyperparameters(
        ...     sparse.mean_direction(documents, 4), alpha=1, sigma=2, kappa0=2, kappa1=50)
        >>> kernel, stream = model.build(documents, (2, 4), hyper=hyper, sampler="gmc-bgibbs")
        >>> state = kernel.init(jax.random.key(0), model.start(jax.random.key(1), hyper, topics=2))
        >>> state, trace = run(jax.random.key(2), kernel, state, stream, num_steps=20)
        >>> trace.shape
        (20, 2, 4)
    """
    arguments.choice("sampler", sampler, SAMPLERS)
    learn = arguments.choices("learn", learn, LEARN)
    shape = sparse.check_shape(documents, shape)
    hyper = prior_of(documents, shape, hyper)
    size = sparse.size(documents)
    batch_size = check_batch_size(batch_size, size, sampler)
    local_step = default_local(sampler) if local_step is None else local_step
    local_step.check()
    if friction is not None and step.is_metropolis(sampler):
        raise ValueError(f"sampler={sampler!r} does not take friction")
    check_noise(sampler, inertia, noise_estimate)
    default = step.defaults(sampler, size, shape, hyper, batch_size)
    step_size = default.step_size if step_size is None else step_size
    schedules.check(step_size)
    inner_steps = default.inner_steps if inner_steps is None else inner_steps
    drag = arguments.scalar("friction", default.friction if friction is None else friction)
    mass = step.damped_inertia(drag) if inertia is None else inertia
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
    return kernel, sparse.uniform_stream(documents, batch_size)


def prior_of(
    documents: UnitDocuments, shape: tuple[int, int], hyper: Hyperparameters | None
) -> Hyperparameters:
    """Return hyperparameters, checked; None means those of the paper."""
    if hyper is None:
        return hyperparameters(sparse.mean_direction(documents, shape[1]))
    if hyper.mean.shape != shape[1:]:
        raise ValueError(f"hyper.mean must have {shape[1]} entries, not {hyper.mean.shape}")
    return hyper


@functools.partial(jax.jit, static_argnames="topics")
def start(key: jax.Array, hyper: Hyperparameters, topics: int) -> jax.Array:
    """Return random initial topics [K, V], at angles of about 45 degrees to m."""
    v = hyper.mean.shape[0]
    drawn = jax.random.normal(key, (topics, v), hyper.mean.dtype) / math.sqrt(v)
    return step.SPHERE.retract(drawn + hyper.mean)


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
    if step.is_metropolis(sampler) and batch_size != documents:
        raise ValueError(
            f"{sampler} has a Metropolis test over all {documents} documents: leave batch_size out"
        )
    return batch_size


def check_noise(sampler: str, inertia: float | None, noise_estimate: bool) -> None:
    """Raise a ValueError if the sampler does not use these options."""
    if inertia is not None and sampler != "gsgnht":
        raise ValueError(f"inertia is for gsgnht; {sampler} has no thermostat: leave it out")
    if not noise_estimate and step.is_metropolis(sampler):
        raise ValueError(f"noise_estimate is for sggmc and gsgnht, not {sampler}: leave it out")


def _init(model: Model, key: jax.Array, position: jax.Array) -> State:
    if jnp.shape(position) != model.shape:
        raise ValueError(f"position must be topics {model.shape}; it has {jnp.shape(position)}")
    inner = step.init(key, model, position)
    dtype = inner.position.dtype
    ratios = (sparse.size(model.documents) if model.full else 0, model.shape[0])
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
        size = sparse.size(model.documents)
        share = ids.shape[0] / size
        evidence = concentrations.follow(evidence, drawn.evidence, state.step, share)
        hyper = concentrations.draw(
            key_learn, hyper, model.hyper, state.position, evidence, size, model.learn, model.shapes
        )
    inner = state.sampler._replace(position=state.position, step=state.step)
    batch = Minibatch(ids, jax.nn.softmax(drawn.ratios))
    inner, info = step.update(key_topics, model, hyper, inner, batch)
    return State(
        position=inner.position,
        step=inner.step,
        ratios=drawn.ratios[:, -1] if model.full else state.ratios,
        evidence=evidence,
        sampler=inner._replace(position=None, step=None),
        **{name: getattr(hyper, name) for name in LEARN},
    ), Info(drawn.acceptance, drawn.evidence.fit, info)
