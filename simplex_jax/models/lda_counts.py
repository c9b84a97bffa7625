"""Counts of topics and words for LDA: what the kernels of the simplex eat, out of documents."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax.base import PyTree, bind, static
from simplex_jax.corpus import device
from simplex_jax.corpus.device import DeviceCorpus, Documents
from simplex_jax.draws import arguments
from simplex_jax.estimators import Estimator
from simplex_jax.models import concentrations, local
from simplex_jax.models.blocked import blocked
from simplex_jax.models.collapsed import collapsed
from simplex_jax.models.concentrations import Evidence
from simplex_jax.models.local import Assignments

SWEEPS: dict[str, local.Sweep] = {"blocked": blocked, "collapsed": collapsed}


class Local(NamedTuple):
    """How the topics of the tokens of a batch are drawn.

    Attributes:
        method: "collapsed" or "blocked", see the modules of `simplex_jax.models` of these names.
        sweeps: Gibbs sweeps over a batch.
        burn_in: Of these, the first whose counts are not used.
        expected: Use the probabilities that the labels were drawn from in place of the labels:
            less noise, at the price of K updates a token. For blocked sweeps with estimated counts
            only; memoised counts are exact with labels only.
    """

    method: str = "collapsed"
    sweeps: int = 1
    burn_in: int = 0
    expected: bool = False


ONE_SWEEP = Local()


class Counts(NamedTuple):
    """An estimate of the counts of topics and words, given the concentrations alpha [K].

    Attributes:
        init: `(key) -> memory`.
        estimate: `(alpha, key, memory, log_topics, batch) -> (counts [K, V], memory)`.
    """

    init: Callable[[jax.Array], PyTree]
    estimate: Callable[..., tuple[jax.Array, Any]]

    def given(self, alpha: ArrayLike) -> Estimator:
        """Return the estimator for known concentrations of topic proportions, [K]."""
        return Estimator(self.init, bind(self.estimate, jnp.asarray(alpha)))


class Memory(NamedTuple):
    """Memory of memoised counts.

    Attributes:
        labels: Topic of every token, uint8 (or wider) [T], or [shards, T] outside of `shard_map`;
            K where none was drawn yet.
        counts: Tokens of each topic and word, int32 [K, V].
    """

    labels: jax.Array
    counts: jax.Array

    @property
    def topic_tokens(self) -> jax.Array:
        """Tokens of each topic, integers [K]."""
        return self.counts.sum(axis=-1)


class Tally(NamedTuple):
    """Memory of subsampled counts: what the last batch said about the whole corpus.

    Attributes:
        topic_tokens: Tokens of each topic, float [K].
        evidence: Of the concentrations of topic proportions; None where they are known.
    """

    topic_tokens: jax.Array
    evidence: Evidence | None


class Shard(NamedTuple):
    """Which documents of a corpus are those of this device; inside `shard_map` only.

    Attributes:
        axis: Name of the mesh axis.
        shards: How many there are; they take turns in the order of the documents.
    """

    axis: str
    shards: int

    def number(self, ids: jax.Array) -> jax.Array:
        """Return the numbers in the whole corpus of documents of this shard."""
        return ids * self.shards + lax.axis_index(self.axis)


def memoised(
    corpus: DeviceCorpus, shape: tuple[int, int], how: Local, shard: Shard | None = None
) -> Counts:
    """Counts of the labels of all tokens, of which a batch replaces its own.

    With SCIR and a refreshed total this is an exact Gibbs sampler of LDA that visits a batch of
    documents at a time: no discretisation and no subsampling error.

    Args:
        corpus: The corpus.
        shape: (K, V).
        how: The local step.
        shard: The part of the documents that `corpus` holds, inside `shard_map`.
    """
    check_memoised(shape, how)
    return Counts(
        init=bind(static(_init_memory, shape=shape), corpus),
        estimate=bind(static(_memoised, how=how, shard=shard), corpus),
    )


def subsampled(
    corpus: DeviceCorpus,
    shape: tuple[int, int],
    how: Local,
    batch_size: int,
    *,
    learn: bool = False,
) -> Counts:
    """Counts of a batch of documents, times D / batch size: the estimate of the papers.

    Labels are drawn anew at every visit; counts are the mean over the sweeps after the burn-in.

    Args:
        corpus: The corpus.
        shape: (K, V).
        how: The local step.
        batch_size: Documents in a batch, all of them distinct.
        learn: Also keep the evidence of alpha.
    """
    mine = bind(static(fetch, room=device.capacity(corpus, batch_size)), corpus)
    return _scaled_counts(mine, device.size(corpus), shape, how, learn)


def streamed(documents: int, shape: tuple[int, int], how: Local, *, learn: bool = False) -> Counts:
    """Subsampled counts of batches that are compact `Documents` themselves.

    Args:
        documents: Number of documents of the corpus.
        shape: (K, V).
        how: The local step.
        learn: Also keep the evidence of alpha.
    """
    return _scaled_counts(bind(_as_they_are), documents, shape, how, learn)


def _scaled_counts(
    documents_of: Callable, documents: int, shape: tuple[int, int], how: Local, learn: bool
) -> Counts:
    check(shape, how)
    return Counts(
        init=bind(static(_init_tally, num_topics=shape[0], learn=learn)),
        estimate=bind(static(_subsampled, how=how, documents=documents, learn=learn), documents_of),
    )


def proportions(alpha: ArrayLike, num_topics: int) -> jax.Array:
    """Return the concentrations of topic proportions, [K]; `alpha` is per topic, not the sum."""
    return positive("alpha", alpha, (num_topics,))


def positive(name: str, value: ArrayLike, shape: tuple[int, ...]) -> jax.Array:
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
    if how.method not in SWEEPS:
        raise ValueError(f"method must be one of {', '.join(SWEEPS)}; it is {how.method!r}")
    whole = isinstance(how.sweeps, int) and isinstance(how.burn_in, int)
    if not whole or not 0 <= how.burn_in < how.sweeps:
        raise ValueError(
            "sweeps must be a positive integer and burn_in a smaller one, from 0 on; they are "
            f"{how.sweeps!r}, {how.burn_in!r}"
        )
    if how.expected and how.method != "blocked":
        raise ValueError("expected counts need the blocked local step")


def check_memoised(shape: tuple[int, int], how: Local) -> None:
    """Raise a ValueError unless the local step makes sense and leaves labels to remember."""
    check(shape, how)
    if how.expected or how.burn_in:
        raise ValueError("memoised counts are those of the last labels: no burn_in, no expected")


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
    shard: Shard | None,
) -> tuple[jax.Array, Memory]:
    documents = device.select(corpus, ids)
    if shard is not None:
        documents = documents._replace(ids=shard.number(ids))
        if how.method == "blocked":  # whose randomness does not go by the ids
            key = jax.random.fold_in(key, lax.axis_index(shard.axis))
    likelihood = local.likelihood_of(log_topics)
    known = local.count_labels(memory.labels, documents, alpha.shape[0])
    counts = memory.counts if shard is None else jnp.zeros_like(memory.counts)
    labels, _, counts = lax.fori_loop(
        0,
        how.sweeps,
        lambda i, state: SWEEPS[how.method](
            jax.random.fold_in(key, i), likelihood, alpha, documents, state
        ),
        Assignments(memory.labels, known, counts),
    )
    if shard is not None:
        counts = memory.counts + lax.psum(counts, shard.axis)
    return counts.astype(log_topics.dtype), Memory(labels, counts)


def batch_counts(
    key: jax.Array, log_topics: jax.Array, alpha: jax.Array, documents: Documents, how: Local
) -> tuple[jax.Array, jax.Array]:
    """Return the mean counts of the documents' tokens over the kept sweeps, float [K, V].

    Also returns the counts of the last labels in each document, float [K, B].
    """
    num_topics, num_words = log_topics.shape
    likelihood = local.likelihood_of(log_topics)
    none = jnp.zeros((num_topics, num_words), log_topics.dtype)
    state = local.unassigned(documents, num_topics, none)

    def sweep(i, state, **options):
        move = SWEEPS[how.method]
        return move(jax.random.fold_in(key, i), likelihood, alpha, documents, state, **options)

    state = lax.fori_loop(0, how.burn_in, sweep, state)
    kept = how.sweeps - how.burn_in
    if how.expected:
        state = state._replace(words=none)
        state = lax.fori_loop(
            how.burn_in, how.sweeps, lambda i, state: sweep(i, state, expected=True), state
        )
        return state.words / kept, state.documents

    def add(i, loop):
        total, state = loop
        state = sweep(i, state)
        return total + state.words, state

    total, state = lax.fori_loop(how.burn_in, how.sweeps, add, (none, state))
    return total / kept, state.documents


def fetch(corpus: DeviceCorpus, ids: jax.Array, *, room: int) -> Documents:
    """Return documents whose tokens, `room` at most, are copied out of the corpus."""
    return device.compact(device.select(corpus, ids), room)


def _as_they_are(documents: Documents) -> Documents:
    return documents


def _init_tally(key: jax.Array, *, num_topics: int, learn: bool) -> Tally:
    del key
    zero = jnp.zeros(num_topics)
    return Tally(zero, concentrations.no_evidence(num_topics, zero.dtype) if learn else None)


def _subsampled(
    documents_of: Callable[[Any], Documents],
    alpha: jax.Array,
    key: jax.Array,
    memory: Tally,
    log_topics: jax.Array,
    batch: Any,
    *,
    how: Local,
    documents: int,
    learn: bool,
) -> tuple[jax.Array, Tally]:
    mine = documents_of(batch)
    scale = documents / mine.lengths.shape[0]
    counts, in_documents = batch_counts(key, log_topics, alpha, mine, how)
    counts = counts * scale
    known = None
    if learn:
        key_learn = jax.random.fold_in(key, how.sweeps)
        known = concentrations.evidence(key_learn, alpha, in_documents)
        known = concentrations.scaled(known, scale)
    tally = Tally(counts.sum(axis=1), known)
    return counts, jax.tree.map(lambda new, old: new.astype(old.dtype), tally, memory)
