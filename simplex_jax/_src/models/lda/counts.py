"""Topic-word counts for LDA, which the simplex kernels use, from documents."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src.base import PyTree, bind
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus, Documents, Pages
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.models.lda.local_step import IN_ONE_PLACE, Local, check, check_memoised
from simplex_jax._src.models.lda.seeds import Seeds
from simplex_jax._src.models.topics import blocked, concentrations, engine, integrated, local
from simplex_jax._src.models.topics.concentrations import Evidence
from simplex_jax._src.samplers.rows import Rows

_STATIC = {"static": True}


class Counts(NamedTuple):
    """An estimate of the counts of topics and words, given the concentrations alpha [K]."""

    init: Callable[[jax.Array], PyTree]  # `(key) -> memory`
    # `(given, key, memory, log_topics, batch) -> (counts [K, V], memory)`, see `Given`
    estimate: Callable[..., tuple[jax.Array, Any]]

    def given(
        self,
        alpha: ArrayLike,
        seeds: Seeds | None = None,
        rows: Rows | None = None,
        beta: ArrayLike | None = None,
    ) -> Estimator:
        """Return the estimator for known concentrations of topic proportions, [K].

        The pseudo-counts of seeds are added to its counts, not to its memory. `rows` are the topics
        that it counts, None for all. If topics are integrated out, it needs their concentrations
        `beta` too, [V] or [K, V].
        """
        if seeds is not None and rows is not None:
            seeds = seeds.since(rows.first())
        given = Given(alpha=jnp.asarray(alpha), beta=beta, seeds=seeds)
        return Estimator(self.init, bind(_estimate, self.estimate, given))


class Given(NamedTuple):
    """Parameters of an estimate of counts besides topics and documents."""

    alpha: jax.Array  # concentrations of topic proportions, [K]
    beta: Any = None  # of topics, [V] or [K, V], without seeds; None if nothing depends on it
    seeds: Seeds | None = None

    def prior(self) -> jax.Array:
        """Return the concentrations of the topics including seeds, [V] or [K, V]."""
        beta = jnp.asarray(self.beta)
        if self.seeds is None:
            return beta
        return self.seeds.added(jnp.broadcast_to(beta, (len(self.alpha), beta.shape[-1])))


def _estimate(
    estimate: Callable[..., tuple[jax.Array, Any]],
    given: Given,
    key: jax.Array,
    memory: PyTree,
    log_topics: jax.Array,
    batch: Any,
) -> tuple[jax.Array, Any]:
    counts, memory = estimate(given, key, memory, log_topics, batch)
    return counts if given.seeds is None else given.seeds.added(counts), memory


class Memory(NamedTuple):
    """Memory of memoised counts."""

    # Topic of every token, uint8 (or wider) [T]; K if not drawn yet. With several shards it is
    # [shards, T], and [1, T] inside `shard_map`, since a reshape would copy all labels. If tokens
    # are on disk, only the labels of the last batch, [room].
    labels: jax.Array
    # Tokens of each topic and word, int32 [K, V]. If devices share the topics: inside `shard_map`
    # the rows of this device; outside all rows, padded with zeros to the same number per device.
    counts: jax.Array

    @property
    def topic_tokens(self) -> jax.Array:
        """Tokens of each topic, float [K]."""
        return engine.totals(self.counts)


class Page(NamedTuple):
    """The documents of a batch read from disk, and their labels."""

    documents: Documents  # with no tokens of other documents, [room]
    labels: jax.Array  # topic of every token, [room]; K if not drawn yet
    # Whether this was also the previous batch, whose labels are in memory and not yet on disk, bool
    again: jax.Array


class Tally(NamedTuple):
    """Memory of subsampled counts: estimates for the whole corpus from the last batch."""

    topic_tokens: jax.Array  # tokens of each topic, float [K]
    # About the concentrations of topic proportions; None if they are fixed
    evidence: Evidence | None


class Shard(NamedTuple):
    """The documents of a corpus that this device holds; inside `shard_map` only."""

    axis: str  # name of the mesh axis
    shards: int  # number of shards; documents are dealt to them in turn
    # The topics that this device counts and draws; None if each device counts and draws all
    topics: Rows | None = None

    def number(self, ids: jax.Array) -> jax.Array:
        """Return the numbers that documents of this shard have in the whole corpus."""
        return ids * self.shards + lax.axis_index(self.axis)

    def summed(self, counts: jax.Array) -> jax.Array:
        """Return the sum over the shards of counts [K, V], for the topics of this device."""
        if self.topics is None:
            return lax.psum(counts, self.axis)
        return self.topics.summed(counts)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Source:
    """The documents to count, as arrays, and static settings such as the local step."""

    corpus: Any  # a DeviceCorpus; None if batches are compact documents or pages themselves
    shape: tuple[int, int] = dataclasses.field(metadata=_STATIC)  # (K, V)
    local_step: Local = dataclasses.field(metadata=_STATIC)
    documents: int = dataclasses.field(metadata=_STATIC)  # of the whole corpus
    batch_size: int = dataclasses.field(default=0, metadata=_STATIC)  # if batches are ids
    room: int = dataclasses.field(
        default=0, metadata=_STATIC
    )  # tokens of the largest batch, or of all
    learn: bool = dataclasses.field(default=False, metadata=_STATIC)
    shard: Shard | None = dataclasses.field(default=None, metadata=_STATIC)
    blocks: Any = None  # of words, see `integrated.blocks`; None for other local steps

    def fetch(self, batch: Any) -> Documents:
        """Return the documents of a batch, with tokens copied out of the corpus."""
        if self.corpus is None:
            return batch
        return device.compact(device.select(self.corpus, batch), self.room)


def source_of(
    corpus: DeviceCorpus,
    shape: tuple[int, int],
    local_step: Local,
    batch_size: int,
    learn: bool = False,
) -> Source:
    """Return the source of counts estimated from batches of `batch_size` documents."""
    check(shape, local_step)
    size, room = device.size(corpus), device.capacity(corpus, batch_size)
    return Source(corpus, shape, local_step, size, batch_size, room, learn)


def memoised(
    corpus: DeviceCorpus | Pages,
    shape: tuple[int, int],
    local_step: Local,
    shard: Shard | None = None,
) -> Counts:
    """Counts of the labels of all tokens; each batch redraws its own labels.

    With SCIR and a refreshed total this is an exact Gibbs sampler of LDA that visits a batch of
    documents at a time: no discretisation and no subsampling error. The shape is (K, V); `shard`
    says which documents `corpus` holds, inside `shard_map`. With pages, the memory has only the
    labels of the last batch, and each batch is a `Page`.
    """
    check_memoised(shape, local_step)
    on_device: DeviceCorpus | None = None
    if isinstance(corpus, Pages):
        room = corpus.room
    else:
        on_device, room = corpus, corpus.tokens.shape[0]
    blocks = None
    if local_step.method == "integrated":
        if on_device is None or shard is not None:
            raise ValueError(IN_ONE_PLACE)
        blocks = integrated.blocks(on_device.tokens, shape[1])
    source = Source(
        on_device, shape, local_step, device.size(corpus), room=room, shard=shard, blocks=blocks
    )
    return Counts(init=bind(_init_memory, source), estimate=bind(_memoised, source))


def subsampled(
    corpus: DeviceCorpus,
    shape: tuple[int, int],
    local_step: Local,
    batch_size: int,
    *,
    learn: bool = False,
) -> Counts:
    """Counts of a batch of distinct documents, times D / batch size: the estimate of the papers.

    Labels are drawn anew at every visit; counts are the mean over the sweeps after the burn-in.
    The shape is (K, V); `learn` also computes the evidence about alpha.
    """
    source = source_of(corpus, shape, local_step, batch_size, learn)
    return Counts(init=bind(_init_tally, source), estimate=bind(_subsampled, source))


def streamed(
    documents: int, shape: tuple[int, int], local_step: Local, *, learn: bool = False
) -> Counts:
    """Subsampled counts of a corpus of D documents, from batches of compact `Documents`."""
    check(shape, local_step)
    source = Source(None, shape, local_step, documents, learn=learn)
    return Counts(init=bind(_init_tally, source), estimate=bind(_subsampled, source))


def _init_memory(source: Source, key: jax.Array) -> Memory:
    del key
    labels = local.no_labels(source.room, source.shape[0])
    topics, words = source.shape
    if source.shard is not None and source.shard.topics is not None:
        topics = source.shard.topics.number
    return Memory(labels, jnp.zeros((topics, words), jnp.int32))


def _memoised(
    source: Source,
    given: Given,
    key: jax.Array,
    memory: Memory,
    log_topics: jax.Array,
    batch: Any,  # ids, or a Page
) -> tuple[jax.Array, Memory]:
    local_step, shard = source.local_step, source.shard
    if isinstance(batch, Page):
        documents = batch.documents
        before = jnp.where(batch.again, memory.labels, batch.labels)
    else:
        documents, before = device.select(source.corpus, batch), memory.labels
    if source.blocks is not None:
        return _integrated(source, given, key, Memory(before, memory.counts), log_topics, documents)
    if shard is not None:
        documents = documents._replace(ids=shard.number(batch))
        if local_step.method == "blocked":  # whose randomness does not depend on the ids
            key = jax.random.fold_in(key, lax.axis_index(shard.axis))
    labels, counts, _ = engine.sweeps(
        key,
        log_topics,
        given.alpha,
        documents,
        before,
        memory.counts if shard is None else None,
        times=local_step.sweeps,
        count="changes",
        method=local_step.method,
        engine=local_step.engine,
    )
    if shard is not None:
        counts = memory.counts + shard.summed(counts)
    return counts.astype(log_topics.dtype), Memory(labels, counts)


def _integrated(
    source: Source,
    given: Given,
    key: jax.Array,
    memory: Memory,
    log_topics: jax.Array,
    documents: Documents,
) -> tuple[jax.Array, Memory]:
    """Count the labels after sweeps that integrate the topics out."""
    prior = given.prior()

    def sweep(i: jax.Array, memory: Memory) -> Memory:
        key_sweep = jax.random.fold_in(key, i)
        return Memory(
            *integrated.sweep(
                *(key_sweep, log_topics, given.alpha, prior, documents, *memory, source.blocks)
            )
        )

    memory = lax.fori_loop(0, source.local_step.sweeps, sweep, memory)
    return memory.counts.astype(log_topics.dtype), memory


def batch_counts(
    key: jax.Array, log_topics: jax.Array, alpha: jax.Array, documents: Documents, local_step: Local
) -> tuple[jax.Array, jax.Array]:
    """Return the mean counts of the documents' tokens over the kept sweeps, float [K, V].

    Also returns the counts of the last labels in each document, float [K, B].
    """
    num_topics = log_topics.shape[0]
    labels = local.no_labels(documents.tokens.shape[0], num_topics)
    if local_step.expected:
        likelihood = local.likelihood_of(log_topics)
        return _expected_counts(key, likelihood, alpha, documents, labels, local_step)
    labels, words, _ = engine.sweeps(
        key,
        log_topics,
        alpha,
        documents,
        labels,
        times=local_step.sweeps,
        burn_in=local_step.burn_in,
        count="labels",
        method=local_step.method,
        engine=local_step.engine,
    )
    mean = words.astype(log_topics.dtype) / (local_step.sweeps - local_step.burn_in)
    return mean, local.count_labels(labels, documents, num_topics)


def _expected_counts(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
    local_step: Local,
) -> tuple[jax.Array, jax.Array]:
    """Return the results of `batch_counts` from label probabilities in place of labels."""

    def burn(i, labels):
        return blocked.blocked(jax.random.fold_in(key, i), likelihood, alpha, documents, labels)

    def add(i, loop):
        return blocked.expected(jax.random.fold_in(key, i), likelihood, alpha, documents, *loop)

    labels = lax.fori_loop(0, local_step.burn_in, burn, labels)
    start = (labels, jnp.zeros_like(likelihood))
    labels, words = lax.fori_loop(local_step.burn_in, local_step.sweeps, add, start)
    mean = words / (local_step.sweeps - local_step.burn_in)
    return mean, local.count_labels(labels, documents, alpha.shape[0])


def _init_tally(source: Source, key: jax.Array) -> Tally:
    del key
    zero = jnp.zeros(source.shape[0])
    return Tally(zero, concentrations.no_evidence(zero.size, zero.dtype) if source.learn else None)


def _subsampled(
    source: Source,
    given: Given,
    key: jax.Array,
    memory: Tally,
    log_topics: jax.Array,
    batch: Any,
) -> tuple[jax.Array, Tally]:
    documents = source.fetch(batch)
    scale = source.documents / documents.lengths.shape[0]
    counts, in_documents = batch_counts(key, log_topics, given.alpha, documents, source.local_step)
    counts = counts * scale
    evidence = None
    if source.learn:
        key_learn = jax.random.fold_in(key, source.local_step.sweeps)
        evidence = concentrations.evidence(key_learn, given.alpha, in_documents)
        evidence = jax.tree.map(lambda x: x * scale, evidence)
    tally = Tally(counts.sum(axis=1), evidence)
    return counts, jax.tree.map(lambda new, old: new.astype(old.dtype), tally, memory)
