r"""A Gibbs sampler of topics that change from slice to slice of a corpus.

Topic k has a base and a distribution over words for each slice t, and so has the prevalence of all
topics: paths along a forest of slices, `samplers.dirichlet_paths`, each with its own concentration
(how steady it is) and pace. Document d of slice t has proportions :math:`\theta_d \sim
\mathrm{Dirichlet}(a \rho_t)`, and a token the topic :math:`z \sim \theta_d` and the word
:math:`\sim \psi_{dk}`, a topic of the document's own, :math:`\psi_{dk} \sim \mathrm{Dirichlet}(m
\phi_{kt})`: a word that occurs once in a document occurs again, and without this the topics of a
slice would follow its long documents. Proportions and a document's own topics are integrated out.
With :math:`n_{dk}` tokens of document d at topic k, an update draws in this order:

1. tables :math:`L_{dk} \sim \mathrm{CRT}(a \rho_{tk}, n_{dk})` and
   :math:`x_d \sim \mathrm{Beta}(a, n_d)`, given labels and prevalence;
2. a given these, if it has a Gamma prior (`concentrations`);
3. the path of the prevalence, whose counts are :math:`\sum_d L_{dk}` over the documents of a slice:
   given the tables, it does not depend on a;
4. tables of each word in the own topics of the documents, :math:`\mathrm{CRT}(m \phi_{ktw},
   n_{dkw})`, and m given these, by Metropolis steps;
5. the paths of the topics, whose counts are these tables summed over a slice; with them beta,
   common to all words, given the tables at the bases, as in LDA;
6. labels, by a collapsed sweep over the documents of each slice with its topics and prevalence.

With m infinite, documents have the topics of their slice, and the counts of 5 are the tokens.

The first `static` updates are those of LDA with learned concentrations: all slices have the base,
whose counts are those of all slices. They are a start, not a part of the chain.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments, draws
from simplex_jax._src.base import Kernel, bind
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus, Documents
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.models.dtm.slices import HeldOut
from simplex_jax._src.models.topics import concentrations, evaluation
from simplex_jax._src.models.topics import engine as engines
from simplex_jax._src.models.topics.concentrations import LEAST, Evidence, Prior
from simplex_jax._src.models.topics.evaluation import Completion
from simplex_jax._src.models.topics.native import calls
from simplex_jax._src.runtime import devices
from simplex_jax._src.samplers import dirichlet_paths as paths

__all__ = ["ALPHA", "BETA", "Info", "Prior", "State", "build"]

_STATIC = {"static": True}

ALPHA, BETA = 0.1, 0.05
"""Prior means of the concentrations: of topic proportions, per topic, and of bases, per word."""

_GAMMA = 1.0  # concentration of the base of the prevalence, per topic
# Where paths start after static updates; they find their own within tens of updates.
_STEADINESS = {"topics": 200.0, "prevalence": 50.0}
OWN_RANGE = 1e-2, 1e9
"""Range of m, the concentration of a document's own topics."""

# m: its start, the scale of the half-Cauchy prior of m^-1/2, and its moves in an update.
_OWN, _OWN_DEVIATION, _MOVES = 100.0, 0.1, 10
_SHORTEST, _LONGEST = 0.003, 1.0  # moves of log m: any between these, as each suits some data


class Layout(NamedTuple):
    """Documents by slice, side by side; those of length 0 fill up slices with fewer."""

    tokens: jax.Array  # word of every token, int32 [N]
    starts: jax.Array  # first token of each document, int32 [T, B]
    lengths: jax.Array  # number of its tokens, int32 [T, B]
    ids: jax.Array  # its number, which seeds its random numbers, int32 [T, B]

    def slice(self, t: jax.Array) -> Documents:
        """Return the documents of a slice."""
        return Documents(self.tokens, self.starts[t], self.lengths[t], self.ids[t])


