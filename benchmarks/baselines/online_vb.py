"""Online variational Bayes for LDA (Hoffman, Blei and Bach 2010)."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from baselines import entries, natural
from baselines.entries import Entries
from simplex_jax._src import arguments
from simplex_jax._src.base import Kernel, bind, static
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus, Documents
from simplex_jax._src.geometry.digamma import digamma
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.models.lda.kernel import Counts, Given, Info, State
from simplex_jax._src.schedules import Schedule, StepSize, polynomial_decay

__all__ = ["Info", "State", "build", "default_step_size"]

# The distinct words of a document are cut in segments, the last of which is padded: long ones waste
# places, short ones cost a row of document weights each.
_SEGMENT = 16
# Segments that are worked on at once: their topics, [segments, 16, K], should fit a core's cache.
_SEGMENTS = 256

# einsum uses fewer bits than float32 has on some devices, unless told otherwise.
_einsum = functools.partial(jnp.einsum, precision=lax.Precision.HIGHEST)


class Groups(NamedTuple):
    """Sizes of the groups of documents whose proportions are found together.

    Attributes:
        segments: Most segments of a group; no document has more.
        documents: Most documents of a group.
    """

    segments: int
    documents: int


class Local(NamedTuple):
    """What the local step tells of a batch.

    Attributes:
        iterations: Mean number of iterations of a document.
        unfinished: Share of the documents that had not converged at the last one.
    """

    iterations: jax.Array
    unfinished: jax.Array


def default_step_size() -> Schedule:
    """Return the schedule of the authors' code, rho_t = (1025 + t)^-0.7 after t updates."""
    return polynomial_decay(1025**-0.7, tau=1025, kappa=0.7)


def build(
    corpus: DeviceCorpus,
    shape: tuple[int, int],
    *,
    alpha: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    step_size: StepSize | None = None,
    batch_size: int = 64,
    iterations: int = 100,
    tolerance: float = 1e-3,
) -> tuple[Kernel, Stream]:
    r"""Return the kernel of online variational Bayes for LDA, and its stream of batches.

    Topics have the posterior Dirichlet(lambda_k), proportions Dirichlet(gamma_d). For the documents
    of a batch, from gamma = 1,

    .. math::
        \phi_{dwk} \propto \exp(\psi(\gamma_{dk}) + \psi(\lambda_{kw}) - \psi(\lambda_{k.})), \qquad
        \gamma_{dk} = \alpha_k + \sum_w n_{dw} \phi_{dwk}

    in turn, until the mean change of gamma_d is below the tolerance; then

    .. math:: \lambda \leftarrow (1 - \rho) \lambda
              + \rho \Big(\beta + \frac{D}{|B|} \sum_{d \in B} n_{dw} \phi_{dwk}\Big)

    (Hoffman et al. 2010, Algorithm 2). With all documents in a batch and `step_size=1` that is
    batch variational Bayes. Their code draws the first gamma from Gamma(100, 1 / 100); here it is
    the mean of that, so that nothing but the batches and the start of lambda is random.

    In float32 no expectation of a log proportion or topic counts as less than 35 below the largest
    of the document or word.

    Args:
        corpus: The corpus, `device.to_device(counts)`.
        shape: (K, V), numbers of topics and words.
        alpha: Concentration of topic proportions, per topic, a scalar or [K]; by default 1 / K.
        beta: Concentration of topics, per word, a scalar, [V] or [K, V]; by default 1 / K.
        step_size: rho, above 0 and at most 1, or a schedule of it; see `default_step_size`.
        batch_size: Documents a batch, cut to those that there are.
        iterations: Most iterations of the proportions of a document.
        tolerance: Mean change of gamma_d below which they end.

    Returns:
        A kernel whose `init` takes topics [K, V], to which noise is given, and whose position is
        the logarithm of the mean topics, lambda normalised; and a stream of uniform batches of
        distinct documents. The weights lambda are `state.sampler.weights`.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> import jax, jax.numpy as jnp, scipy.sparse as sp
        >>> from simplex_jax import run
        >>> from simplex_jax._src.corpus import device
        >>> from baselines import online_vb
        >>> counts = sp.csr_array([[3, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 2]])
        >>> kernel, stream = online_vb.build(device.to_device(counts), (2, 4), step_size=1.0)
        >>> state = kernel.init(jax.random.key(0), jnp.ones((2, 4)))
        >>> state, _ = run(jax.random.key(1), kernel, state, stream, num_steps=50)
        >>> jnp.exp(state.position).sum(axis=1).round(3).tolist()
        [1.0, 1.0]
    """
    shape = natural.check_shape(shape, corpus)
    config = lda.configure(shape, **concentrations(alpha, beta, shape))
    batch_size = natural.batch_size_of(batch_size, corpus)
    iterations = arguments.at_least("iterations", iterations, 1)
    change = arguments.as_float("tolerance", tolerance)
    arguments.require("tolerance", change, arguments.nonnegative(change), "finite and at least 0")
    if step_size is None:
        step_size = default_step_size()
    known = entries.of(corpus)
    options = {"documents": device.size(corpus), "groups": _groups(known), "iterations": iterations}
    counts = Counts(init=bind(_start), estimate=bind(static(_estimate, **options), known, change))
    kernel = natural.kernel(counts, config, step_size, shape, natural.geometric)
    return kernel, device.uniform_stream(corpus, batch_size)


def concentrations(
    alpha: ArrayLike | None, beta: ArrayLike | None, shape: tuple[int, int]
) -> dict[str, ArrayLike]:
    """Return the concentrations, 1 / K where none are given, as in the authors' code."""
    alpha, beta = (1 / shape[0] if value is None else value for value in (alpha, beta))
    return {"alpha": alpha, "beta": beta}


