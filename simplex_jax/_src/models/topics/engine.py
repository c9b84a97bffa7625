"""Topics of the tokens of documents, given topics: the local step of topic models.

A Gibbs sampler moves the labels of tokens, in one of two ways. A collapsed sweep integrates out
the topic proportions of a document and visits its tokens one after the other, all documents side by
side (Patterson and Teh 2013, equation 11): P(z = k) is proportional to (alpha_k + n_dk without this
token) times the word's probability under topic k. A blocked sweep draws the proportions and then
all tokens at once: it mixes more slowly and consists of few large operations.

A collapsed sweep has two engines. "native" is C++ that XLA calls on CPUs, and CUDA C++ on NVIDIA
GPUs, if the library was built; "xla" runs everywhere. Both draw a token with the same random
number, from its key, the number of its document and its place there. If all topics are weighed (see
`native.calls.sweep`; on GPUs, up to 192 topics), labels are the same up to rounding. Neither
threads nor devices change a draw.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from simplex_jax._src import draws
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import Documents, token_slots
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.bits import random_words
from simplex_jax._src.draws.categorical import choose
from simplex_jax._src.models.topics.native import calls, library

Sweep: TypeAlias = Callable[[jax.Array, jax.Array, jax.Array, Documents, jax.Array], jax.Array]
"""`(key, likelihood, alpha, documents, labels) -> labels`.