class State(NamedTuple):
    """State of K topics of V words in T slices."""

    position: jax.Array  # logarithm of the topics, [K, T, V]
    step: jax.Array  # number of updates done, int32
    base: jax.Array  # logarithm of their bases, [K, V]
    steadiness: jax.Array  # concentration of each topic's path, [K]
    pace: jax.Array  # and its pace, [K]
    prevalence: paths.State  # path of the prevalence, whose position is [T, K]
    total: jax.Array  # a, the concentration of the proportions of a document
    beta: jax.Array  # concentration of the bases, per word
    own: jax.Array  # m, the concentration of a document's own topics; inf if it has none
    labels: jax.Array  # topic of every token, [N]
    counts: jax.Array  # tokens of each topic, slice and word, int32 [K, T, V]


class Info(NamedTuple):
    """Diagnostics of an update."""

    tokens: jax.Array  # tokens of each topic in each slice, [T, K]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """The model and its sampler, arrays or static; see `build`."""

    alpha: jax.Array  # initial values, per topic and per word
    beta: jax.Array
    alpha_prior: Prior | None  # of the mean concentration per topic; None if it is given
    beta_prior: Prior | None
    own: jax.Array | None  # m, if documents have their own topics; its start, if it is learned
    paths: dict[str, Any]  # arguments of `dirichlet_paths`, but for beta
    learn_own: bool = dataclasses.field(metadata=_STATIC)
    longest: int = dataclasses.field(metadata=_STATIC)  # tokens of a document, at most
    words: int = dataclasses.field(metadata=_STATIC)
    static: int = dataclasses.field(metadata=_STATIC)  # updates at the start without change
    chains: int | None = dataclasses.field(metadata=_STATIC)
    engine: str = dataclasses.field(metadata=_STATIC)


def lay_out(counts: sp.csr_array, place: np.ndarray, slices: int) -> Layout:
    """Return documents [D, V] by their slices [D], the shortest of a slice first."""
    lengths = np.asarray(counts.sum(axis=1), np.int64)
    device.check_lengths(lengths)
    if lengths.sum() > device.MOST_TOKENS:
        raise ValueError(f"there must be at most {device.MOST_TOKENS:,} tokens")
    order = np.lexsort((lengths, place))
    sizes = lengths[order]
    ends = np.cumsum(sizes)
    number, column = _columns(place[order], slices)
    shape = slices, max(int(number.max(initial=0)), 1)
    remedy = "give fewer slices, or groups of more even sizes"
    devices.check_memory(16 * shape[0] * shape[1], remedy)
    # Empty documents begin where their slice ends.
    starts = np.repeat(np.append(0, ends)[np.cumsum(number)], shape[1]).reshape(shape)
    starts[place[order], column] = ends - sizes
    rest = np.zeros((2, *shape), np.int32)
    rest[:, place[order], column] = sizes, order
    counts = counts if counts.has_canonical_format else _canonical(counts)
    tokens = device.on_host(counts).read(order)
    tokens = tokens if tokens.size else np.zeros(1)  # a token of no document
    return Layout(*(jnp.asarray(x.astype(np.int32)) for x in (tokens, starts, *rest)))


def _canonical(counts: sp.csr_array) -> sp.csr_array:
    """Return counts with one entry a word, so that equal words of a document are side by side."""
    result = counts.copy()
    result.sum_duplicates()
    return result


