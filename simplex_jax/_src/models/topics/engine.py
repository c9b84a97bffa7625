"""The local step of LDA: one operation with one law, and a lowering for each kind of machine.

"native" is C++ that XLA calls on CPUs, and CUDA C++ on NVIDIA GPUs, if the library was built; "xla"
runs everywhere. Both draw a token with the same random number, from its key, the number of its
document and its place there. If all topics are weighed (see `native.calls.sweep`; on GPUs, up to
192 topics), labels are the same up to rounding. Neither threads nor devices change a draw.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src.corpus.device import Documents
from simplex_jax._src.models.topics import local
from simplex_jax._src.models.topics.blocked import blocked
from simplex_jax._src.models.topics.collapsed import collapsed
from simplex_jax._src.models.topics.native import calls, library

METHODS: dict[str, local.Sweep] = {"blocked": blocked, "collapsed": collapsed}
ENGINES = ("native", "xla")
_BEGINNING = 1_000.0  # least sum of the concentrations when labels are initialised


class Swept(NamedTuple):
    """Results of sweeps."""

    labels: jax.Array  # topic of every token of the corpus, in the shape of the input
    words: jax.Array  # tokens of each topic and word, int32 [K, V]; empty if nothing is counted
    # Tokens of each topic in each document, summed over the sweeps after the burn-in, float32 [K,
    # B]; empty unless requested.
    documents: jax.Array


def resolve(engine: str | None = None, num_topics: int = 1) -> str:
    """Return an engine that works here: by default, "native" if its library was built.

    An unknown engine, or one that does not work here or with this many topics, raises a ValueError.
    """
    if engine not in (None, *ENGINES):
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}; it is {engine!r}")
    if engine == "xla" or (engine is None and not library.works()):
        return "xla"
    if not library.works():
        raise ValueError(f"engine 'native' does not work here: {library.why_not()}; use 'xla'")
    most = library.most_topics()
    if engine == "native" and num_topics > most:
        raise ValueError(
            f"engine 'native' supports at most {most:,} topics here; num_topics is {num_topics:,}: "
            "use 'xla'"
        )
    return "native" if num_topics <= most else "xla"


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


def lay_out(
    log_topics: jax.Array, *, method: str = "collapsed", engine: str | None = None
) -> jax.Array:
    """Return the likelihood of topics [K, V] in the form that `sweeps` reads."""
    if resolve(engine, log_topics.shape[0]) == "native" and method == "collapsed":
        return calls.lay_out(log_topics)
    return local.likelihood_of(log_topics)


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
) -> Swept:
    """Sweep over the tokens of distinct documents, given topics; label tokens without a label.

    Sweep i uses the key `fold_in(key, i)`. The logarithms of the topics, [K, V], matter only up to
    a constant for each word. To reuse topics in many calls, give `likelihood`, the result of
    `lay_out` with the same method and engine. `alpha` [K] and `labels`, [T] or [1, T], are as for
    `local.Sweep`; labels None are initialised (see `_begin`) before the first sweep. To `words`,
    int32 [K, V], by default zeros, `count` adds the "changes" of the labels by all sweeps, the
    "labels" after each sweep from the burn-in on, or "nothing". `tally` requests counts in
    documents. `kind` is as for `native.calls.sweep`, by default the fastest for K.
    """
    num_topics = alpha.shape[0]
    engine = resolve(engine, num_topics)
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
            jax.random.fold_in(key, times), likelihood, alpha, documents, method, engine, kind
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
        )
        return Swept(labels, words, in_documents.T.astype(jnp.float32))

    shape, labels = labels.shape, labels.ravel()
    if words is None:
        words = jnp.zeros((0, 0) if count == "nothing" else likelihood.shape, jnp.int32)

    def sweep(i, loop):
        labels, words, in_documents = loop
        move = METHODS[method]
        new = move(jax.random.fold_in(key, i), likelihood, alpha, documents, labels)
        if count == "labels":
            added = local.count_words(new, documents, words)
            words = jnp.where(i < burn_in, words, added)
        if tally:
            counts = local.count_labels(new, documents, num_topics)
            in_documents += jnp.where(i < burn_in, 0, counts)
        return new, words, in_documents

    none = jnp.zeros((num_topics, documents.lengths.shape[0] if tally else 0), jnp.float32)
    new, words, in_documents = lax.fori_loop(0, times, sweep, (labels, words, none))
    if count == "changes":
        words = local.count_words(new, documents, words, before=labels)
    return Swept(new.reshape(shape), words, in_documents)


def _begin(
    key: jax.Array,
    likelihood: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    method: str,
    engine: str,
    kind: str | None,
) -> jax.Array:
    """Initialise the labels of documents, [T], from their words, almost independently.

    In a sweep from no labels with the true concentrations, the first tokens are guesses and all
    others follow them, which takes many sweeps to forget. With this start, the largest share of a
    document is 0.3 to 0.7 times as far from its mean after six sweeps (`benchmarks/lda_shares.py`).
    """
    beginning = alpha * jnp.maximum(_BEGINNING / jnp.sum(alpha), 1)
    return sweeps(
        key,
        None,
        beginning,
        documents,
        local.no_labels(documents.tokens.shape[0], alpha.shape[0]),
        likelihood=likelihood,
        times=1,
        method=method,
        engine=engine,
        kind=kind,
    ).labels