def _start(key: jax.Array) -> Local:
    del key
    return _nothing_told()


def _nothing_told() -> Local:
    return Local(jnp.float32(0), jnp.float32(0))


def _groups(known: Entries) -> Groups:
    segments = -(-np.diff(np.asarray(known.corpus.starts)) // _SEGMENT)
    most = max(_SEGMENTS, int(segments.max()))
    # As many documents as fill a group when they are of mean length.
    documents = most * segments.size // max(1, int(segments.sum()))
    return Groups(most, max(1, min(documents, segments.size)))


def _estimate(
    known: Entries,
    tolerance: jax.Array,
    given: Given,
    key: jax.Array,
    memory: Local,
    log_topics: jax.Array,
    ids: jax.Array,
    *,
    documents: int,
    groups: Groups,
    iterations: int,
) -> tuple[jax.Array, Local]:
    """Return the counts of the batch, scaled to the corpus."""
    del key, memory
    dtype = log_topics.dtype
    topics = _floored_exp(log_topics, axis=0).T
    mine = device.select(known.corpus, ids)
    # Documents without words come first and are left out, so that every group ends.
    order = jnp.argsort(mine.lengths)
    starts, lengths = mine.starts[order], mine.lengths[order]
    ends = jnp.cumsum(-(-lengths // _SEGMENT))
    size = ids.shape[0]

    def group(loop: tuple) -> tuple:
        first, total, told = loop
        room = jnp.where(first > 0, ends[first - 1], 0) + groups.segments
        last = jnp.minimum(jnp.searchsorted(ends, room, side="right"), first + groups.documents)
        number = first + lax.iota(jnp.int32, groups.documents)
        batch = Documents(
            known.corpus.tokens,
            starts.at[number].get(mode="clip"),
            jnp.where(number < last, lengths.at[number].get(mode="clip"), 0),
        )
        added, new = _expect(
            *(known.counts, topics, given.alpha.astype(dtype), tolerance),
            *(batch, groups, iterations, total),
        )
        return last.astype(jnp.int32), added, jax.tree.map(jnp.add, told, new)

    empty = jnp.sum(lengths == 0, dtype=jnp.int32)
    start = (empty, jnp.zeros_like(topics), _nothing_told())
    _, total, told = lax.while_loop(lambda loop: loop[0] < size, group, start)
    told = jax.tree.map(lambda x: x / jnp.maximum(size - empty, 1), told)
    return (documents / size) * total.T, told


def _expect(
    counts: jax.Array,
    topics: jax.Array,
    alpha: jax.Array,
    tolerance: jax.Array,
    documents: Documents,
    groups: Groups,
    iterations: int,
    total: jax.Array,
) -> tuple[jax.Array, Local]:
    """Find the proportions of a group of documents and add its expected counts to `total` [V, K].

    Also returns sums over its documents.
    """
    # The segments as tokens of the documents: `token_slots` tells whose they are.
    segments = Documents(
        documents.tokens, jnp.zeros_like(documents.starts), -(-documents.lengths // _SEGMENT)
    )
    inside, owner = device.token_slots(segments, jnp.int32(0), groups.segments)
    # Segments beyond the last one have places beyond their documents.
    inside = jnp.minimum(inside, segments.lengths[owner])
    number = _SEGMENT * inside[:, None] + lax.iota(jnp.int32, _SEGMENT)
    place = documents.starts[owner][:, None] + number
    occurs = counts.at[place].get(mode="clip").astype(topics.dtype)
    occurs = jnp.where(number < documents.lengths[owner][:, None], occurs, 0)
    word = documents.tokens.at[place].get(mode="clip")
    likelihood = topics[word]  # [segments, 16, K]

    def shares(gamma: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        theta = _floored_exp(digamma(gamma), axis=1)
        theta_here = theta[owner]
        norm = _einsum("spk,sk->sp", likelihood, theta_here)
        return theta, theta_here, occurs / norm

    def iterate(loop: tuple) -> tuple:
        i, gamma, moving, taken = loop
        theta, _, share = shares(gamma)
        drawn = _einsum("spk,sp->sk", likelihood, share)
        new = alpha + theta * jnp.zeros_like(gamma).at[owner].add(drawn)
        change = jnp.mean(jnp.abs(new - gamma), axis=1)
        gamma = jnp.where(moving[:, None], new, gamma)
        return i + 1, gamma, moving & (change >= tolerance), taken + moving

    there = documents.lengths > 0
    gamma = jnp.ones((groups.documents, alpha.shape[0]), alpha.dtype)
    _, gamma, moving, taken = lax.while_loop(
        lambda loop: (loop[0] < iterations) & jnp.any(loop[2]),
        iterate,
        (0, gamma, there, jnp.zeros(groups.documents, jnp.float32)),
    )
    _, theta_here, share = shares(gamma)
    expected = likelihood * theta_here[:, None] * share[:, :, None]
    unfinished = jnp.sum(moving, dtype=jnp.float32)
    return total.at[word].add(expected), Local(jnp.sum(taken), unfinished)


def _floored_exp(log_weights: jax.Array, axis: int) -> jax.Array:
    """Return weights relative to the largest along an axis, so that products of two are normal."""
    floor = 0.4 * math.log(jnp.finfo(log_weights.dtype).tiny)
    peak = jnp.max(log_weights, axis=axis, keepdims=True)
    return jnp.exp(jnp.maximum(log_weights - peak, floor))
