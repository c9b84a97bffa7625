"""Counts of topics and words for LDA: what the kernels of the simplex eat, out of documents."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax.base import bind, static
from simplex_jax.corpus import device
from simplex_jax.corpus.device import DeviceCorpus, Documents
from simplex_jax.draws import arguments
from simplex_jax.estimators import Estimator
from simplex_jax.models import local
from simplex_jax.models.local import Assignments


class Local(NamedTuple):
    """How the topics of the tokens of a batch are drawn.

    Attributes:
        method: "collapsed" or "blocked", see `simplex_jax.models.local`.
        sweeps: Gibbs sweeps over a batch.
        burn_in: Of these, the first whose counts are not used.
        expected: Use the probabilities that the labels were drawn from in place of the labels:
            less noise, at the price of K updates a token. Not for memoised counts, which are
            exact with labels only.
    """

    method: str = "collapsed"
    sweeps: int = 1
    burn_in: int = 0
    expected: bool = False


ONE_SWEEP = Local()


class Memory(NamedTuple):
    """Memory of memoised counts.

    Attributes:
        labels: Topic of every token, uint8 (or wider) [T]; K where none was drawn yet.
        counts: Tokens of each topic and word, int32 [K, V].
    """

    labels: jax.Array
    counts: jax.Array


class Reference(NamedTuple):
    """Memory of the control variate.

    Attributes:
        log_topics: Topics at the reference, [K, V].
        counts: Estimate of the full-data counts there, [K, V].
        age: Number of updates since it was taken, int32.
    """

    log_topics: jax.Array
    counts: jax.Array
    age: jax.Array


def memoised(
    corpus: DeviceCorpus, shape: tuple[int, int], alpha: ArrayLike, how: Local
) -> Estimator:
    """Counts of the labels of all tokens, of which a batch replaces its own.

    With SCIR and a refreshed total this is an exact Gibbs sampler of LDA that visits a batch of
    documents at a time: no discretisation and no subsampling error.

    Args:
        corpus: The corpus.
        shape: (K, V).
        alpha: Concentration of the topic proportions, a scalar or [K].
        how: The local step.
    """
    check(shape, how)
    if how.expected or how.burn_in:
        raise ValueError("memoised counts are those of the last labels: no burn_in, no expected")
    return Estimator(
        init=bind(static(_init_memory, shape=shape), corpus),
        estimate=bind(static(_memoised, how=how), corpus, proportions(alpha, shape[0])),
    )


def subsampled(
    corpus: DeviceCorpus, shape: tuple[int, int], alpha: ArrayLike, how: Local, batch_size: int
) -> Estimator:
    """Counts of a batch of documents, times D / batch size: the estimate of the papers.

    Labels are drawn anew at every visit; counts are the mean over the sweeps after the burn-in.
    Arguments as for `memoised`; batches must hold `batch_size` distinct documents.
    """
    check(shape, how)
    room = device.capacity(corpus, batch_size)
    options = {"how": how, "room": room}
    return Estimator(
        init=bind(_no_memory),
        estimate=bind(static(_subsampled, **options), corpus, proportions(alpha, shape[0])),
    )


def control_variate(
    corpus: DeviceCorpus,
    shape: tuple[int, int],
    alpha: ArrayLike,
    how: Local,
    batch_size: int,
    refresh: int,
) -> Estimator:
    """Counts at reference topics, plus a batch's estimate of the difference from there.

    The batch is worked on at the topics and at the reference with the same random numbers. Every
    `refresh` updates the reference is moved to the topics, by a pass over the whole corpus.
    Arguments as for `subsampled`.
    """
    check(shape, how)
    room = device.capacity(corpus, batch_size)
    options = {"how": how, "room": room, "batch_size": batch_size, "refresh": refresh}
    return Estimator(
        init=bind(static(_init_reference, shape=shape)),
        estimate=bind(static(_control_variate, **options), corpus, proportions(alpha, shape[0])),
    )


def proportions(alpha: ArrayLike, num_topics: int) -> jax.Array:
    """Return the concentrations of topic proportions, [K]; `alpha` is per topic, not the sum."""
    return concentrations("alpha", alpha, (num_topics,))


def concentrations(name: str, value: ArrayLike, shape: tuple[int, ...]) -> jax.Array:
    """Return positive concentrations in full shape, or raise a ValueError that names them."""
    value = arguments.as_float(name, value)
    arguments.require(name, value, arguments.positive(value), "finite and positive")
    if value.shape not in ((), shape[-1:], shape):
        raise ValueError(f"{name} of shape {value.shape} is no scalar and does not fit {shape}")
    return jnp.broadcast_to(value, shape)


def check(shape: tuple[int, int], how: Local) -> None:
    """Raise a ValueError unless there are topics and words and the local step makes sense."""
    if shape[0] < 1 or shape[1] < 1:
        raise ValueError(f"there must be at least one topic and one word; the shape is {shape}")
    if how.method not in local.SWEEPS:
        raise ValueError(f"method must be one of {', '.join(local.SWEEPS)}; it is {how.method!r}")
    whole = isinstance(how.sweeps, int) and isinstance(how.burn_in, int)
    if not whole or not 0 <= how.burn_in < how.sweeps:
        raise ValueError(
            "sweeps must be a positive integer and burn_in a smaller one, from 0 on; they are "
            f"{how.sweeps!r}, {how.burn_in!r}"
        )


def _no_memory(key: jax.Array) -> tuple:
    del key
    return ()


def _init_memory(corpus: DeviceCorpus, key: jax.Array, *, shape: tuple[int, int]) -> Memory:
    del key
    return Memory(local.no_labels(corpus.tokens.shape[0], shape[0]), jnp.zeros(shape, jnp.int32))


def _memoised(
    corpus: DeviceCorpus,
    alpha: jax.Array,
    key: jax.Array,
    memory: Memory,
    log_topics: jax.Array,
    ids: jax.Array,
    *,
    how: Local,
) -> tuple[jax.Array, Memory]:
    documents = device.select(corpus, ids)
    likelihood = local.likelihood_of(log_topics)
    known = local.count_labels(memory.labels, documents, alpha.shape[0])
    state = Assignments(memory.labels, known, memory.counts)
    state = lax.fori_loop(
        0,
        how.sweeps,
        lambda i, state: local.SWEEPS[how.method](
            jax.random.fold_in(key, i), likelihood, alpha, documents, state
        ),
        state,
    )
    return state.words.astype(log_topics.dtype), Memory(state.labels, state.words)


def batch_counts(
    key: jax.Array, log_topics: jax.Array, alpha: jax.Array, documents: Documents, how: Local
) -> jax.Array:
    """Return the mean counts of the documents' tokens over the kept sweeps, float [K, V]."""
    num_topics, num_words = log_topics.shape
    likelihood = local.likelihood_of(log_topics)
    none = jnp.zeros((num_topics, num_words), log_topics.dtype)
    state = Assignments(
        local.no_labels(documents.tokens.shape[0], num_topics),
        jnp.zeros((num_topics, documents.lengths.shape[0]), log_topics.dtype),
        none,
    )

    def sweep(i, state, expected):
        return local.SWEEPS[how.method](
            jax.random.fold_in(key, i), likelihood, alpha, documents, state, expected
        )

    state = lax.fori_loop(0, how.burn_in, lambda i, state: sweep(i, state, False), state)
    kept = how.sweeps - how.burn_in
    if how.expected:
        state = state._replace(words=none)
        state = lax.fori_loop(how.burn_in, how.sweeps, lambda i, s: sweep(i, s, True), state)
        return state.words / kept

    def add(i, loop):
        total, state = loop
        state = sweep(i, state, False)
        return total + state.words, state

    return lax.fori_loop(how.burn_in, how.sweeps, add, (none, state))[0] / kept


