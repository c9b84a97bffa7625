"""The kernel of LDA: counts, a simplex sampler of topics given them, and learned concentrations."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments, draws, schedules
from simplex_jax._src.base import Batch, Kernel, PyTree, bind, static
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus, Documents, Pages
from simplex_jax._src.draws import dirichlet
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.models.lda.seeds import Seeds
from simplex_jax._src.models.topics import concentrations, engine
from simplex_jax._src.models.topics.concentrations import Evidence, Prior
from simplex_jax._src.models.topics.native import calls
from simplex_jax._src.samplers import expanded, scir, sgrhmc, sgrld, smld
from simplex_jax._src.samplers.rows import Rows, sums
from simplex_jax._src.schedules import StepSize

METHODS = (*engine.METHODS, "integrated")
IN_ONE_PLACE = (
    "the local step 'integrated' needs documents in memory, on one device and in one process: use "
    "'collapsed'"
)


class Local(NamedTuple):
    """The local step: draws of the topics of the tokens of a batch.

    Attributes:
        method: "collapsed" or "blocked", see `models.topics.collapsed` and `models.topics.blocked`;
            or "integrated", see `models.topics.integrated`, with memoised counts.
        sweeps: Gibbs sweeps over a batch.
        burn_in: Number of first sweeps whose counts are discarded.
        expected: Count the probabilities of the labels in place of the labels: less noise, at the
            cost of K updates a token. Only for blocked sweeps with estimated counts; memoised
            counts are exact only with labels.
        engine: "native" or "xla", see `engine`; by default the one that works here.
    """

    method: str = "collapsed"
    sweeps: int = 1
    burn_in: int = 0
    expected: bool = False
    engine: str | None = None


def check_local(shape: tuple[int, int], local_step: Local) -> None:
    """Raise a ValueError unless there are topics and words and the local step makes sense."""
    if shape[0] < 1 or shape[1] < 1:
        raise ValueError(f"there must be at least one topic and one word; the shape is {shape}")
    arguments.choice("method", local_step.method, METHODS)
    engine.resolve(local_step.engine, shape[0])
    whole = isinstance(local_step.sweeps, int) and isinstance(local_step.burn_in, int)
    if not whole or not 0 <= local_step.burn_in < local_step.sweeps:
        raise ValueError(
            "sweeps must be a positive integer and burn_in a smaller one, from 0 on; they are "
            f"{local_step.sweeps!r}, {local_step.burn_in!r}"
        )
    if local_step.expected and local_step.method != "blocked":
        raise ValueError("expected counts need the blocked local step")
    if local_step.method == "integrated" and not engine.integrated_works(local_step.engine):
        raise ValueError(
            "the local step 'integrated' is native code for CPUs in float32, which is unavailable "
            "here or was not selected: use 'collapsed'"
        )


def check_memoised(shape: tuple[int, int], local_step: Local) -> None:
    """Raise a ValueError unless the local step makes sense and fits memoised counts."""
    check_local(shape, local_step)
    if local_step.expected or local_step.burn_in:
        raise ValueError("memoised counts use the last labels: leave out burn_in and expected")


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
    blocks: Any = None  # of words, see `engine.word_blocks`; None for other local steps

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
    check_local(shape, local_step)
    size, room = device.size(corpus), device.capacity(corpus, batch_size)
    return Source(corpus, shape, local_step, size, batch_size, room, learn)


def memoised_counts(
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
        blocks = engine.word_blocks(on_device.tokens, shape[1])
    source = Source(
        on_device, shape, local_step, device.size(corpus), room=room, shard=shard, blocks=blocks
    )
    return Counts(init=bind(_init_memory, source), estimate=bind(_memoised, source))


def subsampled_counts(
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


def streamed_counts(
    documents: int, shape: tuple[int, int], local_step: Local, *, learn: bool = False
) -> Counts:
    """Subsampled counts of a corpus of D documents, from batches of compact `Documents`."""
    check_local(shape, local_step)
    source = Source(None, shape, local_step, documents, learn=learn)
    return Counts(init=bind(_init_tally, source), estimate=bind(_subsampled, source))


def _init_memory(source: Source, key: jax.Array) -> Memory:
    del key
    labels = engine.no_labels(source.room, source.shape[0])
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
            *engine.sweep_integrated(
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
    labels = engine.no_labels(documents.tokens.shape[0], num_topics)
    if local_step.expected:
        likelihood = engine.likelihood_of(log_topics)
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
    return mean, engine.count_labels(labels, documents, num_topics)


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
        return engine.sweep_blocked(
            jax.random.fold_in(key, i), likelihood, alpha, documents, labels
        )

    def add(i, loop):
        return engine.sweep_expected(
            jax.random.fold_in(key, i), likelihood, alpha, documents, *loop
        )

    labels = lax.fori_loop(0, local_step.burn_in, burn, labels)
    start = (labels, jnp.zeros_like(likelihood))
    labels, words = lax.fori_loop(local_step.burn_in, local_step.sweeps, add, start)
    mean = words / (local_step.sweeps - local_step.burn_in)
    return mean, engine.count_labels(labels, documents, alpha.shape[0])


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
    # The last word is the reference, which must be the same for all topics.
    "smld-approximate": Sampler(
        static(smld.init, reference=-1, linearised=True),
        static(smld.update, reference=-1),
        weighted=False,
        measures=("stiffness",),
    ),
}

TOTALS = ("refreshed", "carried")
"""Treatments of the total of the weights, see `samplers.expanded`; the first is the default."""


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


class Means(NamedTuple):
    """Fixed concentrations, or the prior means of learned ones."""

    alpha: jax.Array  # of topic proportions, [K]
    beta: jax.Array  # of topics, [V] or [K, V]
    seeds: Seeds | None = None  # pseudo-counts added to beta for seed words


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """The model and its sampler, see `kernel`: arrays and static options."""

    counts: Counts
    means: Means
    step_size: StepSize
    learner: Callable | None
    sampler: str = dataclasses.field(metadata=_STATIC)
    total: str | None = dataclasses.field(metadata=_STATIC)  # None if it moves no weights
    follow: str | None = dataclasses.field(metadata=_STATIC)
    # The topics that this device counts and draws; None for all
    rows: Rows | None = dataclasses.field(metadata=_STATIC)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Learner:
    """Learned concentrations, from the labels of a corpus or of a shard of it."""

    corpus: Any  # a DeviceCorpus; None if documents are on disk, where alpha is fixed
    means: Means
    learn_alpha: str | None = dataclasses.field(metadata=_STATIC)
    learn_beta: str | None = dataclasses.field(metadata=_STATIC)
    batch_size: int = dataclasses.field(metadata=_STATIC)
    engine: str | None = dataclasses.field(metadata=_STATIC)
    shard: Shard | None = dataclasses.field(metadata=_STATIC)


def means_of(
    alpha: ArrayLike, beta: ArrayLike, shape: tuple[int, int], seeds: Seeds | None = None
) -> Means:
    """Return broadcast concentrations, or raise a ValueError that names them."""
    full = shape if np.ndim(beta) == 2 else shape[1:]
    return Means(
        concentrations.positive("alpha", alpha, shape[:1]),
        concentrations.positive("beta", beta, full),
        seeds,
    )


def kernel(
    estimate: Counts,
    means: Means,
    sampler: str,
    step_size: StepSize,
    *,
    total: str | None = None,
    learner: Callable | None = None,
    follow: str | None = None,
    rows: Rows | None = None,
) -> Kernel:
    """Return the kernel of LDA with a named sampler of the topics.

    `total` is one of `TOTALS`, or None for the default of the sampler. `learner`, `(key, state) ->
    state`, is called when a `Visit` says so; without one, batches are not visits. `follow` is how
    alpha follows the evidence in the memory of the counts, see `concentrations.move`; None keeps
    it fixed. `rows` are the topics that `estimate` counts and this device draws, None for all.

    Raises:
        ValueError: `step_size` or `total` is out of range, or the sampler has no total.
    """
    schedules.check(step_size)
    model = Model(
        counts=estimate,
        means=means,
        step_size=step_size,
        learner=learner,
        sampler=sampler,
        total=total_of(sampler, total),
        follow=follow,
        rows=rows,
    )
    return Kernel(init=bind(_init, model), update=bind(_update, model))


class Setup(NamedTuple):
    """Static settings of LDA with memoised counts; hashable."""

    shape: tuple[int, int]  # (K, V)
    sampler: str
    total: str | None
    local_step: Local
    learn_alpha: str | None
    learn_beta: str | None
    batch_size: int  # of a shard, if devices share the documents


def memoised(
    corpus: DeviceCorpus | Pages,
    means: Means,
    step_size: StepSize,
    *,
    setup: Setup,
    shard: Shard | None = None,
) -> Kernel:
    """Return the kernel of LDA with memoised counts of a corpus, or of a shard of one.

    With pages, alpha cannot be learned, since that needs all labels at once.
    """
    learner_update = None
    if setup.learn_alpha or setup.learn_beta:
        learner = Learner(
            corpus=None if isinstance(corpus, Pages) else corpus,
            means=means,
            learn_alpha=setup.learn_alpha,
            learn_beta=setup.learn_beta,
            batch_size=setup.batch_size,
            engine=setup.local_step.engine,
            shard=shard,
        )
        learner_update = bind(_learn, learner)
    return kernel(
        memoised_counts(corpus, setup.shape, setup.local_step, shard),
        means,
        setup.sampler,
        step_size,
        total=setup.total,
        learner=learner_update,
        rows=None if shard is None else shard.topics,
    )


def total_of(sampler: str, total: str | None) -> str | None:
    """Return how the total of a sampler's weights is treated; None if it moves no weights.

    Raises:
        ValueError: `total` is not one of `TOTALS`, or the sampler has none.
    """
    if total is not None and total not in TOTALS:
        raise ValueError(f"total must be one of {', '.join(TOTALS)}; it is {total!r}")
    if SAMPLERS[sampler].weighted:
        return TOTALS[0] if total is None else total
    if total is not None:
        raise ValueError(f"total is that of weights, and {sampler} moves none: leave it out")
    return None


def _init(model: Model, key: jax.Array, position: jax.Array) -> State:
    alpha, beta, _ = model.means
    options: dict[str, Any] = {"estimator": model.counts.given(alpha)}
    if model.total is not None:
        options["total"] = model.total
    state = SAMPLERS[model.sampler].init(key, position, **options)
    if model.total == "carried":
        # Not drawn: the papers carry the sum of the initial weights.
        weights = jnp.asarray(position, state.position.dtype)
        state = state._replace(log_total=jnp.log(weights.sum(axis=-1, keepdims=True)))
    # A state may be donated to jitted code, and must not share arrays with the kernel.
    return _outer(state, jnp.copy(alpha), jnp.copy(beta))


def _outer(inner: Any, alpha: jax.Array, beta: jax.Array) -> State:
    rest = inner._replace(position=None, step=None)
    return State(inner.position, inner.step, alpha, beta, rest)


def _update(model: Model, key: jax.Array, state: State, batch: Batch) -> tuple[State, Info]:
    """Move the topics and the learned concentrations."""
    key, learner, follow = by_native_code(key), model.learner, model.follow
    if learner is not None:
        key, key_learn = jax.random.split(key)
        batch, now = batch
        state = lax.cond(now, lambda: learner(key_learn, state), lambda: state)
    if follow is not None:
        key, key_follow = jax.random.split(key)
    inner, info = SAMPLERS[model.sampler].update(
        key,
        state.sampler._replace(position=state.position, step=state.step),
        batch,
        estimator=model.counts.given(state.alpha, model.means.seeds, model.rows, state.beta),
        alpha=state.beta,
        step_size=model.step_size,
        **({} if model.rows is None else {"rows": model.rows}),
    )
    alpha = state.alpha
    if follow is not None:
        h = schedules.evaluate(model.step_size, state.step)
        evidence, prior = inner.memory.evidence, Prior(model.means.alpha)
        alpha = concentrations.move(key_follow, alpha, evidence, prior, follow, h)
    tokens = expanded.all_rows(model.rows, inner.memory.topic_tokens).astype(state.position.dtype)
    return _outer(inner, alpha, state.beta), Info(tokens, info)


def _learn(learner: Learner, key: jax.Array, state: State) -> State:
    """Draw concentrations given all labels, and redraw the topics after a new beta."""
    keys = jax.random.split(key, 5)
    memory = state.sampler.memory
    if mode := learner.learn_alpha:
        evidence = _evidence(keys[0], state.alpha, memory.labels, learner)
        prior = Prior(learner.means.alpha)
        alpha = concentrations.move(keys[1], state.alpha, evidence, prior, mode)
        state = state._replace(alpha=alpha)
    if mode := learner.learn_beta:
        topics = None if learner.shard is None else learner.shard.topics
        counts = expanded.all_rows(topics, memory.counts)
        evidence = concentrations.evidence(keys[2], state.beta, counts.T)
        prior = Prior(learner.means.beta)
        beta = concentrations.move(keys[3], state.beta, evidence, prior, mode)
        # beta was drawn with the topics integrated out; now draw the topics given beta.
        offset = expanded.offset(topics, memory.counts)
        shapes = (beta + memory.counts).astype(state.position.dtype)
        weights = draws.loggamma(keys[4], shapes, offset=offset)
        state = state._replace(beta=beta, position=dirichlet.normalise(weights)[0])
    return state


def _evidence(key: jax.Array, alpha: jax.Array, labels: jax.Array, learner: Learner) -> Evidence:
    """Draw the evidence of all labels about alpha; XLA does so block by block.

    The result is bitwise the same on any number of devices: random numbers depend on the number of
    a document, tables are counted in integers, and logs are summed in the same order.
    """
    size, shard = device.size(learner.corpus), learner.shard
    if engine.resolve(learner.engine, alpha.shape[0]) == "native":
        ids = jnp.arange(size, dtype=jnp.int32)
        documents = device.select(learner.corpus, ids)
        numbers = ids if shard is None else shard.number(ids)
        key_tables, key_x = jax.random.split(key)
        tables = calls.tables(key_tables, alpha, documents._replace(ids=numbers), labels)
        log_x = concentrations.log_beta(key_x, sums(alpha)[0], documents.lengths, numbers)
    else:
        blocks = device.blocks(size, learner.batch_size)

        def block(i, loop):
            tables, log_x = loop
            documents = device.select(learner.corpus, blocks[i])
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
