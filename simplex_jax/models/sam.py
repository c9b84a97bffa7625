"""The spherical admixture model: topics that are unit vectors, of documents that are unit vectors.

The mean of the topics is mu ~ vMF(m, kappa_0), topics are beta_k ~ vMF(mu, sigma), a document has
proportions theta_d ~ Dirichlet(alpha) and is v_d ~ vMF(b / |b|, kappa_1), b = sum_k theta_dk beta_k
(Reisinger et al. 2010). mu is integrated out. The position is beta, unit rows [K, V]; entries are
negative for words that a topic says are absent.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax import schedules
from simplex_jax.base import Kernel, bind, static
from simplex_jax.batches import Stream
from simplex_jax.draws import arguments
from simplex_jax.models import (
    sam_concentrations,
    sam_documents,
    sam_local,
    sam_step,
)
from simplex_jax.models.sam_concentrations import LEARN, Evidence
from simplex_jax.models.sam_documents import UnitDocuments
from simplex_jax.models.sam_joint import Hyperparameters, Minibatch, hyperparameters
from simplex_jax.models.sam_local import Local
from simplex_jax.models.sam_step import SAMPLERS, Settings
from simplex_jax.schedules import StepSize

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
    """State of the model.

    Attributes:
        position: Topics, unit rows [K, V].
        step: Number of updates done, int32.
        alpha: Concentration of the proportions, a scalar.
        sigma: Concentration of the topics.
        kappa1: Concentration of the documents.
        ratios: Centred log-ratios of the proportions of all documents, [D, K], where every update
            draws them all; else [0, K].
        evidence: What learned concentrations are learned from.
        sampler: What else the sampler of the topics keeps: its state without position and step.
    """

    position: jax.Array
    step: jax.Array
    alpha: jax.Array
    sigma: jax.Array
    kappa1: jax.Array
    ratios: jax.Array
    evidence: Evidence
    sampler: Any


class Info(NamedTuple):
    """What an update tells.

    Attributes:
        local_acceptance: Share of the moves of proportions that were accepted.
        fit: Mean cosine of the documents of the batch and their mean directions.
        sampler: The Info of the sampler of the topics.
    """

    local_acceptance: jax.Array
    fit: jax.Array
    sampler: Any


def build(
    documents: UnitDocuments,
    shape: tuple[int, int],
    *,
    hyper: Hyperparameters | None = None,
    learn: tuple[str, ...] = (),
    sampler: str = "gsgnht",
    batch_size: int | None = None,
    how: Local | None = None,
    num_steps: int | None = None,
    step_size: StepSize | None = None,
    friction: float | None = None,
) -> tuple[Kernel, Stream]:
    r"""Return the kernel of the topics of the model, and the stream of batches that it eats.

    An update draws the proportions of the documents of a batch given the topics, and then moves
    the topics given them, `num_steps` times with the same proportions:

    - "sggmc", "gsgnht": with the gradient of `sam_joint.gradient`, scaled up from the batch, by
      `samplers.sggmc` and `samplers.gsgnht`; the velocity persists. The noise of the gradient, as
      the documents of the batch show it, is taken out of the injected one. With all documents in
      a batch they are the full-batch versions.
    - "gmc-bgibbs": blocked Gibbs, exact. With one sample of the proportions of every document, a
      trajectory of `samplers.gmc` for p(topics | proportions, documents).
    - "gmc-apprmh": the same for the mean of the log joint density over N samples of the
      proportions, as in the paper. The Metropolis test leaves out that other topics would have had
      other proportions: the law is biased, towards topics that fit too well where N is small.

    One batch with several steps adds up the noise of one batch over all of them: at equal
    temperature of the topics `num_steps` steps of one batch reach no further than one step can.

    Learned concentrations have exponential priors with the given values as means. Given the
    proportions and topics they move by a Metropolis step each, once an update. With all documents
    in a batch that is a Gibbs step, and "gmc-bgibbs" stays exact. With batches what is known of the
    documents is a running average over about one pass, and the law is that of stochastic
    approximation: right on average, and lagging behind the topics by about a pass.

    Args:
        documents: The documents, `sam_documents.to_device(vectors)`.
        shape: (K, V), numbers of topics and words, K at most V.
        hyper: Hyperparameters, see `hyperparameters`; by default those of the paper for 5,000
            words, about the mean direction of the documents.
        learn: Which of `LEARN` to learn.
        sampler: One of `SAMPLERS`.
        batch_size: Documents a batch, by default all; of "gmc" samplers always all.
        how: How proportions are drawn; see `default_local`.
        num_steps: Number L of steps of an update, by default 1, or 10 of "gmc" samplers.
        step_size: Step size of the sampler or a schedule of it; see `sam_step.defaults`.
        friction: C of "sggmc" and "gsgnht"; see there. The thermostat of "gsgnht" has the inertia
            2 / C^2, by which it is critically damped.

    Returns:
        A kernel whose `init` takes topics [K, V], unit rows (see `start`), and a stream of what its
        `update` takes: places of documents, int32 [batch_size].

    Raises:
        ValueError: An argument is out of range, not one of the names or does nothing with this
            sampler, or there are more topics than words.

    Example:
        >>> import jax, scipy.sparse as sp
        >>> from simplex_jax import run
        >>> from simplex_jax.models import sam, sam_documents
        >>> vectors = sp.csr_array([[0.6, 0.8, 0, 0], [0.8, 0.6, 0, 0], [0, 0, 0.6, 0.8]])
        >>> documents = sam_documents.to_device(vectors)
        >>> hyper = sam.hyperparameters(
        ...     sam_documents.mean_direction(documents, 4), alpha=1, sigma=2, kappa0=2, kappa1=50)
        >>> kernel, stream = sam.build(documents, (2, 4), hyper=hyper, sampler="gmc-bgibbs")
        >>> state = kernel.init(jax.random.key(0), sam.start(jax.random.key(1), hyper, topics=2))
        >>> state, trace = run(jax.random.key(2), kernel, state, stream, num_steps=20)
        >>> trace.shape
        (20, 2, 4)
    """
    check_names(sampler, learn)
    shape = sam_documents.check_shape(documents, shape)
    size = sam_documents.size(documents)
    if hyper is None:
        hyper = hyperparameters(sam_documents.mean_direction(documents, shape[1]))
    elif hyper.mean.shape != shape[1:]:
        raise ValueError(f"hyper.mean must have {shape[1]} entries, not {hyper.mean.shape}")
    batch_size = check_batch_size(batch_size, size, sampler)
    how = _check_local(default_local(sampler) if how is None else how, sampler)
    if friction is not None and sam_step.is_metropolis(sampler):
        raise ValueError(f"friction is for sggmc and gsgnht; {sampler} has none: leave it out")
    settings = sam_step.defaults(sampler, size, shape, hyper, batch_size)
    if step_size is None:
        step_size = settings.step_size
    schedules.check(step_size)
    damping = arguments.scalar("friction", settings.friction if friction is None else friction)
    num_steps = settings.num_steps if num_steps is None else num_steps
    options: dict[str, Any] = {"sampler": sampler, "full": batch_size == size}
    moves = {"how": how, "num_steps": arguments.at_least("num_steps", num_steps, 1)}
    kernel = Kernel(
        init=bind(static(_init, shape=shape, **options), documents, hyper, damping),
        update=bind(
            static(_update, learn=tuple(learn), **options, **moves),
            documents,
            hyper,
            step_size,
            damping,
        ),
    )
    return kernel, sam_documents.uniform_stream(documents, batch_size)


def start(key: jax.Array, hyper: Hyperparameters, topics: int) -> jax.Array:
    """Return topics [K, V] to start from: about m, at angles of about 45 degrees to it."""
    v = hyper.mean.shape[0]
    drawn = jax.random.normal(key, (topics, v), hyper.mean.dtype) / math.sqrt(v)
    return sam_step.SPHERE.retract(drawn + hyper.mean)


def default_local(sampler: str) -> Local:
    """Return the local step used where none is given.

    One sample is enough for a stochastic gradient: documents differ far more than samples of the
    proportions of one do. Chains of GMC-bGibbs go on from update to update.
    """
    if sampler == "gmc-apprmh":
        return Local(samples=5)
    return Local(burn_in=0) if sampler == "gmc-bgibbs" else Local()


def check_names(sampler: str, learn: tuple[str, ...] = ()) -> None:
    """Raise a ValueError unless these are names, as for `build`."""
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler must be one of {', '.join(SAMPLERS)}; it is {sampler!r}")
    if unknown := [name for name in learn if name not in LEARN]:
        raise ValueError(f"learn must be among {', '.join(LEARN)}; it has {unknown[0]!r}")


def check_batch_size(batch_size: int | None, documents: int, sampler: str) -> int:
    """Return the batch size in full, or raise a ValueError unless it suits the sampler."""
    full = sam_step.is_metropolis(sampler)
    if batch_size is None:
        return documents
    if arguments.at_least("batch_size", batch_size, 1) > documents:
        raise ValueError(f"batch_size must be between 1 and {documents}; it is {batch_size}")
    if full and batch_size != documents:
        raise ValueError(
            f"{sampler} has a Metropolis test over all {documents} documents: leave batch_size out"
        )
    return batch_size


def _check_local(how: Local, sampler: str) -> Local:
    if sampler == "gmc-bgibbs" and how.samples != 1:
        raise ValueError(
            f"how.samples must be 1 for gmc-bgibbs, which is exact with one; it is {how.samples}"
        )
    return sam_local.check(how)


def _init(
    documents: UnitDocuments,
    hyper: Hyperparameters,
    friction: jax.Array,
    key: jax.Array,
    position: jax.Array,
    *,
    shape: tuple[int, int],
    sampler: str,
    full: bool,
) -> State:
    if jnp.shape(position) != shape:
        raise ValueError(f"position must be topics {shape}; its shape is {jnp.shape(position)}")
    inner = sam_step.init(key, position, documents, hyper, friction, sampler)
    dtype = inner.position.dtype
    # A state may be donated to jitted code, and must not share arrays with the kernel.
    learned = {name: jnp.array(getattr(hyper, name), dtype) for name in LEARN}
    return State(
        position=inner.position,
        step=inner.step,
        ratios=jnp.zeros((sam_documents.size(documents) if full else 0, shape[0]), dtype),
        evidence=sam_concentrations.no_evidence(dtype),
        sampler=inner._replace(position=None, step=None),
        **learned,
    )


def _update(
    documents: UnitDocuments,
    prior: Hyperparameters,
    step_size: StepSize,
    friction: jax.Array,
    key: jax.Array,
    state: State,
    ids: jax.Array,
    *,
    sampler: str,
    full: bool,
    how: Local,
    num_steps: int,
    learn: tuple[str, ...],
) -> tuple[State, Info]:
    """Draw the proportions of the batch, the concentrations given them, and then the topics."""
    key_local, key_learn, key_topics = jax.random.split(key, 3)
    hyper = prior._replace(**{name: getattr(state, name) for name in LEARN})
    start = state.ratios if full else None
    drawn = sam_local.draw_all(key_local, documents, state.position, ids, hyper, how, start)
    evidence = state.evidence
    if learn:
        size = sam_documents.size(documents)
        share = ids.shape[0] / size
        evidence = sam_concentrations.follow(evidence, drawn.evidence, state.step, share)
        hyper = sam_concentrations.draw(
            key_learn, hyper, prior, state.position, evidence, size, learn
        )
    inner, info = sam_step.update(
        key_topics,
        state.sampler._replace(position=state.position, step=state.step),
        Minibatch(ids, jax.nn.softmax(drawn.ratios)),
        documents,
        hyper,
        Settings(step_size, friction, num_steps),
        sampler,
    )
    return State(
        position=inner.position,
        step=inner.step,
        ratios=drawn.ratios[:, -1] if full else state.ratios,
        evidence=evidence,
        sampler=inner._replace(position=None, step=None),
        **{name: getattr(hyper, name) for name in LEARN},
    ), Info(drawn.acceptance, drawn.evidence.fit, info)