def _subsampled(
    corpus: DeviceCorpus,
    alpha: jax.Array,
    key: jax.Array,
    memory: tuple,
    log_topics: jax.Array,
    ids: jax.Array,
    *,
    how: Local,
    room: int,
) -> tuple[jax.Array, tuple]:
    documents = device.compact(device.select(corpus, ids), room)
    counts = batch_counts(key, log_topics, alpha, documents, how)
    return counts * (device.size(corpus) / ids.shape[0]), memory


def _init_reference(key: jax.Array, *, shape: tuple[int, int]) -> Reference:
    del key
    return Reference(jnp.zeros(shape), jnp.zeros(shape), jnp.zeros((), jnp.int32))


def _control_variate(
    corpus: DeviceCorpus,
    alpha: jax.Array,
    key: jax.Array,
    reference: Reference,
    log_topics: jax.Array,
    ids: jax.Array,
    *,
    how: Local,
    room: int,
    batch_size: int,
    refresh: int,
) -> tuple[jax.Array, Reference]:
    key_pass, key_batch = jax.random.split(key)

    def whole_corpus() -> jax.Array:
        blocks = device.blocks(corpus, batch_size)

        def block(i, total):
            documents = device.compact(device.select(corpus, blocks[i]), room)
            return total + batch_counts(
                jax.random.fold_in(key_pass, i), log_topics, alpha, documents, how
            )

        return lax.fori_loop(0, blocks.shape[0], block, jnp.zeros_like(log_topics))

    reference = lax.cond(
        reference.age % refresh == 0,
        lambda: Reference(log_topics, whole_corpus(), jnp.ones((), jnp.int32)),
        lambda: reference._replace(age=reference.age + 1),
    )
    documents = device.compact(device.select(corpus, ids), room)
    here, there = lax.map(
        lambda topics: batch_counts(jax.random.clone(key_batch), topics, alpha, documents, how),
        jnp.stack([log_topics, reference.log_topics]),
    )
    scale = device.size(corpus) / ids.shape[0]
    return reference.counts + scale * (here - there), reference
