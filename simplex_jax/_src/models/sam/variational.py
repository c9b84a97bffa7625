"""Variational inference for the spherical admixture model, with full or mini-batches."""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Kernel, bind
from simplex_jax._src.batches import Stream
from simplex_jax._src.geometry import von_mises_fisher as vmf
from simplex_jax._src.models.sam import bound, model, sparse
from simplex_jax._src.models.sam.joint import Hyperparameters
from simplex_jax._src.models.sam.sparse import UnitDocuments
from simplex_jax._src.runtime.driver import nothing, run
from simplex_jax._src.schedules import Schedule, StepSize, polynomial_decay

STARTS = ("variational", "prior")
"""Names of the starts of a chain."""

UPDATES, BATCH = 40, 4_000
"""Variational updates before the first sample, and the maximum batch size of each."""

_STATIC = {"static": True}


class State(NamedTuple):
    """State of the variational methods."""

    position: jax.Array  # mean directions of the topics, unit vectors [K, V]
    step: jax.Array  # number of updates done, int32
    # Weights of the proportions of every document, Dirichlet(w_d), [D, K]; 0 for documents that
    # have not been in a batch.
    weights: jax.Array
    concentration: jax.Array  # xi, the concentration of q(phi_k), a scalar


class Info(NamedTuple):
    """Diagnostics of an update, all scalars."""

    step_size: jax.Array  # rho
    # The bound of the log evidence per document, at the topics before the update; estimated from
    # the batch if it is not full.
    bound: jax.Array
    local_iterations: jax.Array  # iterations of the weights for the slowest document
    topic_iterations: jax.Array  # steps of the topics


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class _Model:
    """Settings of `build`; a climb of topics ends when no entry would change by `change`."""

    documents: UnitDocuments
    hyper: Hyperparameters
    step_size: StepSize
    change: jax.Array
    shape: tuple[int, int] = dataclasses.field(metadata=_STATIC)
    learn: bool = dataclasses.field(metadata=_STATIC)
    local_iterations: int = dataclasses.field(metadata=_STATIC)
    topic_iterations: int = dataclasses.field(metadata=_STATIC)


def default_step_size() -> Schedule:
    """Return the published schedule for batches, rho_t = (5 + t)^-0.8 after t updates."""
    return polynomial_decay(5**-0.8, tau=5, kappa=0.8)


def build(
    documents: UnitDocuments,
    shape: tuple[int, int],
    *,
    hyper: Hyperparameters | None = None,
    learn_concentration: bool = False,
    batch_size: int | None = None,
    step_size: StepSize | None = None,
    local_iterations: int = 20,
    topic_iterations: int = 100,
    tolerance: float = 0.1,
) -> tuple[Kernel, Stream]:
    r"""Return the kernel of mean-field variational Bayes for SAM, and its stream of batches.

    It maximises the bound of `bound` (Reisinger et al. 2010). An update optimises the weights w_d
    of the documents of a batch, then, given these, the directions x_k of the topics for the bound
    of the batch, with its documents counted D / |B| times. The result is :math:`\hat x_k`, and

    .. math:: x_k \leftarrow \frac{(1 - \rho) x_k + \rho \hat x_k}
                                  {|(1 - \rho) x_k + \rho \hat x_k|}.

    With all documents in a batch and `step_size=1`, the default, this is the batch method (VI), and
    the bound never falls; with fewer it is the stochastic method (StoVI) of Liu et al. (2016).

    Both ascents use rollback, as theirs do, but other directions and a separate step size for every
    document. Weights follow the natural gradient,

    .. math:: \log w_{dk} \leftarrow \log w_{dk} + s_d (\tilde\nabla_k L) / w_{dk},

    for which s = 1 is exact if the expected cosine is linear in the expected log proportions.
    Topics follow their gradients g_k projected at x_k,
    :math:`x_k + s (g_k - x_k x_k' g_k) / |g_k|`, renormalised, for which s = 1 is the maximiser if
    the bound is linear in the topic. Steps double when the bound rises and halve when it would
    fall. The published code follows plain gradients with rates of 1e-2 and 1e-3. The corpus mean
    has its optimal length, see `bound.resultant`. A document's weights start at their last values.

    Args:
        documents: The unit vectors, `sparse.to_device(vectors)`.
        shape: (K, V), numbers of topics and words, K at most V.
        hyper: Hyperparameters, `model.hyperparameters(mean, ...)`; None for those of the paper with
            the mean direction of the documents.
        learn_concentration: Maximise over xi as well, from sigma on, by damped steps to the fixed
            point of the bound's derivative; otherwise it stays at sigma, as published.
        batch_size: Documents in a batch, at most the number of documents; by default all.
        step_size: rho, above 0 and at most 1, or a schedule; by default 1 with all documents in a
            batch and otherwise `default_step_size`.
        local_iterations: Maximum iterations of the weights per update.
        topic_iterations: Maximum steps of the topics per update.
        tolerance: The steps end when no entry of a topic would change by this over the root of V.

    Returns:
        A kernel whose `init` takes topics [K, V], which it normalises and which must differ; and a
        stream of uniform batches of distinct documents.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> import jax, jax.numpy as jnp, scipy.sparse as sp
        >>> from simplex_jax import run
        >>> from simplex_jax._src.models.sam import model, sparse, variational
        >>> rows = sp.csr_array([[0.6, 0.8, 0, 0], [0.8, 0.6, 0, 0], [0, 0, 0.6, 0.8]])
        >>> documents = sparse.to_device(rows)
        >>> hyper = model.hyperparameters(
        ...     sparse.mean_direction(documents, 4),
        ...     alpha=0.5, sigma=10, kappa0=10, kappa1=100)
        >>> kernel, stream = build(documents, (2, 4), hyper=hyper)
        >>> start = jnp.array([[1.0, 1.0, 1.0, 0.5], [0.5, 1.0, 1.0, 1.0]])
        >>> state = kernel.init(jax.random.key(0), start)
        >>> state, _ = run(jax.random.key(1), kernel, state, stream, num_steps=50)
        >>> (state.position > 0.5).tolist()
        [[True, True, False, False], [False, False, True, True]]
    """
    shape = sparse.check_shape(documents, shape)
    size = sparse.size(documents)
    at_once = size if batch_size is None else arguments.at_least("batch_size", batch_size, 1)
    at_once = min(at_once, size)
    if step_size is None:
        step_size = 1.0 if at_once == size else default_step_size()
    schedules.check_share(step_size)
    fixed = _Model(
        documents=documents,
        hyper=model.prior_of(documents, shape, hyper),
        step_size=step_size,
        change=arguments.scalar("tolerance", tolerance) / math.sqrt(shape[1]),
        shape=shape,
        learn=bool(learn_concentration),
        local_iterations=arguments.at_least("local_iterations", local_iterations, 1),
        topic_iterations=arguments.at_least("topic_iterations", topic_iterations, 1),
    )
    kernel = Kernel(init=bind(_init, fixed), update=bind(_update, fixed))
    return kernel, sparse.uniform_stream(documents, at_once)