def _columns(place: np.ndarray, slices: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the size of each slice, and the number of each item in its own, in sorted order."""
    number = np.bincount(place, minlength=slices)
    return number, np.arange(len(place)) - np.repeat(np.cumsum(number) - number, number)


def build(
    layout: Layout,
    shape: tuple[int, int],
    gaps: ArrayLike,
    parents: ArrayLike,
    *,
    alpha: float | Prior = Prior(ALPHA),  # noqa: B008, it is immutable
    beta: float | Prior = Prior(BETA),  # noqa: B008
    steadiness: ArrayLike | str = "learn",
    pace: ArrayLike | str = "learn",
    own: float | str | None = "learn",
    static: int = 0,
    chains: int | None = None,
    engine: str | None = None,
) -> tuple[Kernel, Stream]:
    """Return the kernel of topics in slices, and the stream of its batches: all documents.

    Args:
        layout: The documents, from `lay_out`.
        shape: (K, V), numbers of topics and words.
        gaps: Time from each slice's parent, [T].
        parents: Index of each slice's parent, below its own, [T]; -1 for none.
        alpha: Mean concentration of the proportions of a document, per topic (a / K), positive, or
            its Gamma prior `Prior(mean, shape)`.
        beta: Concentration of the bases, per word, likewise.
        steadiness: Concentration of all paths, or "learn".
        pace: Their pace, or "learn".
        own: Concentration m of a document's own topics, positive, "learn", or None: documents have
            the topics of their slice.
        static: Updates at the start in which nothing changes from slice to slice.
        chains: Number of chains to run together; states have a leading axis.
        engine: "native" or "xla", see `topics.engine`; by default "native" if available.

    Returns:
        A kernel whose `init` takes initial topics, [K, V] or [chains, K, V], from which it draws
        the labels of all tokens. Its position is the logarithm of the topics of each slice. And a
        stream for `update`, the layout.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np, scipy.sparse as sp
        >>> from simplex_jax import run
        >>> counts = sp.csr_array([[9, 8, 0, 0], [0, 0, 9, 8], [7, 9, 0, 0], [0, 0, 8, 9]])
        >>> layout = lay_out(counts, np.array([0, 0, 1, 1]), 2)
        >>> kernel, stream = build(layout, (2, 4), gaps=[1.0, 1.0], parents=[-1, 0])
        >>> state = kernel.init(jax.random.key(0), jnp.array([[4, 3, 2, 1], [1, 2, 3, 4.0]]))
        >>> state, trace = run(jax.random.key(1), kernel, state, stream, 20)
        >>> trace.shape, int(state.counts.sum())
        ((20, 2, 2, 4), 67)
    """
    topics, words = shape
    if isinstance(own, str):
        arguments.choice("own", own, ["learn"])
    given = None if own is None else _OWN if isinstance(own, str) else own
    model = Model(
        alpha=_start("alpha", alpha),
        beta=_start("beta", beta),
        alpha_prior=alpha if isinstance(alpha, Prior) else None,
        beta_prior=beta if isinstance(beta, Prior) else None,
        paths=paths.hyperparameters(gaps, parents=parents, concentration=steadiness, pace=pace),
        own=None if given is None else _start("own", given),
        learn_own=isinstance(own, str),
        longest=int(np.max(layout.lengths, initial=1)),
        words=words,
        static=arguments.at_least("static", static, 0),
        chains=None if chains is None else arguments.at_least("chains", chains, 1),
        engine=engines.resolve(engine, topics, bursts=given is not None),
    )
    return Kernel(bind(_init_chains, model, layout), bind(_update_chains, model)), bind(
        _all, layout
    )


def _start(name: str, value: float | Prior) -> jax.Array:
    number = arguments.scalar(name, value.mean if isinstance(value, Prior) else value)
    return jnp.asarray(number, number.dtype)  # a weak type would cause recompilation


def _all(layout: Layout, key: jax.Array, step: jax.Array) -> Layout:
    del key, step
    return layout


def _init_chains(model: Model, layout: Layout, key: jax.Array, topics: ArrayLike) -> State:
    start = arguments.as_float("topics", topics)
    if model.chains is None:
        return _init(model, layout, key, start)
    keys = jax.random.split(key, model.chains)
    return lax.map(lambda chain: _init(model, layout, *chain), (keys, start))


def _init(model: Model, layout: Layout, key: jax.Array, topics: jax.Array) -> State:
    number, slices = topics.shape[0], layout.starts.shape[0]
    same = jnp.broadcast_to(topics[:, None], (number, slices, model.words))
    path = paths.init(key, same, **model.paths)
    prevalence = paths.init(key, jnp.ones((slices, number), same.dtype), **model.paths)
    if model.static:
        path, prevalence = _begin(model, "topics", path), _begin(model, "prevalence", prevalence)
    total = jnp.asarray(number * model.alpha, same.dtype)
    labels = engines.no_labels(layout.tokens.shape[0], number)
    none = jnp.zeros(same.shape, jnp.int32)
    alpha = _alpha(total, prevalence)
    own = jnp.asarray(jnp.inf if model.own is None else model.own, same.dtype)
    labels, counts = _sweep(model, key, path.position, alpha, own, layout, labels, none)
    return State(
        path.position,
        jnp.zeros((), jnp.int32),
        path.base,
        path.concentration,
        path.pace,
        prevalence,
        total,
        jnp.copy(model.beta),  # a state may be donated, and must not share arrays with the kernel
        jnp.copy(own),
        labels,
        counts,
    )


def _begin(model: Model, name: str, path: paths.State) -> paths.State:
    """Let a learned concentration start where paths are found, not at the median of its prior."""
    if model.paths["concentration"] is not None:
        return path
    return path._replace(concentration=jnp.full_like(path.concentration, _STEADINESS[name]))


def _alpha(total: jax.Array, prevalence: paths.State) -> jax.Array:
    """Return the concentrations of the proportions of documents in each slice, [T, K]."""
    return jnp.maximum(total * jnp.exp(prevalence.position), LEAST)


def _update_chains(
    model: Model, key: jax.Array, state: State, layout: Layout
) -> tuple[State, Info]:
    """Update all chains, in turn."""
    key = by_native_code(key)
    if model.chains is None:
        return _update(model, key, state, layout)
    keys = jax.random.split(key, model.chains)
    return lax.map(lambda chain: _update(model, chain[0], chain[1], layout), (keys, state))


def _update(model: Model, key: jax.Array, state: State, layout: Layout) -> tuple[State, Info]:
    keys = jax.random.split(key, 8)
    tables, log_x = _tables(model, keys[0], _alpha(state.total, state.prevalence), layout, state)
    total, number = state.total, state.position.shape[0]
    if (prior := model.alpha_prior) is not None:
        evidence = Evidence(jnp.sum(tables)[None], log_x)
        of_total = Prior(number * jnp.asarray(prior.mean), prior.shape)
        total = concentrations.move(keys[1], total[None], evidence, of_total, "learn")[0]
    path = paths.State(state.position, state.base, state.steadiness, state.pace, state.step)
    own, counts = _own_topics(model, keys[6], layout, state)

    def bases(tables: jax.Array) -> jax.Array:
        """Return beta given the tables at the bases of all topics, [K, V]."""
        if (prior := model.beta_prior) is None:
            return state.beta
        common = jnp.full(model.words, state.beta)
        evidence = concentrations.evidence(keys[2], common, tables.T)
        return concentrations.move(keys[3], common, evidence, prior, "learn")[0]

    def moving() -> tuple[paths.State, paths.State, jax.Array]:
        prevalence, _ = paths.update(keys[4], state.prevalence, tables, beta=_GAMMA, **model.paths)
        topics, info = paths.update(keys[5], path, counts, beta=bases, **model.paths)
        return topics, prevalence, bases(info.base_tables)

    def static() -> tuple[paths.State, paths.State, jax.Array]:
        beta = bases(counts.sum(axis=1))
        prevalence = _together(keys[4], state.prevalence, tables, _GAMMA)
        return _together(keys[5], path, counts, beta), prevalence, beta

    if model.static:
        topics, prevalence, beta = lax.cond(state.step < model.static, static, moving)
    else:
        topics, prevalence, beta = moving()
    alpha = _alpha(total, prevalence)
    labels, new = _sweep(
        model,
        keys[7],
        topics.position,
        alpha,
        own,
        layout,
        state.labels,
        state.counts,
    )
    moved = State(
        topics.position,
        state.step + 1,
        topics.base,
        topics.concentration,
        topics.pace,
        prevalence,
        total,
        beta,
        own,
        labels,
        new,
    )
    return moved, Info(engines.totals(new).T)


def _together(key: jax.Array, path: paths.State, counts: jax.Array, beta: ArrayLike) -> paths.State:
    """Draw the base given the counts of all slices, [..., T, V], and make all slices equal."""
    base = draws.log_dirichlet(key, beta + counts.sum(axis=-2))
    position = jnp.broadcast_to(base[..., None, :], path.position.shape)
    return path._replace(position=position, base=base, step=path.step + 1)


def _tables(
    model: Model, key: jax.Array, alpha: jax.Array, layout: Layout, state: State
) -> tuple[jax.Array, jax.Array]:
    """Draw the tables of each topic in each slice, [T, K], and the sum of log x."""
    key_tables, key_x = jax.random.split(key)
    topics = alpha.shape[1]

    def of_slice(inputs: tuple[jax.Array, jax.Array]) -> jax.Array:
        t, key = inputs
        documents = layout.slice(t)
        if model.engine == "native":
            return calls.tables(key, alpha[t], documents, state.labels).astype(alpha.dtype)
        counts = engines.count_labels(state.labels, documents, topics)
        return draws.crt(key, alpha[t][:, None], counts).sum(axis=1)

    number = lax.iota(jnp.int32, alpha.shape[0])
    tables = lax.map(of_slice, (number, jax.random.split(key_tables, alpha.shape[0])))
    log_x = concentrations.log_beta(key_x, state.total, layout.lengths.ravel())
    return tables, jnp.sum(log_x)


def _own_topics(
    model: Model, key: jax.Array, layout: Layout, state: State
) -> tuple[jax.Array, jax.Array]:
    """Return m, and the counts of the paths of the topics, [K, T, V]."""
    dtype = state.position.dtype
    if model.own is None:
        return state.own, state.counts.astype(dtype)
    key_tables, key_own = jax.random.split(key)
    tables, ranks = engines.word_tables(
        key_tables,
        state.position,
        state.own,
        Documents(*layout),
        state.labels,
        model.longest,
        engine=model.engine,
    )
    counts = tables.astype(dtype)
    if not model.learn_own:
        return state.own, counts
    number = jnp.sum(tables, dtype=jnp.int32)
    return _move_own(key_own, state.own, number, ranks), counts


def _move_own(key: jax.Array, own: jax.Array, tables: jax.Array, ranks: jax.Array) -> jax.Array:
    """Draw m by Metropolis moves, given the number of tables and the tokens of each rank.

    The density of m is m^tables prod_j (m + j)^-ranks_j times its prior.
    """
    key_length, key_move, key_accept = jax.random.split(key, 3)
    longest = np.log(_LONGEST / _SHORTEST)
    lengths = _SHORTEST * jnp.exp(longest * jax.random.uniform(key_length, (_MOVES,), own.dtype))
    steps = lengths * jax.random.normal(key_move, (_MOVES,), own.dtype)
    limits = -jax.random.exponential(key_accept, (_MOVES,), own.dtype)
    rank = jnp.arange(ranks.shape[0], dtype=own.dtype)
    excess = tables - jnp.sum(ranks)  # of whole numbers, whose difference may be small
    ranks = ranks.astype(own.dtype)

    def log_prior(m: jax.Array) -> jax.Array:  # of log m: m^-1/2 is half-Cauchy
        return 0.5 * jnp.log(m) - jnp.log(m + _OWN_DEVIATION**-2)

    def move(m: jax.Array, given: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        step, limit = given
        new = m * jnp.exp(step)
        # log(new / m) and log((1 + j / new) / (1 + j / m)), without differences of large numbers;
        # both of `new` as rounded, since they are multiplied by numbers of tokens.
        step = jnp.log1p((new - m) / m)
        change = jnp.log1p(rank * (m - new) / (new * (m + rank)))
        ratio = excess * step - jnp.sum(ranks * change) + log_prior(new) - log_prior(m)
        inside = (new > OWN_RANGE[0]) & (new < OWN_RANGE[1])
        return jnp.where(inside & (limit < ratio), new, m), None

    return lax.scan(move, own, (steps, limits))[0]


def _sweep(
    model: Model,
    key: jax.Array,
    position: jax.Array,
    alpha: jax.Array,
    own: jax.Array,
    layout: Layout,
    labels: jax.Array,
    counts: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Draw the labels of each slice with its topics and prevalence, and update the counts."""

    def of_slice(loop: tuple[jax.Array, jax.Array], inputs: tuple[jax.Array, jax.Array]) -> Any:
        labels, counts = loop
        t, key = inputs
        bursts = None if model.own is None else engines.bursts_of(own, position[:, t])
        swept = engines.sweeps(
            key,
            position[:, t],
            alpha[t],
            layout.slice(t),
            labels,
            counts[:, t],
            times=1,
            count="changes",
            engine=model.engine,
            bursts=bursts,
        )
        return (swept.labels, counts.at[:, t].set(swept.words)), None

    number = lax.iota(jnp.int32, alpha.shape[0])
    keys = jax.random.split(key, alpha.shape[0])
    return lax.scan(of_slice, (labels, counts), (number, keys))[0]


class Repeats(NamedTuple):
    """Observed tokens of words that are targets in the same document, by slice."""

    tokens: jax.Array  # the token, int32 [T, n]
    documents: jax.Array  # its document's place in the slice, int32 [T, n]
    entries: jax.Array  # its target's place in the slice; beyond the last to fill up


class Halves(NamedTuple):
    """A `Completion` whose arrays have a leading axis of slices, but for the tokens."""

    observed: DeviceCorpus
    words: jax.Array
    documents: jax.Array
    counts: jax.Array
    repeats: Repeats


def completion(heldout: HeldOut, slices: int) -> Halves:
    """Return held-out documents for `log_predictive`."""
    place = np.asarray(heldout.place)
    observed = lay_out(heldout.observed, place, slices)
    column = np.empty(len(place), np.int64)
    order = np.lexsort((np.asarray(heldout.observed.sum(axis=1), np.int64), place))
    column[order] = _columns(place[order], slices)[1]
    target = sp.coo_array(heldout.target)
    rows, words = target.coords
    by_slice = np.argsort(place[rows], kind="stable")
    rows, words, number = rows[by_slice], words[by_slice], target.data[by_slice]
    sizes, own = _columns(place[rows], slices)
    table = np.zeros((3, slices, max(int(sizes.max(initial=0)), 1)), np.int32)
    table[:, place[rows], own] = words, column[rows], number
    ends = observed.starts[:, -1:] + observed.lengths[:, -1:]
    entry = sp.csr_array((own + 1, (rows, words)), shape=target.shape)
    tokens = np.asarray(observed.tokens)
    documents = np.repeat(order, np.asarray(heldout.observed.sum(axis=1), np.int64)[order])
    found = np.asarray(entry[documents, tokens[: len(documents)]]).ravel() - 1
    kept = np.flatnonzero(found >= 0)
    sizes, own = _columns(place[documents[kept]], slices)
    repeats = np.zeros((3, slices, max(int(sizes.max(initial=0)), 1)), np.int32)
    repeats[2] = table.shape[2]
    at = place[documents[kept]], own
    repeats[:, *at] = kept, column[documents[kept]], found[kept]
    starts = jnp.concatenate([observed.starts, ends], axis=1)
    return Halves(
        DeviceCorpus(observed.tokens, starts, observed.ids),
        jnp.asarray(table[0]),
        jnp.asarray(table[1]),
        jnp.asarray(table[2].astype(np.float32)),
        Repeats(*map(jnp.asarray, repeats)),
    )


@functools.partial(jax.jit, static_argnames="engine")
def log_predictive(
    key: jax.Array,
    log_topics: jax.Array,
    concentrations: tuple[jax.Array, jax.Array | None],
    data: Halves,
    *,
    engine: str | None = None,
) -> jax.Array:
    """Return log p(w | d) of the target entries of each slice, [T n], as for LDA.

    Topics are [K, T, V]; concentrations are those of proportions, [T, K], and m of a document's own
    topics, or None: documents have the topics of their slice. With own topics, a word is likelier
    if it occurs in the observed half. Entries that fill up slices have the count 0.
    """
    alpha, own = concentrations
    tokens, starts, order = data.observed

    def of_slice(t: jax.Array) -> jax.Array:
        arrays = (x[t] for x in (data.words, data.documents, data.counts))
        part = Completion(DeviceCorpus(tokens, starts[t], order[t]), *arrays)
        given = jax.random.fold_in(key, t), log_topics[:, t], alpha[t]
        if own is None:
            return evaluation.log_predictive(*given, part, engine=engine)
        repeats = Repeats(*(x[t] for x in data.repeats))
        return _with_bursts(*given, own, part, repeats, engine)

    return lax.map(of_slice, lax.iota(jnp.int32, alpha.shape[0])).ravel()


def _with_bursts(
    key: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    own: jax.Array,
    data: Completion,
    repeats: Repeats,
    engine: str | None,
) -> jax.Array:
    """Return log p(w | d) of target entries, [n], the mean over sweeps of the predictive.

    Given labels, p(w | d) = sum_k theta_dk (m phi_kw + n_dkw) / (m + n_dk).
    """
    documents = device.select(data.observed, lax.iota(jnp.int32, data.observed.starts.shape[0] - 1))
    bursts = engines.bursts_of(own, log_topics)
    engine = engines.resolve(engine, len(alpha), bursts=True)
    likelihood = engines.lay_out(log_topics, engine=engine)
    token, document, entry = repeats

    def sweep(labels: jax.Array | None, key: jax.Array) -> engines.SweepResult:
        return engines.sweeps(
            key,
            None,
            alpha,
            documents,
            labels,
            likelihood=likelihood,
            times=1,
            tally=True,
            engine=engine,
            bursts=bursts,
        )

    def add(loop: tuple[jax.Array, ...], inputs: tuple[jax.Array, jax.Array]) -> Any:
        labels, shares, repeated = loop
        key, counted = inputs
        swept = sweep(labels, key)
        theta = alpha[:, None] + swept.documents
        # theta_dk / (m + n_dk), by which m phi_kw and each of the n_dkw tokens are multiplied.
        share = counted * theta / jnp.sum(theta, axis=0) / (own + swept.documents)
        of_token = share[swept.labels[token].astype(jnp.int32), document]
        return (swept.labels, shares + share, repeated.at[entry].add(of_token, mode="drop")), None

    keys = jax.random.split(key, evaluation.SWEEPS + 1)
    labels = sweep(None, keys[-1]).labels
    counted = jnp.arange(evaluation.SWEEPS) >= evaluation.BURN_IN
    shares = jnp.zeros((len(alpha), len(documents.lengths)))
    start = labels, shares, jnp.zeros(data.words.shape[0])
    _, shares, repeated = lax.scan(add, start, (keys[:-1], counted))[0]
    # Apart, since a word of the document may be impossible in all topics, or almost.
    by_topics = evaluation.log_mixture(own * shares, log_topics, data.words, data.documents)
    log_p = jnp.logaddexp(by_topics, jnp.log(repeated))
    return log_p - np.log(evaluation.SWEEPS - evaluation.BURN_IN)
