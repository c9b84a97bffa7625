"""Sweeps over documents by the native libraries."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src.corpus.device import Documents
from simplex_jax._src.draws import bits
from simplex_jax._src.models.topics.native import library

_LANES = 16
COUNT = {"nothing": 0, "changes": 1, "labels": 2}
KINDS = {"dense": 1, "sparse": 2, "integer": 3}

# Smallest and largest numbers of topics for which integer weights are the fastest.
_WHOLE = (192, 4096)
_GROUP = 64  # topics in a group of integers, as in task.h


def kind_for(num_topics: int) -> str:
    """Return the fastest kind of `sweep` for a number of topics.

    It does not depend on the documents: a device has different ones with another number of devices,
    and kinds draw different labels. Up to 191 topics "dense" is the fastest for short documents
    too. GPUs have only "dense".
    """
    if library.platform() == "cuda":
        return "dense"
    least, most = _WHOLE
    return "dense" if num_topics < least else "integer" if num_topics <= most else "sparse"


def table_bytes(num_topics: int, num_words: int) -> int:
    """Return the bytes of the tables that a sweep computes from the topics outside XLA."""
    if (kind := kind_for(num_topics)) == "dense":
        return 0
    if kind == "integer":
        return 2 * _GROUP * -(-num_topics // _GROUP) * num_words  # levels
    # Bounds, and running sums over the rows of a word.
    return (_LANES + 4) * -(-num_topics // _LANES) * num_words


def _call(name: str, results, *, prefix: str | None = None, aliases=None):
    return library.LIBRARY.call(
        name, results, vmap_method="sequential", prefix=prefix, aliases=aliases
    )


def lay_out(log_topics: jax.Array, *, width: int = 16, prefix: str | None = None) -> jax.Array:
    """Return the likelihood of topics [K, V] as rows of words, float32 [V, 16 * rows].

    For finite numbers and -inf it equals `engine.likelihood_of` up to rounding, padded with zeros.
    For `width` see `sweep`.
    """
    num_topics, num_words = log_topics.shape
    padded = _LANES * -(-num_topics // _LANES)
    result = jax.ShapeDtypeStruct((num_words, padded), jnp.float32)
    return _call("lay_out", result, prefix=prefix)(
        log_topics.astype(jnp.float32), width=np.int64(width)
    )


def sweep(
    keys: jax.Array,
    weights: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
    words: jax.Array,
    *,
    burn_in: int,
    count: str,
    tally: bool,
    kind: str | None = None,
    bursts: Any = None,
    width: int = 16,
    prefix: str | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sweep over documents, see `engine.sweeps`; `words` [0, 0] stand for zeros, without an array.

    There is a key for each sweep, [S]; weights are from `lay_out`, labels uint8 or uint16. `kind`
    "dense" weighs all topics for a token; "sparse" weighs the topics of its document and, all at
    once, the rest; "integer" weighs all topics in integers, for documents of up to some 30,000
    tokens (longer ones use another kind). The default is `kind_for`; GPUs always use "dense". A
    word or a document out of range raises an error on CPUs, and ends the program on GPUs. `width`
    is the number of lanes of a CPU's widest vectors: for tests, since no result depends on it.
    Counts in documents are int32 [B, K], or [0, K]. With `bursts`, see `engine.Bursts`, the kind is
    "dense".
    """
    num_documents, num_topics = documents.lengths.shape[0], alpha.shape[0]
    counted = words.shape
    if new := words.size == 0 and count != "nothing":
        counted = (num_topics, weights.shape[0])
    results = (
        jax.ShapeDtypeStruct(labels.shape, labels.dtype),
        jax.ShapeDtypeStruct(counted, jnp.int32),
        jax.ShapeDtypeStruct((num_documents if tally else 0, num_topics), jnp.int32),
    )
    given: tuple[jax.Array, ...] = ()
    how = {"kind": np.int64(KINDS[kind or kind_for(num_topics)])}
    if bursts is not None:
        given, how = (bursts.scales, bursts.own.reshape(1)), {}
    first = len(given) + 7
    aliases = {first: 0} if new else {first: 0, first + 1: 1}
    name = "sweep" if bursts is None else "sweep_bursts"
    return _call(name, results, prefix=prefix, aliases=aliases)(
        *given,
        jax.vmap(bits.key_words)(keys),
        weights,
        alpha.astype(jnp.float32),
        *_fields(documents),
        labels,
        words,
        burn_in=np.int64(burn_in),
        count=np.int64(COUNT[count]),
        width=np.int64(width),
        **how,
    )


def tables(
    key: jax.Array,
    concentration: jax.Array,
    documents: Documents,
    labels: jax.Array,
    *,
    width: int = 16,
    prefix: str | None = None,
) -> jax.Array:
    """Draw the tables of each topic in all documents, int32 [K], given concentrations [K].

    A topic with n tokens in a document has CRT(c, n) tables there, see `draws.crt`. The random
    number of a token depends on the number of its document and its place there. For `width` see
    `sweep`.
    """
    result = jax.ShapeDtypeStruct(concentration.shape, jnp.int32)
    return _call("tables", result, prefix=prefix)(
        bits.key_words(key),
        concentration.astype(jnp.float32),
        labels,
        documents.starts,
        documents.lengths,
        _ids(documents),
        width=np.int64(width),
    )


def word_tables(
    key: jax.Array,
    log_topics: jax.Array,
    own: jax.Array,
    documents: Documents,
    labels: jax.Array,
    ranks: int,
    *,
    width: int = 16,
    prefix: str | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Draw tables, and count tokens by rank, see `engine.word_tables`; documents are [T B]."""
    results = (
        jax.ShapeDtypeStruct(log_topics.shape, jnp.int32),
        jax.ShapeDtypeStruct((ranks,), jnp.int32),
    )
    return _call("word_tables", results, prefix=prefix)(
        bits.key_words(key),
        log_topics.astype(jnp.float32),
        own.astype(jnp.float32).reshape(1),
        *_fields(documents),
        labels,
        width=np.int64(width),
    )


def _fields(documents: Documents) -> tuple[jax.Array, ...]:
    return documents.tokens, documents.starts, documents.lengths, _ids(documents)


def _ids(documents: Documents) -> jax.Array:
    ids = documents.ids
    number = documents.lengths.shape[0]
    return (jnp.arange(number) if ids is None else ids).astype(jnp.uint32)


def totals(words: jax.Array, *, prefix: str | None = None) -> jax.Array:
    """Return the tokens of each topic, float32 [..., K], see `engine.totals`."""
    result = jax.ShapeDtypeStruct(words.shape[:-1], jnp.float32)
    return _call("totals", result, prefix=prefix)(words)