def _init(model: _Model, key: jax.Array, position: jax.Array) -> State:
    del key
    position = arguments.as_float("position", position)
    if position.shape != model.shape:
        raise ValueError(f"position must be topics of shape {model.shape}; it has {position.shape}")
    length = jnp.linalg.norm(position, axis=1)
    arguments.require("position", length, arguments.positive(length), "topics that are not 0")
    return State(
        position=_normalise(position),
        step=jnp.zeros((), jnp.int32),
        weights=jnp.zeros((sparse.size(model.documents), model.shape[0]), position.dtype),
        # A state may be donated to jitted code, and must not share arrays with the kernel.
        concentration=jnp.array(model.hyper.sigma, position.dtype),
    )


def _normalise(x: jax.Array) -> jax.Array:
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)


def _update(model: _Model, key: jax.Array, state: State, ids: jax.Array) -> tuple[State, Info]:
    """Find the weights of the batch, then its topics, and move towards these."""
    del key
    old, xi, size = state.position, state.concentration, state.weights.shape[0]
    hyper = jax.tree.map(lambda leaf: leaf.astype(old.dtype), model.hyper)
    rho = schedules.evaluate(model.step_size, state.step).astype(old.dtype)
    rho = jnp.where((rho > 0) & (rho <= 1), rho, jnp.nan)
    length = vmf.mean_length(old.shape[1], xi)

    words = bound.words_of(model.documents, ids, *old.shape)
    cosines, gram = words.cosines(old), bound.matmul(old, old.T)
    weights, iterations = bound.climb_weights(
        hyper, state.weights[ids], cosines, gram, length, model.local_iterations
    )
    each = jnp.mean(bound.documents(hyper, weights, cosines, gram, length))
    reached = bound.total(hyper, each, size, old, xi, length)
    topics = bound.Topics(hyper, weights, size / ids.shape[0], model.change)
    new, cosines, steps = bound.climb_topics(
        topics, words, old, cosines, length, model.topic_iterations
    )
    # With a NaN bound no step would be accepted, which looks like convergence.
    new = jnp.where(jnp.isnan(reached), jnp.nan, new)
    if model.learn:
        better = bound.climb_concentration(topics, new, cosines, xi)
        xi = (1 - rho) * xi + rho * better
    state = State(
        position=_normalise((1 - rho) * old + rho * new),
        step=state.step + 1,
        weights=state.weights.at[ids].set(weights),
        concentration=xi,
    )
    return state, Info(rho, reached, iterations, steps)


def start(
    key: jax.Array, documents: UnitDocuments, hyper: Hyperparameters, count: int, method: str
) -> jax.Array:
    """Return initial topics [K, V] of a chain.

    "prior" draws directions about the corpus mean, from which samplers need hundreds of passes to
    converge. "variational" continues with `UPDATES` updates of variational inference, each with all
    documents or `BATCH` of them, which takes a few passes and shortens the burn-in.
    """
    key_start, key_init, key_run = jax.random.split(key, 3)
    first = model.start(key_start, hyper, count)
    if method == "prior":
        return first
    size = sparse.size(documents)
    # Batches are large and updates few, so later updates get more weight than in a long run.
    step_size = polynomial_decay(1.0, tau=1.0, kappa=0.6) if size > BATCH else 1.0
    kernel, stream = build(
        documents,
        (count, first.shape[1]),
        hyper=hyper,
        batch_size=min(BATCH, size),
        step_size=step_size,
        local_iterations=5,
        topic_iterations=5,
    )
    state = kernel.init(key_init, first)
    # Not a lambda: a new one for each chain and fit would recompile everything.
    state, _ = run(key_run, kernel, state, stream, UPDATES, collect=nothing)
    return state.position
