"""The kernel of LDA: a simplex sampler for the topics, and learned concentrations."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import draws, schedules
from simplex_jax._src.base import Batch, Kernel, bind, static
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus, Pages
from simplex_jax._src.draws import dirichlet
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.models.lda import counts
from simplex_jax._src.models.lda.counts import Counts, Local, Shard
from simplex_jax._src.models.lda.seeds import Seeds
from simplex_jax._src.models.topics import concentrations, engine, local
from simplex_jax._src.models.topics.concentrations import Evidence, Prior
from simplex_jax._src.models.topics.native import calls
from simplex_jax._src.samplers import expanded, scir, sgrhmc, sgrld, smld
from simplex_jax._src.samplers.rows import Rows, sums
from simplex_jax._src.schedules import StepSize

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
        counts.memoised(corpus, setup.shape, setup.local_step, shard),
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
            counts = local.count_labels(labels.ravel(), documents, alpha.shape[0])
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