`likelihood` [K, V] holds the topics up to a factor for each word, see `likelihood_of`, and `alpha`
[K] the concentrations of the topic proportions. Labels [T] cover all tokens of the corpus, with K
for none yet; a sweep moves the labels of the documents.
"""


def label_dtype(num_topics: int) -> np.dtype:
    """Return the smallest unsigned type that holds the topics 0..K-1, and K for none."""
    return np.min_scalar_type(num_topics)


def no_labels(num_tokens: int, num_topics: int) -> jax.Array:
    """Return labels [T] without any topic assigned."""
    return jnp.full(num_tokens, num_topics, label_dtype(num_topics))


def likelihood_of(log_topics: jax.Array) -> jax.Array:
    """Return topics [K, V] as probabilities relative to the likeliest topic of each word.

    Assignments depend on the topics only up to a factor for each word. This factor keeps a word
    that is improbable under all topics from underflowing in all of them. A word that is impossible
    under all topics gets the same likelihood in each.
    """
    peak = jnp.max(log_topics, axis=0)
    return jnp.where(jnp.isneginf(peak), 1, jnp.exp(log_topics - peak))


class Bursts(NamedTuple):
    """Topics of a document's own, Dirichlet(m phi_k) around those given: words come in bursts.

    They are integrated out: with n tokens of topic k in the document, r of them of word w, the
    next is w with probability (m phi_kw + r) / (m + n) (Doyle and Elkan 2009, with one m).
    """

    own: jax.Array  # m
    scales: jax.Array  # 1 / m relative to the likelihood of each word, [V]


# Of words that are improbable in all topics; products of counts and scales are finite.
_MOST_SCALE = 1e20


def bursts_of(own: jax.Array, log_topics: jax.Array) -> Bursts:
    """Return the bursts of concentration m around topics [K, V]."""
    peak = jnp.max(log_topics, axis=0)
    log_scale = jnp.where(jnp.isneginf(peak), 0, -peak) - jnp.log(own)
    scales = jnp.exp(jnp.minimum(log_scale, np.log(_MOST_SCALE)))
    return Bursts(own.astype(jnp.float32), scales.astype(jnp.float32))


def count_labels(labels: jax.Array, documents: Documents, num_topics: int) -> jax.Array:
    """Count the labels of each document, float32 [K, B]; labels that are not topics are dropped."""
    total = jnp.sum(documents.lengths)
    step = device.chunk(labels.shape[0])

    def chunk(state):
        first, counts = state
        place, document = token_slots(documents, first, step)
        label = labels.at[place].get(mode="fill", fill_value=num_topics).astype(jnp.int32)
        return first + step, counts.at[label, document].add(1, mode="drop")

    start = (jnp.int32(0), jnp.zeros((num_topics, documents.lengths.shape[0]), jnp.float32))
    return lax.while_loop(lambda state: state[0] < total, chunk, start)[1]


def count_words(
    labels: jax.Array, documents: Documents, words: jax.Array, before: jax.Array | None = None
) -> jax.Array:
    """Return topic-word counts [K, V] with the labels of documents added.

    The labels `before`, if given, are subtracted.
    """
    total = jnp.sum(documents.lengths)
    step = device.chunk(labels.shape[0])
    num_topics = words.shape[0]

    def chunk(loop):
        first, words = loop
        place, _ = token_slots(documents, first, step)
        word = documents.tokens.at[place].get(mode="clip")
        new = labels.at[place].get(mode="fill", fill_value=num_topics)
        if before is not None:
            old = before.at[place].get(mode="fill", fill_value=num_topics)
            # Most labels stay the same: a dropped update costs no memory access.
            moved = new != old
            words = words.at[jnp.where(moved, old, num_topics), word].add(-1, mode="drop")
            new = jnp.where(moved, new, num_topics)
        return first + step, words.at[new, word].add(1, mode="drop")

    return lax.while_loop(lambda loop: loop[0] < total, chunk, (jnp.int32(0), words))[1]


# Smallest proportion relative to the largest: no token goes to a smaller one, and its product with
# the smallest likelihood is still a float32.
_SMALLEST = 1e-18
# Most weights of tokens and topics computed at once: a gigabyte for each array of them.
_MOST_WEIGHTS = 2**28


def sweep_blocked(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
) -> jax.Array:
    """Draw topic proportions given labels, then all labels given proportions: a `Sweep`."""
    return sweep_expected(key, likelihood, alpha, documents, labels, None)[0]


def sweep_expected(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
    words: jax.Array | None,
) -> tuple[jax.Array, Any]:
    """Sweep as `blocked` does, and add the probabilities of the labels to `words` [K, V].

    These expected counts have less noise than counts of labels (Rao-Blackwell).
    """
    num_topics = likelihood.shape[0]
    key_theta, key_labels = jax.random.split(key)
    counts = count_labels(labels, documents, num_topics)
    log_theta = draws.loggamma(key_theta, alpha[:, None] + counts)
    theta = jnp.maximum(jnp.exp(log_theta - jnp.max(log_theta, axis=0)), _SMALLEST)
    total = jnp.sum(documents.lengths)
    step = min(
        device.chunk(documents.tokens.shape[0]), max(device.CHUNK, _MOST_WEIGHTS // num_topics)
    )

    def chunk(loop):
        first, labels, words = loop
        place, document = token_slots(documents, first, step)
        active = place < documents.tokens.shape[0]
        word = documents.tokens.at[place].get(mode="clip")
        weights = theta[:, document] * likelihood[:, word]
        bits, _ = random_words(key_labels, step, weights.dtype, row=first)
        new = choose(weights, uniform.uniform(bits, weights.dtype))
        labels = labels.at[place].set(new.astype(labels.dtype), mode="drop")
        if words is not None:
            added = jnp.where(active, weights / jnp.sum(weights, axis=0), 0)
            words = words.at[:, word].add(added)
        return first + step, labels, words

    start = (jnp.int32(0), labels, words)
    return lax.while_loop(lambda loop: loop[0] < total, chunk, start)[1:]


# Topics are stored in rows of 16. A topic is drawn in two steps: first its place in the row, from
# sums over the rows, then its row.
ROW = 16
# Numbers processed at once: enough to amortise the overhead of an operation, few enough for a
# core's cache. Accelerators need more.
_ROOM, _ROOM_ELSEWHERE = 1 << 17, 1 << 25
_NARROWEST = 8
# Each narrowing compiles one more loop; at least one in this number of the running lanes has a
# token.
_NARROWING = 4


def rows_of(likelihood: jax.Array) -> jax.Array:
    """Return a likelihood [K, V] as rows of words, float32 [V, K'], zero-padded to full rows."""
    padding = -likelihood.shape[0] % ROW
    return jnp.pad(likelihood.astype(jnp.float32).T, ((0, 0), (0, padding)))


def sweep_collapsed(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
    bursts: Bursts | None = None,
) -> jax.Array:
    """Sweep over the tokens of each document in turn, with topic proportions integrated out.

    A `Sweep`. With bursts, equal words of a document must be side by side. A token without a label
    gets one from its conditional given the labels before it. The random number of a token depends
    only on the key, on `documents.ids` and on its place in its document, not on the other documents
    in the batch.
    """
    weights = rows_of(likelihood)
    num_topics, batch_size = alpha.shape[0], documents.lengths.shape[0]
    prior = jnp.pad(alpha.astype(jnp.float32), (0, weights.shape[1] - num_topics))
    room = _ROOM if jax.default_backend() == "cpu" else _ROOM_ELSEWHERE
    width = min(max(_NARROWEST, room // weights.shape[1]), _rounded(batch_size))
    lanes = -(-batch_size // width) * width
    # Padding lanes are empty documents and come first.
    order = jnp.pad(
        jnp.argsort(documents.lengths), (lanes - batch_size, 0), constant_values=batch_size
    )
    ids = lax.iota(jnp.int32, batch_size) if documents.ids is None else documents.ids
    in_order = (
        documents.starts.at[order].get(mode="clip"),
        documents.lengths.at[order].get(mode="fill", fill_value=0),
        ids.at[order].get(mode="clip"),
    )

    def block(i: jax.Array, labels: jax.Array) -> jax.Array:
        cut = (lax.dynamic_slice_in_dim(x, i * width, width) for x in in_order)
        side_by_side = Documents(documents.tokens, *cut)
        return _block(key, weights, prior, num_topics, side_by_side, labels, bursts)

    return lax.fori_loop(0, lanes // width, block, labels)


def _rounded(batch_size: int) -> int:
    return -(-batch_size // _NARROWEST) * _NARROWEST


def _block(
    key: jax.Array,
    weights: jax.Array,
    alpha: jax.Array,
    num_topics: int,
    documents: Documents,
    labels: jax.Array,
    bursts: Bursts | None,
) -> jax.Array:
    """Sweep over documents sorted by length, in fewer lanes after most have ended."""
    counts = count_labels(labels, documents, alpha.shape[0]).T
    repeats = None if bursts is None else jnp.zeros_like(counts)
    first: jax.Array | int = 0
    while True:
        width = documents.lengths.shape[0]
        narrow = _rounded(width // _NARROWING)
        last_stage = narrow >= width
        last = documents.lengths[-1] if last_stage else documents.lengths[width - narrow - 1]
        labels, counts, repeats = _positions(
            key, weights, alpha, num_topics, documents, labels, counts, first, last, bursts, repeats
        )
        if last_stage:
            return labels
        cut = (x[width - narrow :] for x in documents[1:] if x is not None)
        documents, counts = Documents(documents.tokens, *cut), counts[width - narrow :]
        repeats = None if repeats is None else repeats[width - narrow :]
        first = last


def _positions(
    key: jax.Array,
    weights: jax.Array,
    alpha: jax.Array,
    num_topics: int,
    documents: Documents,
    labels: jax.Array,
    counts: jax.Array,
    first: jax.Array | int,
    last: jax.Array,
    bursts: Bursts | None,
    repeats: jax.Array | None,
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Draw the tokens at positions first..last-1 of all documents, one position after the other.

    `repeats` are the counts of the labels of a document's tokens of the word at the position.
    """
    num_tokens = documents.tokens.shape[0]
    lane = lax.iota(jnp.int32, documents.lengths.shape[0])
    dtype = jnp.dtype(jnp.float32)

    def runs(
        labels: jax.Array, place: jax.Array, word: jax.Array, inside: jax.Array, repeats: jax.Array
    ) -> jax.Array:
        """Return the repeats of the words, counted anew where a word begins."""
        before = documents.tokens.at[place - 1].get(mode="clip")
        begins = inside & ((place == documents.starts) | (word != before))
        ends = documents.starts + documents.lengths

        def active(i: jax.Array) -> jax.Array:
            same = documents.tokens.at[place + i].get(mode="clip") == word
            return begins & (place + i < ends) & same

        def add(loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            i, repeats = loop
            label = labels.at[place + i].get(mode="fill", fill_value=num_topics).astype(jnp.int32)
            counted = active(i) & (label < num_topics)
            label = jnp.minimum(label, num_topics - 1)
            return i + 1, repeats.at[lane, label].add(counted.astype(dtype))

        repeats = jnp.where(begins[:, None], 0, repeats)
        start = (jnp.int32(0), repeats)
        return lax.while_loop(lambda loop: jnp.any(active(loop[0])), add, start)[1]

    def position(loop):
        number, labels, counts, repeats = loop
        inside = number < documents.lengths
        place = jnp.where(inside, documents.starts + number, num_tokens)
        word = documents.tokens.at[place].get(mode="clip")
        old = labels.at[place].get(mode="fill", fill_value=num_topics).astype(jnp.int32)
        labelled = (inside & (old < num_topics)).astype(dtype)
        counts = counts.at[lane, jnp.minimum(old, num_topics - 1)].add(-labelled)
        bits, _ = random_words(key, lane.shape[0], dtype, row=number, columns=documents.ids)
        weight, mass = weights.at[word].get(mode="promise_in_bounds"), counts + alpha
        if bursts is not None:
            repeats = runs(labels, place, word, inside, repeats)
            repeats = repeats.at[lane, jnp.minimum(old, num_topics - 1)].add(-labelled)
            weight += bursts.scales[word][:, None] * repeats
            mass /= counts + bursts.own
        new = _draw(mass * weight, uniform.uniform(bits, dtype))
        counts = counts.at[lane, new].add(inside.astype(dtype))
        if bursts is not None:
            repeats = repeats.at[lane, new].add(inside.astype(dtype))
        labels = labels.at[place].set(new.astype(labels.dtype), mode="drop")
        return number + 1, labels, counts, repeats

    start = (jnp.int32(first), labels, counts, repeats)
    return lax.while_loop(lambda loop: loop[0] < last, position, start)[1:]


def _draw(mass: jax.Array, u: jax.Array) -> jax.Array:
    """Return topics in proportion to their masses [n, K'], int32 [n], by uniforms in (0, 1)."""
    mass = mass.reshape(mass.shape[0], -1, ROW)
    sums = lax.optimization_barrier(mass.sum(axis=1).T)
    before = [jnp.zeros_like(u)]
    for row in sums:
        before.append(before[-1] + row)
    threshold = u * before.pop()
    place, before_it = jnp.zeros_like(u, jnp.int32), jnp.zeros_like(u)
    for j in range(ROW):
        # The last place with mass that starts by the threshold: valid despite rounding.
        at_threshold = (before[j] <= threshold) & (sums[j] > 0)
        place = jnp.where(at_threshold, j, place)
        before_it = jnp.where(at_threshold, before[j], before_it)
    column = jnp.take_along_axis(mass, place[:, None, None], axis=2)[:, :, 0]
    begun = jnp.cumsum(column, axis=1) - column <= (threshold - before_it)[:, None]
    number = lax.broadcasted_iota(jnp.int32, column.shape, 1)
    return ROW * jnp.max(jnp.where(begun & (column > 0), number, 0), axis=1) + place


METHODS: dict[str, Sweep] = {"blocked": sweep_blocked, "collapsed": sweep_collapsed}
ENGINES = ("native", "xla")
_BEGINNING = 1_000.0  # least sum of the concentrations when labels are initialised


class SweepResult(NamedTuple):
    """Results of sweeps."""

    labels: jax.Array  # topic of every token of the corpus, in the shape of the input
    words: jax.Array  # tokens of each topic and word, int32 [K, V]; empty if nothing is counted
    # Tokens of each topic in each document, summed over the sweeps after the burn-in, float32 [K,
    # B]; empty unless requested.
    documents: jax.Array


def resolve(engine: str | None = None, num_topics: int = 1, *, bursts: bool = False) -> str:
    """Return an engine that works here: by default, "native" if its library was built.

    An unknown engine, or one that does not work here or with this many topics, raises a ValueError.
    With `bursts` GPUs have "xla" only.
    """
    if engine not in (None, *ENGINES):
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}; it is {engine!r}")
    if engine is None and not library.works():
        library.warn()
        return "xla"
    if engine == "xla":
        return "xla"
    if not library.works():
        raise ValueError(f"engine 'native' does not work here: {library.why_not()}; use 'xla'")
    most = library.most_topics()
    if engine == "native" and num_topics > most:
        raise ValueError(
            f"engine 'native' supports at most {most:,} topics here; num_topics is {num_topics:,}: "
            "use 'xla'"
        )
    if num_topics > most or (bursts and library.platform() == "cuda"):
        return "xla"
    return "native"


def described(engine: str, method: str = "collapsed") -> str:
    """Describe the engine of sweeps, and why it is not native if the library is missing.

    Example:
        >>> described("native"), described("native", "blocked")
        ('native engine', 'blocked sweeps by XLA')
    """
    if method == "blocked":
        return "blocked sweeps by XLA"
    return f"{engine} engine" + ("" if library.works() else f" ({library.why_not()})")


def totals(words: jax.Array) -> jax.Array:
    """Return the tokens of each topic, float [..., K], from topic-word counts, [..., K, V].

    A topic may have more than 2^31 tokens, though none of its words has. XLA therefore sums the
    lowest eight bits and the others separately, which is exact until both are rounded.
    """

    def by_xla(words: jax.Array) -> jax.Array:
        low = (words & 255).sum(axis=-1, dtype=jnp.uint32)
        high = (words >> 8).sum(axis=-1, dtype=jnp.uint32)
        return 256 * high.astype(float) + low.astype(float)

    if jnp.result_type(float) != jnp.float32:
        return by_xla(words)
    return library.LIBRARY.lowered("totals", calls.totals, by_xla, words)


def word_tables(
    key: jax.Array,
    log_topics: jax.Array,
    own: jax.Array,
    documents: Documents,
    labels: jax.Array,
    ranks: int,
    *,
    engine: str,
) -> tuple[jax.Array, jax.Array]:
    """Draw the tables of each word in the topics of documents of their own, see `Bursts`.

    Args:
        key: Random key.
        log_topics: Topics of each slice, [K, T, V].
        own: Concentration m.
        documents: Documents by slice, [T, B] each, with equal words side by side.
        labels: Topic of every token; K for none.
        ranks: A number not below the tokens of the longest document.
        engine: "native" or "xla".

    Returns:
        Tables, CRT(m phi, r) for r tokens of a word with a topic in a document, summed over the
        documents of a slice: given these, topics have a Dirichlet prior's counts, int32 [K, T, V].
        And the number of tokens that follow j others of their topic in their document, int32
        [ranks], which m depends on.
    """
    shape, (slices, each) = log_topics.shape, documents.lengths.shape
    flat = Documents(documents.tokens, *(x.ravel() for x in documents[1:] if x is not None))
    if engine == "native" and library.platform() == "cpu":
        return calls.word_tables(key, log_topics, own, flat, labels, ranks)
    size = labels.shape[0]
    place, document = token_slots(flat, jnp.int32(0), size)
    word = flat.tokens.at[place].get(mode="clip")
    label = labels.at[place].get(mode="fill", fill_value=shape[0]).astype(jnp.int32)
    earlier, of_topic = _ranks(document, label, word), _ranks(document, label)
    t = jnp.minimum(document // each, slices - 1)
    at = jnp.minimum(label, shape[0] - 1), t, word
    c = own * jnp.exp(log_topics[at])
    bits, _ = random_words(key, size, c.dtype)
    sits = (earlier == 0) | (uniform.uniform(bits, c.dtype) * (c + earlier) < c)
    # Those of no document, and without a label, are dropped.
    label = jnp.where((place < size) & sits, label, shape[0])
    tables = jnp.zeros(shape, jnp.int32).at[label, t, word].add(1, mode="drop")
    valid = (place < size) & (labels.at[place].get(mode="fill", fill_value=shape[0]) < shape[0])
    of_topic = jnp.where(valid, of_topic, ranks)
    return tables, jnp.zeros(ranks, jnp.int32).at[of_topic].add(1, mode="drop")


def _ranks(*keys: jax.Array) -> jax.Array:
    """Return how many items before each have the same keys, int32 [n]."""
    number = lax.iota(jnp.int32, keys[0].shape[0])
    *ordered, order = lax.sort((*keys, number), num_keys=len(keys) + 1)
    changes = jnp.stack([jnp.diff(key, prepend=key[:1] - 1) != 0 for key in ordered])
    first = lax.cummax(jnp.where(changes.any(axis=0), number, 0))
    return jnp.zeros_like(number).at[order].set(number - first)


def lay_out(
    log_topics: jax.Array, *, method: str = "collapsed", engine: str | None = None
) -> jax.Array:
    """Return the likelihood of topics [K, V] in the form that `sweeps` reads."""
    if resolve(engine, log_topics.shape[0]) == "native" and method == "collapsed":
        return calls.lay_out(log_topics)
    return likelihood_of(log_topics)


def sweeps(
    key: jax.Array,
    log_topics: jax.Array | None,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array | None,
    words: jax.Array | None = None,
    *,
    likelihood: jax.Array | None = None,
    times: int,
    burn_in: int = 0,
    method: str = "collapsed",
    count: str = "nothing",
    tally: bool = False,
    engine: str | None = None,
    kind: str | None = None,
    bursts: Bursts | None = None,
) -> SweepResult:
    """Sweep over the tokens of distinct documents, given topics; label tokens without a label.

    Sweep i uses the key `fold_in(key, i)`. The logarithms of the topics, [K, V], matter only up to
    a constant for each word. To reuse topics in many calls, give `likelihood`, the result of
    `lay_out` with the same method and engine. `alpha` [K] and `labels`, [T] or [1, T], are as for
    `Sweep`; labels None are initialised (see `_begin`) before the first sweep. To `words`,
    int32 [K, V], by default zeros, `count` adds the "changes" of the labels by all sweeps, the
    "labels" after each sweep from the burn-in on, or "nothing". `tally` requests counts in
    documents. `kind` is as for `native.calls.sweep`, by default the fastest for K. Collapsed sweeps
    may have `bursts`, by XLA on GPUs, where equal words of a document must be side by side.
    """
    num_topics = alpha.shape[0]
    engine = resolve(engine, num_topics, bursts=bursts is not None)
    if bursts is not None and method != "collapsed":
        raise ValueError(f"sweeps with bursts are collapsed; method is {method!r}")
    if words is not None and count == "nothing":
        raise ValueError('words are given and count is "nothing": set count')
    if times < 1:
        raise ValueError(f"times must be at least 1; it is {times}")
    if likelihood is None:
        if log_topics is None:
            raise ValueError("give log_topics, or their likelihood")
        likelihood = lay_out(log_topics, method=method, engine=engine)
    if labels is None:
        labels = _begin(
            jax.random.fold_in(key, times),
            likelihood,
            alpha,
            documents,
            method=method,
            engine=engine,
            kind=kind,
            bursts=bursts,
        )
    if engine == "native" and method == "collapsed":
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(times))
        labels, words, in_documents = calls.sweep(
            keys,
            likelihood,
            alpha,
            documents,
            labels,
            jnp.zeros((0, 0), jnp.int32) if words is None else words,
            burn_in=burn_in,
            count=count,
            tally=tally,
            kind=kind,
            bursts=bursts,
        )
        return SweepResult(labels, words, in_documents.T.astype(jnp.float32))

    shape, labels = labels.shape, labels.ravel()
    if words is None:
        words = jnp.zeros((0, 0) if count == "nothing" else likelihood.shape, jnp.int32)

    def sweep(i, loop):
        labels, words, in_documents = loop
        move = METHODS[method] if bursts is None else partial(sweep_collapsed, bursts=bursts)
        new = move(jax.random.fold_in(key, i), likelihood, alpha, documents, labels)
        if count == "labels":
            added = count_words(new, documents, words)
            words = jnp.where(i < burn_in, words, added)
        if tally:
            counts = count_labels(new, documents, num_topics)
            in_documents += jnp.where(i < burn_in, 0, counts)
        return new, words, in_documents

    none = jnp.zeros((num_topics, documents.lengths.shape[0] if tally else 0), jnp.float32)
    new, words, in_documents = lax.fori_loop(0, times, sweep, (labels, words, none))
    if count == "changes":
        words = count_words(new, documents, words, before=labels)
    return SweepResult(new.reshape(shape), words, in_documents)


def _begin(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    **how: Any,
) -> jax.Array:
    """Initialise the labels of documents, [T], from their words, almost independently.

    In a sweep from no labels with the true concentrations, the first tokens are guesses and all
    others follow them, which takes many sweeps to forget. With this start, the largest proportion
    of a document is 0.3 to 0.7 times as far from its mean after six sweeps
    (`benchmarks/lda_shares.py`).
    """
    beginning = alpha * jnp.maximum(_BEGINNING / jnp.sum(alpha), 1)
    return sweeps(
        key,
        None,
        beginning,
        documents,
        no_labels(documents.tokens.shape[0], alpha.shape[0]),
        likelihood=likelihood,
        times=1,
        **how,
    ).labels
