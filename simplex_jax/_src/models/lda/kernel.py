"""The kernel of LDA: counts, a simplex sampler of topics given them, and learned concentrations."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import draws, schedules
from simplex_jax._src.base import Batch, Kernel, PyTree, bind
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus, Documents, Pages
from simplex_jax._src.draws import gamma
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.models.lda.seeds import Seeds
from simplex_jax._src.models.topics import concentrations, engine
from simplex_jax._src.models.topics.concentrations import Evidence, Prior
from simplex_jax._src.models.topics.native import calls
from simplex_jax._src.samplers import expanded, scir, sgrhmc, sgrld, smld
from simplex_jax._src.schedules import StepSize
from simplex_jax._src.sharded_rows import Rows, sums

_STATIC = {"static": True}

# Number of classes for sums over documents, see `_sum`: a power of two, like most numbers of
# devices, and at least as large.
_CLASSES = 1024


class Sampler(NamedTuple):
    """The two functions of a simplex kernel, and its properties that LDA needs."""

    init: Callable  # as in the kernel's module
    update: Callable  # likewise
    limit: float = math.inf  # smallest step size that diverges, whatever the data
    weighted: bool = True  # whether it moves weights, which have a total
    shared: bool = False  # whether devices can share its rows, see `samplers.rows`
    measures: tuple[str, ...] = ()  # fields of its Info that an evaluation records


SAMPLERS = {
    "scir": Sampler(scir.init, scir.update, shared=True),
    "sgrld": Sampler(sgrld.init, sgrld.update, limit=2.0),
    "sgrhmc": Sampler(sgrhmc.init, sgrhmc.update, limit=math.pi * math.sqrt(2)),
    "smld": Sampler(smld.init, smld.update, weighted=False, measures=("stiffness",)),
}


TOTALS = ("refreshed", "carried")
"""Treatments of the total of the weights, see `samplers.expanded`; the first is the default."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """All that an update depends on besides documents; made and checked by `model.configure`."""

    # Concentrations: fixed ones, or the prior means of learned ones, where they start
    alpha: jax.Array  # of topic proportions, [K]
    beta: jax.Array  # of topics, [V] or [K, V]
    seeds: Seeds | None  # pseudo-counts added to beta for seed words
    step_size: StepSize  # of the sampler of the topics
    shape: tuple[int, int] = dataclasses.field(metadata=_STATIC)  # (K, V)
    # How they are learned, a word of `concentrations.LEARN`; None for fixed ones
    learn_alpha: str | None = dataclasses.field(metadata=_STATIC)
    learn_beta: str | None = dataclasses.field(metadata=_STATIC)
    # Shapes of the Gamma priors of learned ones
    alpha_shape: float = dataclasses.field(metadata=_STATIC)
    beta_shape: float = dataclasses.field(metadata=_STATIC)
    sampler: str = dataclasses.field(metadata=_STATIC)  # one of `SAMPLERS`
    total: str | None = dataclasses.field(metadata=_STATIC)  # None if it moves no weights
    counts: str = dataclasses.field(metadata=_STATIC)  # "memoised" or "subsampled"
    # How labels are drawn: "collapsed" or "blocked", see `topics.engine`
    local: str = dataclasses.field(metadata=_STATIC)
    sweeps: int = dataclasses.field(metadata=_STATIC)  # Gibbs sweeps over a batch
    burn_in: int = dataclasses.field(metadata=_STATIC)  # first sweeps whose counts are discarded
    # Whether probabilities of labels are counted in place of labels
    expected: bool = dataclasses.field(metadata=_STATIC)
    engine: str = dataclasses.field(metadata=_STATIC)  # "native" or "xla"
    batch_size: int = dataclasses.field(metadata=_STATIC)  # documents; 0 if they are streamed

    def prior(self, name: str) -> Prior:
        """Return the prior of a learned concentration, "alpha" or "beta"."""
        return Prior(getattr(self, name), getattr(self, f"{name}_shape"))


class State(NamedTuple):
    """State of LDA."""

    # Logarithm of the topics, [K, V]. If devices share them: inside `shard_map` the rows of this
    # device; outside all rows, with unused ones at the end so that each device has as many.
    position: jax.Array
    step: jax.Array  # number of updates done, int32
    alpha: jax.Array  # concentrations of the topic proportions, [K]
    beta: jax.Array  # concentrations of the topics, [V] or [K, V]
    sampler: Any  # state of the topic sampler without position and step


class Info(NamedTuple):
    """Diagnostics of one update."""

    topic_tokens: jax.Array  # tokens of the corpus in each topic, counted or estimated, [K]
    sampler: Any  # the Info of the topic sampler


class Counts(NamedTuple):
    """An estimate of the counts of topics and words, given the concentrations alpha [K]."""

    init: Callable[[jax.Array], PyTree]  # `(key) -> memory`
    # `(given, key, memory, log_topics, batch) -> (counts [K, V], memory)`, see `Given`
    estimate: Callable[..., tuple[jax.Array, Any]]

    def with_prior(
        self,
        alpha: ArrayLike,
        seeds: Seeds | None = None,
        rows: Rows | None = None,
    ) -> Estimator:
        """Return the estimator for known concentrations of topic proportions, [K].

        The pseudo-counts of seeds are added to its counts, not to its memory. `rows` are the topics
        that it counts, None for all.
        """
        if seeds is not None and rows is not None:
            seeds = seeds.since(rows.first())
        given = Given(alpha=jnp.asarray(alpha), seeds=seeds)
        return Estimator(self.init, bind(_estimate, self.estimate, given))


class Given(NamedTuple):
    """Parameters of an estimate of counts besides topics and documents."""

    alpha: jax.Array  # concentrations of topic proportions, [K]
    seeds: Seeds | None = None


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
    """The documents to count, or a shard of them, and how."""

    corpus: Any  # a DeviceCorpus; None if batches are compact documents or pages themselves
    config: Config
    documents: int = dataclasses.field(metadata=_STATIC)  # of the whole corpus
    # Tokens of the largest batch, or of all
    room: int = dataclasses.field(default=0, metadata=_STATIC)
    shard: Shard | None = dataclasses.field(default=None, metadata=_STATIC)

    def fetch(self, batch: Any) -> Documents:
        """Return the documents of a batch, with tokens copied out of the corpus."""
        if self.corpus is None:
            return batch
        return device.compact(device.select(self.corpus, batch), self.room)


def counts_of(source: Source) -> Counts:
    """Return the estimate of the counts of a source, "memoised" or "subsampled".

    Memoised counts are those of the labels of all tokens; each batch redraws its own labels. With
    SCIR and a refreshed total this is an exact Gibbs sampler of LDA that visits a batch of
    documents at a time: no discretisation and no subsampling error. Without a corpus, the memory
    has only the labels of the last batch, and each batch is a `Page`.

    Subsampled counts are those of a batch of distinct documents, times D / batch size: the estimate
    of the papers. Labels are drawn anew at every visit; counts are the mean over the sweeps after
    the burn-in. If alpha is learned, the memory has the evidence about it. Without a corpus, each
    batch is compact `Documents`.
    """
    if source.config.counts == "memoised":
        return Counts(init=bind(_init_memory, source), estimate=bind(_memoised, source))
    return Counts(init=bind(_init_tally, source), estimate=bind(_subsampled, source))


def source_of(corpus: DeviceCorpus | Pages, config: Config, shard: Shard | None = None) -> Source:
    """Return the source of counts of a corpus, or of a shard of one, inside `shard_map`."""
    size = device.size(corpus)
    if isinstance(corpus, Pages):
        return Source(None, config, size, corpus.room)
    if config.counts != "memoised":
        return Source(corpus, config, size, device.capacity(corpus, config.batch_size))
    return Source(corpus, config, size, corpus.tokens.shape[0], shard)


def _init_memory(source: Source, key: jax.Array) -> Memory:
    topics, words = source.config.shape
    labels = engine.no_labels(source.room, topics)
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
    config, shard = source.config, source.shard
    if isinstance(batch, Page):
        documents = batch.documents
        before = jnp.where(batch.again, memory.labels, batch.labels)
    else:
        documents, before = device.select(source.corpus, batch), memory.labels
    if shard is not None:
        documents = documents._replace(ids=shard.number(batch))
        if config.local == "blocked":  # whose randomness does not depend on the ids
            key = jax.random.fold_in(key, lax.axis_index(shard.axis))
    labels, counts, _ = engine.sweeps(
        key,
        log_topics,
        given.alpha,
        documents,
        before,
        memory.counts if shard is None else None,
        times=config.sweeps,
        count="changes",
        method=config.local,
        engine=config.engine,
    )
    if shard is not None:
        counts = memory.counts + shard.summed(counts)
    return counts.astype(log_topics.dtype), Memory(labels, counts)


def batch_counts(
    key: jax.Array, log_topics: jax.Array, alpha: jax.Array, documents: Documents, config: Config
) -> tuple[jax.Array, jax.Array]:
    """Return the mean counts of the documents' tokens over the kept sweeps, float [K, V].

    Also returns the counts of the last labels in each document, float [K, B].
    """
    num_topics = log_topics.shape[0]
    labels = engine.no_labels(documents.tokens.shape[0], num_topics)
    if config.expected:
        likelihood = engine.likelihood_of(log_topics)
        return _expected_counts(key, likelihood, alpha, documents, labels, config)
    labels, words, _ = engine.sweeps(
        key,
        log_topics,
        alpha,
        documents,
        labels,
        times=config.sweeps,
        burn_in=config.burn_in,
        count="labels",
        method=config.local,
        engine=config.engine,
    )
    mean = words.astype(log_topics.dtype) / (config.sweeps - config.burn_in)
    return mean, engine.count_labels(labels, documents, num_topics)


def _expected_counts(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
    config: Config,
) -> tuple[jax.Array, jax.Array]:
    """Return the results of `batch_counts` from label probabilities in place of labels."""

    def burn(i, labels):
        return engine.sweep_blocked(
            jax.random.fold_in(key, i), likelihood, alpha, documents, labels
        )

    def add(i, loop):
        return engine.sweep_expected(
            jax.random.fold_in(key, i), likelihood, alpha, documents, *loop
        )

    labels = lax.fori_loop(0, config.burn_in, burn, labels)
    start = (labels, jnp.zeros_like(likelihood))
    labels, words = lax.fori_loop(config.burn_in, config.sweeps, add, start)
    mean = words / (config.sweeps - config.burn_in)
    return mean, engine.count_labels(labels, documents, alpha.shape[0])


def _init_tally(source: Source, key: jax.Array) -> Tally:
    zero = jnp.zeros(source.config.shape[0])
    return Tally(
        zero,
        concentrations.no_evidence(zero.size, zero.dtype) if source.config.learn_alpha else None,
    )


def _subsampled(
    source: Source,
    given: Given,
    key: jax.Array,
    memory: Tally,
    log_topics: jax.Array,
    batch: Any,
) -> tuple[jax.Array, Tally]:
    documents, config = source.fetch(batch), source.config
    scale = source.documents / documents.lengths.shape[0]
    counts, in_documents = batch_counts(key, log_topics, given.alpha, documents, config)
    counts = counts * scale
    evidence = None
    if config.learn_alpha:
        key_learn = jax.random.fold_in(key, config.sweeps)
        evidence = concentrations.evidence(key_learn, given.alpha, in_documents)
        evidence = jax.tree.map(lambda x: x * scale, evidence)
    tally = Tally(counts.sum(axis=1), evidence)
    return counts, jax.tree.map(lambda new, old: new.astype(old.dtype), tally, memory)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """The model and its sampler, see `kernel`."""

    counts: Counts
    config: Config
    learner: Callable | None
    # The topics that this device counts and draws; None for all
    rows: Rows | None = dataclasses.field(metadata=_STATIC)


def kernel(
    counts: Counts,
    config: Config,
    *,
    learner: Callable | None = None,
    rows: Rows | None = None,
) -> Kernel:
    """Return the kernel of LDA with these counts.

    `learner`, `(key, state) -> state`, is called when a `Visit` says so; without one, batches are
    not visits. `rows` are the topics that `counts` counts and this device draws, None for all.
    """
    model = Model(counts=counts, config=config, learner=learner, rows=rows)
    return Kernel(init=bind(_init, model), update=bind(_update, model))


def kernel_of(source: Source) -> Kernel:
    """Return the kernel of LDA for the documents of a source.

    With pages, alpha cannot be learned from memoised counts, since that needs all labels at once.
    """
    config, shard = source.config, source.shard
    learns = config.counts == "memoised" and (config.learn_alpha or config.learn_beta)
    return kernel(
        counts_of(source),
        config,
        learner=bind(_learn, source) if learns else None,
        rows=None if shard is None else shard.topics,
    )


def _init(model: Model, key: jax.Array, position: jax.Array) -> State:
    config = model.config
    options: dict[str, Any] = {"estimator": model.counts.with_prior(config.alpha)}
    if config.total is not None:
        options["total"] = config.total
    state = SAMPLERS[config.sampler].init(key, position, **options)
    if config.total == "carried":
        # Not drawn: the papers carry the sum of the initial weights.
        weights = jnp.asarray(position, state.position.dtype)
        state = state._replace(log_total=jnp.log(weights.sum(axis=-1, keepdims=True)))
    # A state may be donated to jitted code, and must not share arrays with the kernel.
    return _outer(state, jnp.copy(config.alpha), jnp.copy(config.beta))


def _outer(inner: Any, alpha: jax.Array, beta: jax.Array) -> State:
    rest = inner._replace(position=None, step=None)
    return State(inner.position, inner.step, alpha, beta, rest)


def _update(model: Model, key: jax.Array, state: State, batch: Batch) -> tuple[State, Info]:
    """Move the topics and the learned concentrations."""
    key, config, learner = by_native_code(key), model.config, model.learner
    if learner is not None:
        key, key_learn = jax.random.split(key)
        batch, now = batch
        state = lax.cond(now, lambda: learner(key_learn, state), lambda: state)
    learn = config.learn_alpha if config.counts == "subsampled" else None
    if learn is not None:
        key, key_alpha = jax.random.split(key)
    inner, info = SAMPLERS[config.sampler].update(
        key,
        state.sampler._replace(position=state.position, step=state.step),
        batch,
        estimator=model.counts.with_prior(state.alpha, config.seeds, model.rows),
        alpha=state.beta,  # a sampler's alpha is the prior of what it moves, here the topics
        step_size=config.step_size,
        **({} if model.rows is None else {"rows": model.rows}),
    )
    alpha = state.alpha
    if learn is not None:
        h = schedules.evaluate(config.step_size, state.step)
        evidence, prior = inner.memory.evidence, config.prior("alpha")
        alpha = concentrations.move(key_alpha, alpha, evidence, prior, learn, h)
    tokens = expanded.all_rows(model.rows, inner.memory.topic_tokens).astype(state.position.dtype)
    return _outer(inner, alpha, state.beta), Info(tokens, info)


def _learn(source: Source, key: jax.Array, state: State) -> State:
    """Draw concentrations given all labels, and redraw the topics after a new beta."""
    keys, config = jax.random.split(key, 5), source.config
    memory = state.sampler.memory
    if learn := config.learn_alpha:
        evidence = _evidence(keys[0], state.alpha, memory.labels, source)
        prior = config.prior("alpha")
        alpha = concentrations.move(keys[1], state.alpha, evidence, prior, learn)
        state = state._replace(alpha=alpha)
    if learn := config.learn_beta:
        topics = None if source.shard is None else source.shard.topics
        counts = expanded.all_rows(topics, memory.counts)
        evidence = concentrations.evidence(keys[2], state.beta, counts.T)
        prior = config.prior("beta")
        beta = concentrations.move(keys[3], state.beta, evidence, prior, learn)
        state = state._replace(beta=beta)
        # beta was drawn with the topics integrated out; now draw the topics given beta.
        offset = expanded.offset(topics, memory.counts)
        shapes = (beta + memory.counts).astype(state.position.dtype)
        weights = draws.loggamma(keys[4], shapes, offset=offset)
        state = state._replace(position=gamma.normalise(weights)[0])
    return state


def _evidence(key: jax.Array, alpha: jax.Array, labels: jax.Array, source: Source) -> Evidence:
    """Draw the evidence of all labels about alpha; XLA does so block by block.

    The result is bitwise the same on any number of devices: random numbers depend on the number of
    a document, tables are counted in integers, and logs are summed in the same order.
    """
    size, shard = device.size(source.corpus), source.shard
    if source.config.engine == "native":
        ids = jnp.arange(size, dtype=jnp.int32)
        documents = device.select(source.corpus, ids)
        numbers = ids if shard is None else shard.number(ids)
        key_tables, key_x = jax.random.split(key)
        tables = calls.tables(key_tables, alpha, documents._replace(ids=numbers), labels)
        # Of the whole corpus, of which documents of other shards have no tokens: faster by place.
        shards = 1 if shard is None else shard.shards
        lengths = jnp.zeros(size * shards, jnp.int32).at[numbers].set(documents.lengths)
        log_x = concentrations.log_beta(key_x, sums(alpha)[0], lengths)[numbers]
    else:
        blocks = device.blocks(size, source.config.batch_size)

        def block(i, loop):
            tables, log_x = loop
            documents = device.select(source.corpus, blocks[i])
            counts = engine.count_labels(labels.ravel(), documents, alpha.shape[0])
            numbers = blocks[i] if shard is None else shard.number(blocks[i])
            new, log_x_new = concentrations.auxiliary(key, alpha, counts, numbers)
            return tables + new.sum(axis=1, dtype=jnp.int32), log_x.at[i].set(log_x_new)

        start = (jnp.zeros(alpha.shape, jnp.int32), jnp.zeros(blocks.shape, alpha.dtype))
        tables, log_x = lax.fori_loop(0, blocks.shape[0], block, start)
    if shard is not None:
        tables = lax.psum(tables, shard.axis)
    return Evidence(tables.astype(alpha.dtype), _sum(log_x.ravel(), shard))


def _sum(values: jax.Array, shard: Shard | None) -> jax.Array:
    """Sum a value per document in an order that does not depend on the number of shards.

    If the number of shards divides `_CLASSES`, documents whose numbers are equal modulo `_CLASSES`
    are on one shard. Their values are summed in turn, and then the sums of the classes in pairs.
    """
    shards = 1 if shard is None else shard.shards
    width = -(-_CLASSES // shards)
    table = jnp.pad(values, (0, -values.shape[0] % width)).reshape(-1, width)
    start = jnp.zeros_like(table[0])
    totals = lax.fori_loop(0, table.shape[0], lambda i, totals: totals + table[i], start)
    if shard is not None:
        classes = jnp.zeros((width, shards), totals.dtype)
        classes = classes.at[:, lax.axis_index(shard.axis)].set(totals)
        totals = lax.psum(classes, shard.axis).ravel()
    return sums(totals)[0]
