r"""A Gibbs sampler without truncation for the hierarchical Dirichlet process of topics.

The corpus has topics k = 1, 2, ... with weights :math:`b \sim \mathrm{GEM}(\gamma)` and word
distributions :math:`\phi_k \sim \mathrm{Dirichlet}(\beta)`; document d has the shares
:math:`\theta_d \sim \mathrm{DP}(\alpha, b)`, and a token the topic :math:`z \sim \theta_d` and the
word :math:`\sim \phi_z` (Teh, Jordan, Beal and Blei 2006). Shares are integrated out. With
:math:`n_{dk}` tokens of document d at topic k, an update draws in this order:

1. tables :math:`m_{dk} \sim \mathrm{CRT}(\alpha b_k, n_{dk})` and
   :math:`x_d \sim \mathrm{Beta}(\alpha, n_d)`, given
   labels and weights (equation 40 of the paper);
2. alpha given these, and gamma given the totals :math:`m_k` of the K topics with tokens, if they
   have Gamma priors (appendix of the paper; `concentrations`);
3. the weights of these topics and the rest, :math:`(b_1, \ldots, b_K, r) \sim
   \mathrm{Dirichlet}(m_1, \ldots, m_K, \gamma)` (section 5.2); the rest is broken into the sticks
   of topics without tokens, :math:`v_j \sim \mathrm{Beta}(1, \gamma)`;
4. all topics given the labels, :math:`\phi_k \sim \mathrm{Dirichlet}(\beta + n_k)`;
5. a level :math:`u \sim \mathrm{U}(0, 1/N)`, N the number of tokens;
6. labels, by a collapsed sweep over each document (`topics.engine`) with the concentrations
   :math:`\alpha b_k` of the topics with :math:`b_k > u`. A document that has a token at another
   topic waits for an update of a lower level.

**Nothing is truncated.** Steps 3 and 4 draw the discrete measure with atoms :math:`(b_k, \phi_k)`
given the labels, as far as step 6 needs it: sticks are broken until the rest is below the level,
and then all atoms above it are known. Step 6 leaves the distribution of the labels given the
measure invariant for every level. Documents are independent given the measure, and for a document
whose labels are all eligible, a sweep restricted to eligible topics is a sequence of Gibbs steps on
a subset of labels. This requires a level that is independent of the labels given the measure, and
this one is independent of everything. Every topic is eligible eventually, because the level takes
any value down to 0. A level below the smallest weight in use, as in slice samplers of mixtures
(Walker 2007), would depend on the labels, and their distribution would need a correction.

A state has room for C topics. If the rest is above the level when the room is used up, the update
requests more and is repeated, see `models.growth`; the draws that decide this do not depend on C.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments, draws
from simplex_jax._src.base import Kernel, bind
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus, Documents
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.bits import random_words, use_up
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.models import growth
from simplex_jax._src.models.topics import concentrations
from simplex_jax._src.models.topics import engine as engines
from simplex_jax._src.models.topics.concentrations import Evidence, Prior
from simplex_jax._src.models.topics.native import calls

_STATIC = {"static": True}

BETA = 0.05
"""Default concentration of a topic, per word."""

MOST_TOPICS = 2**16 - 1
"""Maximum number of topics; also the label of no topic."""


class State(NamedTuple):
    """State of the process, of capacity C, for T tokens of V words."""

    position: jax.Array  # logarithm of the topics, with tokens or not, [C, V]
    step: jax.Array  # number of updates done, int32
    log_weights: jax.Array  # logarithm of the weight b of each topic, [C]
    log_rest: jax.Array  # logarithm of the total weight of all other topics
    alpha: jax.Array  # concentration of the shares of a document, a scalar
    gamma: jax.Array  # concentration of the weights, a scalar
    labels: jax.Array  # topic of every token, uint16 [T]
    counts: jax.Array  # tokens of each topic and word, int32 [C, V]
    # Topics that the last update needed, int32. Above C it was not done, nor will others be until
    # the state has grown.
    needed: jax.Array


class Info(NamedTuple):
    """Diagnostics of an update, scalars; zeros if it was not done."""

    topics: jax.Array  # number of topics with tokens after it, int32
    tables: jax.Array  # number of tables of all documents
    waited: jax.Array  # share of the documents that waited for a lower level


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """The process and its sampler options, arrays or static; see `build`."""

    beta: jax.Array  # concentration of the topics, a scalar or [V]
    alpha: jax.Array  # initial values
    gamma: jax.Array
    alpha_prior: Prior | None  # None if it is given
    gamma_prior: Prior | None
    capacity: int = dataclasses.field(metadata=_STATIC)  # of a first state
    chains: int | None = dataclasses.field(metadata=_STATIC)
    engine: str = dataclasses.field(metadata=_STATIC)


def check_capacity(capacity: int) -> int:
    """Return a capacity, or raise a ValueError if it exceeds the range of labels."""
    if capacity > MOST_TOPICS:
        raise ValueError(
            f"capacity must be at most {MOST_TOPICS:,} topics; it is {capacity:,}. If the data "
            "need more, use a smaller gamma, or a prior of it with a smaller mean (a larger "
            "rate in gamma_prior), for fewer topics"
        )
    return capacity


def grown(state: State) -> State | None:
    """Return a state with room for the topics its last update needed, or None if it has it.

    For `run(..., grow=grown)`; chains grow together.
    """
    capacity, needed = state.counts.shape[-2], int(np.asarray(state.needed).max())
    if needed <= capacity:
        return None
    larger = growth.by_quarters(capacity, check_capacity(needed))
    return grow(state, min(larger, MOST_TOPICS))


def grow(state: State, capacity: int) -> State:
    """Return the state with room for `capacity` topics; a smaller capacity is a ValueError.

    New topics have no weight until the next update draws them. The state may have several chains.
    """
    more = arguments.at_least("capacity", capacity, state.counts.shape[-2]) - state.counts.shape[-2]
    lead = [(0, 0)] * (state.counts.ndim - 2)

    def pad(rows: jax.Array, value: float, trailing: int) -> jax.Array:
        widths = [*lead, (0, more), *[(0, 0)] * trailing]
        return jnp.pad(rows, widths, constant_values=value)

    return state._replace(
        position=pad(state.position, -jnp.inf, 1),
        log_weights=pad(state.log_weights, -jnp.inf, 0),
        counts=pad(state.counts, 0, 1),
        needed=jnp.zeros_like(state.needed),
    )


_MOST_STICKS = 2.0**30


def build(
    corpus: DeviceCorpus,
    *,
    alpha: float | Prior = Prior(1.0),  # noqa: B008, it is immutable
    gamma: float | Prior = Prior(10.0),  # noqa: B008
    beta: ArrayLike = BETA,
    capacity: int = 64,
    chains: int | None = None,
    engine: str | None = None,
) -> tuple[Kernel, Stream]:
    """Return the kernel of the topics of a corpus, and the stream of its batches: all documents.

    Args:
        corpus: The corpus, `device.to_device(counts)`, with at least one token.
        alpha: Concentration of the shares of a document, positive, or its Gamma prior
            `Prior(mean, shape)`, starting at the prior mean.
        gamma: Concentration of the weights of the topics, likewise.
        beta: Concentration of a topic, per word, a scalar or [V].
        capacity: Initial capacity in topics; it grows.
        chains: Number of chains to run together; states have a leading axis, and all chains wait if
            one has to grow.
        engine: "native" or "xla", see `topics.engine`; by default "native" if available.

    Returns:
        A kernel whose `init` takes initial topics, [K, V] with K up to the capacity, or
        [chains, K, V], from which it draws the labels of all tokens (rows of zeros are not topics).
        Its position is the logarithm of topics. And a stream for `update`, the corpus.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> import jax, jax.numpy as jnp, scipy.sparse as sp
        >>> from simplex_jax import run
        >>> from simplex_jax._src.corpus import device
        >>> from simplex_jax._src.models.hdp import kernel as hdp
        >>> counts = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])
        >>> kernel, stream = hdp.build(device.to_device(counts), beta=0.1)
        >>> state = kernel.init(jax.random.key(0), jnp.ones((1, 4)))
        >>> state, topics = run(jax.random.key(1), kernel, state, stream, 100,
        ...     collect=lambda state, info: info.topics, grow=hdp.grown)
        >>> topics.shape, bool(topics.min() >= 1), state.position.shape[1]
        ((100,), True, 4)
    """
    if corpus.tokens.shape[0] == 0 or int(corpus.starts[-1]) == 0:
        raise ValueError("corpus must have at least one token")
    concentration = arguments.as_float("beta", beta)
    arguments.require("beta", concentration, arguments.positive(concentration), "positive")
    capacity = arguments.at_least("capacity", capacity, 1)
    model = Model(
        beta=concentration,
        alpha=_start("alpha", alpha),
        gamma=_start("gamma", gamma),
        alpha_prior=alpha if isinstance(alpha, Prior) else None,
        gamma_prior=gamma if isinstance(gamma, Prior) else None,
        capacity=check_capacity(capacity),
        chains=None if chains is None else arguments.at_least("chains", chains, 1),
        engine=engines.resolve(engine),
    )
    kernel = Kernel(bind(_init_chains, model, corpus), bind(_update_chains, model))
    return kernel, bind(_all, corpus)


def _start(name: str, value: float | Prior) -> jax.Array:
    number = arguments.scalar(name, value.mean if isinstance(value, Prior) else value)
    return jnp.asarray(number, number.dtype)  # a weak type would cause recompilation


def _all(corpus: DeviceCorpus, key: jax.Array, step: jax.Array) -> DeviceCorpus:
    return corpus


def _init_chains(model: Model, corpus: DeviceCorpus, key: jax.Array, topics: ArrayLike) -> State:
    start = arguments.as_float("topics", topics)
    if model.chains is None:
        return _init(model, corpus, key, start)
    keys = jax.random.split(key, model.chains)
    return lax.map(lambda chain: _init(model, corpus, *chain), (keys, start))


def _init(model: Model, corpus: DeviceCorpus, key: jax.Array, topics: jax.Array) -> State:
    number, capacity = topics.shape[0], model.capacity
    sums = topics.sum(axis=1, keepdims=True)
    some = sums[:, 0] > 0
    if number > capacity:
        raise ValueError(f"topics must be at most the capacity, {capacity}; there are {number}")
    room = ((0, capacity - number), (0, 0))
    log_topics = jnp.log(topics / jnp.where(sums > 0, sums, 1))
    position = jnp.pad(log_topics, room, constant_values=-jnp.inf)
    weights = jnp.pad(some / some.sum(), (0, capacity - number)).astype(position.dtype)
    none = jnp.full(corpus.tokens.shape[0], MOST_TOPICS, jnp.uint16)
    swept = engines.sweeps(
        key,
        position,
        model.alpha * weights,
        _documents(corpus),
        none,
        times=1,
        count="changes",
        engine=model.engine,
    )
    return State(
        position=position,
        step=jnp.zeros((), jnp.int32),
        log_weights=jnp.log(weights),
        log_rest=jnp.array(-jnp.inf, position.dtype),
        # A state may be donated to jitted code, and must not share arrays with the kernel.
        alpha=jnp.copy(model.alpha),
        gamma=jnp.copy(model.gamma),
        labels=swept.labels,
        counts=swept.words,
        needed=jnp.zeros((), jnp.int32),
    )


def _documents(corpus: DeviceCorpus) -> Documents:
    return device.select(corpus, jnp.arange(device.size(corpus), dtype=jnp.int32))


def _update_chains(
    model: Model, key: jax.Array, state: State, corpus: DeviceCorpus
) -> tuple[State, Info]:
    """Do an update, unless this or an earlier one needs more topics than there is room for.

    It depends on the key and the state alone, so that it can be repeated once the state has grown.
    Chains run in turn within it.
    """
    key = by_native_code(key)
    if model.chains is None:
        return _update(model, key, state, corpus)
    keys = jax.random.split(key, model.chains)
    moved, info = lax.map(lambda chain: _update(model, chain[0], chain[1], corpus), (keys, state))
    return growth.grow_chains_together(state, moved, info, state.counts.shape[1])


def _update(model: Model, key: jax.Array, state: State, corpus: DeviceCorpus) -> tuple[State, Info]:
    return lax.cond(
        state.needed > state.counts.shape[0],
        lambda: (state, _no_info(state)),
        lambda: _attempt(model, key, state, corpus),
    )


def _no_info(state: State) -> Info:
    zero = jnp.zeros((), state.alpha.dtype)
    return Info(jnp.int32(0), zero, zero)


def _attempt(model: Model, key: jax.Array, old: State, corpus: DeviceCorpus) -> tuple[State, Info]:
    keys = jax.random.split(key, 5)
    tables, state = _concentrations(model, keys[0], old, corpus)
    state = _weights(keys[1], state, tables)
    log_level = _log_level(keys[2], corpus, state.alpha.dtype)
    # About this many more sticks bring the rest below the level.
    short, capacity = state.log_rest - log_level, state.counts.shape[0]
    more = jnp.clip(jnp.ceil(state.gamma * short), 1, _MOST_STICKS).astype(jnp.int32)
    needed = jnp.where(short > 0, capacity + more, 0)

    def go() -> tuple[State, Info]:
        position = draws.log_dirichlet(keys[3], model.beta + state.counts)
        moved = state._replace(position=position, step=old.step + 1, needed=needed)
        moved, waited = _labels(model, keys[4], moved, corpus, log_level)
        topics = jnp.sum(jnp.any(moved.counts > 0, axis=1), dtype=jnp.int32)
        return moved, Info(topics, tables.sum(), waited)

    return lax.cond(needed > capacity, lambda: (old._replace(needed=needed), _no_info(old)), go)


def _concentrations(
    model: Model, key: jax.Array, state: State, corpus: DeviceCorpus
) -> tuple[jax.Array, State]:
    """Return the tables of each topic, [C], and a state with alpha and gamma drawn given them."""
    keys = jax.random.split(key, 5)
    concentration = state.alpha * jnp.exp(state.log_weights)
    if model.engine == "native":
        tables = calls.tables(keys[0], concentration, _documents(corpus), state.labels)
        tables = tables.astype(concentration.dtype)
    else:
        tables = _tables(keys[0], concentration, state.labels, corpus)
    total = jnp.sum(tables)
    if model.alpha_prior is not None:
        log_x = jnp.sum(concentrations.log_beta(keys[1], state.alpha, jnp.diff(corpus.starts)))
        state = state._replace(alpha=_draw(keys[2], total, log_x, model.alpha_prior))
    if model.gamma_prior is not None:
        log_x = jnp.sum(concentrations.log_beta(keys[3], state.gamma, total[None]))
        topics = jnp.sum(tables > 0).astype(total.dtype)
        state = state._replace(gamma=_draw(keys[4], topics, log_x, model.gamma_prior))
    return tables, state


def _tables(
    key: jax.Array, concentration: jax.Array, labels: jax.Array, corpus: DeviceCorpus
) -> jax.Array:
    """Draw the tables of each topic in all documents, [C], given concentrations [C], by XLA.

    The token that is the (i + 1)-th of a topic in its document has a table of its own with
    probability c / (c + i): with n of them that is CRT(c, n), see `draws.crt`. Most documents have
    few tokens of most topics, so tokens are sorted instead of building a documents x topics table.
    """
    size, capacity = labels.shape[0], concentration.shape[0]
    ends = jnp.zeros(size, jnp.int32).at[corpus.starts[1:]].add(1, mode="drop")
    document = jnp.cumsum(ends)
    if device.size(corpus) * capacity < 2**31:
        # One sort key takes a fifth of the time of two.
        cells = lax.sort(document * capacity + labels, is_stable=False)
        document, topic = cells // capacity, cells % capacity
    else:
        document, topic = lax.sort((document, labels), is_stable=False, num_keys=2)
    changes = (jnp.diff(document) != 0) | (jnp.diff(topic) != 0)
    begins = jnp.append(True, changes)
    number = lax.iota(jnp.int32, size)
    earlier = number - lax.cummax(jnp.where(begins, number, 0))
    c = concentration[topic]
    use_up(key)
    words, _ = random_words(key, size, c.dtype)
    sits = begins | (uniform.uniform(words, c.dtype) * (c + earlier) < c)
    inside = number < corpus.starts[-1]
    tables = jnp.zeros(capacity, jnp.int32).at[topic].add(sits & inside)
    return tables.astype(concentration.dtype)


def _draw(key: jax.Array, tables: jax.Array, log_x: jax.Array, prior: Prior) -> jax.Array:
    """Draw a concentration given its evidence, see `concentrations`."""
    evidence = Evidence(tables[None], log_x)
    return concentrations.move(key, tables[None], evidence, prior, "learn-asymmetric")[0]


def _weights(key: jax.Array, state: State, tables: jax.Array) -> State:
    """Draw the weights of the topics with tables, and break the rest into sticks of the others."""
    keys = jax.random.split(key, 3)
    with_tables, dtype = tables > 0, state.alpha.dtype
    log_shares = draws.loggamma(keys[0], jnp.where(with_tables, tables, 1))
    log_shares = jnp.where(with_tables, log_shares, -jnp.inf)
    log_rest = draws.loggamma(keys[1], state.gamma)
    total = jnp.logaddexp(jax.nn.logsumexp(log_shares), log_rest)
    # log(1 - v) of the sticks v ~ Beta(1, gamma) of the other topics, in their order
    use_up(keys[2])
    words, _ = random_words(keys[2], tables.shape[0], dtype)
    log_stay = -uniform.exponential(words, dtype) / state.gamma
    log_left = log_rest - total + jnp.append(0, jnp.cumsum(log_stay))
    log_sticks = log_left[:-1] + jnp.log(-jnp.expm1(log_stay))
    place = jnp.cumsum(~with_tables) - 1
    log_weights = jnp.where(with_tables, log_shares - total, log_sticks[place])
    return state._replace(log_weights=log_weights, log_rest=log_left[place[-1] + 1])


def _log_level(key: jax.Array, corpus: DeviceCorpus, dtype: jnp.dtype) -> jax.Array:
    """Draw the level, independently of labels and weights."""
    use_up(key)
    words, _ = random_words(key, 1, dtype)
    return -uniform.exponential(words, dtype)[0] - jnp.log(corpus.starts[-1].astype(dtype))


def _labels(
    model: Model, key: jax.Array, state: State, corpus: DeviceCorpus, log_level: jax.Array
) -> tuple[State, jax.Array]:
    """Draw labels among the topics above the level; also return the share of waiting documents."""
    eligible = state.log_weights > log_level
    closed = ~eligible & jnp.any(state.counts > 0, axis=1)
    documents = _documents(corpus)
    waits = lax.cond(
        jnp.any(closed),
        lambda: _having(documents, closed[state.labels]),
        lambda: jnp.zeros(documents.lengths.shape, bool),
    )
    documents = documents._replace(lengths=jnp.where(waits, 0, documents.lengths))
    swept = engines.sweeps(
        key,
        jnp.where(eligible[:, None], state.position, -jnp.inf),
        jnp.where(eligible, state.alpha * jnp.exp(state.log_weights), 0),
        documents,
        state.labels,
        state.counts,
        times=1,
        count="changes",
        engine=model.engine,
    )
    waited = waits.mean(dtype=state.alpha.dtype)
    return state._replace(labels=swept.labels, counts=swept.words), waited


def _having(documents: Documents, marked: jax.Array) -> jax.Array:
    """Return which documents have a marked token, bool [B]; marks are bool [T]."""
    before = jnp.append(0, jnp.cumsum(marked, dtype=jnp.int32))
    return before[documents.starts + documents.lengths] > before[documents.starts]
