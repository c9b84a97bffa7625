"""Collapsed Gibbs sampling for LDA (Griffiths and Steyvers 2004)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from baselines import natural
from simplex_jax._src.base import Kernel, bind, static
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import CHUNK, DeviceCorpus
from simplex_jax._src.draws import uniform
from simplex_jax._src.draws.bits import random_words
from simplex_jax._src.geometry import simplex
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.models.lda.kernel import Config, Info, Memory, State
from simplex_jax._src.models.topics import engine

__all__ = ["Info", "State", "build"]

# Topics are padded to a multiple of this, which vectorises.
_WIDTH = 16


class Labels(NamedTuple):
    """What the sampler keeps: the `sampler` of the state.

    Attributes:
        memory: The topics of all tokens and their counts.
    """

    memory: Memory


class Sweep(NamedTuple):
    """What a sweep tells: the `sampler` of the info.

    Attributes:
        moved: Share of the tokens gone through whose topic changed.
    """

    moved: jax.Array


class Tables(NamedTuple):
    """Counts while tokens move, int32, padded to more than K topics; tokens without one are in K.

    Attributes:
        documents: Tokens of each document and topic, [B, topics].
        words: Tokens of each word and topic, [V, topics].
        topics: Tokens of each topic, [topics].
    """

    documents: jax.Array
    words: jax.Array
    topics: jax.Array


def build(
    corpus: DeviceCorpus,
    shape: tuple[int, int],
    *,
    alpha: ArrayLike = 0.1,
    beta: ArrayLike = 0.05,
    batch_size: int | None = None,
) -> tuple[Kernel, Stream]:
    r"""Return the kernel of collapsed Gibbs sampling for LDA, and its stream of documents.

    Topics and proportions are integrated out. Every token in turn takes a topic from

    .. math::
        P(z_{di} = k \mid z^{-di}) \propto (\alpha_k + n_{dk}^{-di})
            \frac{\beta_{kw} + n_{kw}^{-di}}{\sum_v (\beta_{kv} + n_{kv}^{-di})}

    with all counts kept up to date (Griffiths and Steyvers 2004, equation 5): an exact sampler of
    the posterior of the labels. A token without a label takes a first one given those before it.

    Tokens are gone through one after the other, at about a microsecond each on a CPU and 50 topics;
    an accelerator takes far longer. `models.lda` with memoised counts has the same posterior.

    Args:
        corpus: The corpus, `device.to_device(counts)`.
        shape: (K, V), numbers of topics and words.
        alpha: Concentration of topic proportions, per topic, a scalar or [K].
        beta: Concentration of topics, per word, a scalar, [V] or [K, V].
        batch_size: Documents an update; by default all of them, a sweep.

    Returns:
        A kernel whose `init` takes topics [K, V], which count until the first update only, and
        whose position is the logarithm of the mean topics given the labels, beta + n normalised;
        and a stream of blocks of documents, all of them once an epoch.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> import jax, jax.numpy as jnp, scipy.sparse as sp
        >>> from simplex_jax import run
        >>> from simplex_jax._src.corpus import device
        >>> from baselines import collapsed_gibbs
        >>> counts = sp.csr_array([[3, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 2]])
        >>> kernel, stream = collapsed_gibbs.build(device.to_device(counts), (2, 4))
        >>> state = kernel.init(jax.random.key(0), jnp.ones((2, 4)))
        >>> state, _ = run(jax.random.key(1), kernel, state, stream, num_steps=50)
        >>> int(state.sampler.memory.counts.sum())
        20
    """
    shape = natural.check_shape(shape, corpus)
    config = lda.configure(shape, alpha=alpha, beta=beta)
    documents = device.size(corpus)
    batch_size = lda.check_batch_size(documents if batch_size is None else batch_size, documents)
    kernel = Kernel(
        init=bind(static(_init, shape=shape), corpus, config), update=bind(_update, corpus)
    )
    return kernel, device.block_stream(documents, batch_size)


def _init(
    corpus: DeviceCorpus,
    config: Config,
    key: jax.Array,
    position: jax.Array,
    *,
    shape: tuple[int, int],
) -> State:
    del key
    labels = engine.no_labels(corpus.tokens.shape[0], shape[0])
    # A state may be donated to jitted code, and must not share arrays with the kernel.
    return State(
        position=natural.starting_topics(position, shape),
        step=jnp.zeros((), jnp.int32),
        alpha=jnp.copy(config.alpha),
        beta=jnp.copy(config.beta),
        sampler=Labels(Memory(labels, jnp.zeros(shape, jnp.int32))),
    )


def _update(
    corpus: DeviceCorpus, key: jax.Array, state: State, ids: jax.Array
) -> tuple[State, Info]:
    """Draw the labels of the tokens of some documents, each given all others."""
    memory = state.sampler.memory
    num_topics = memory.counts.shape[0]
    dtype = state.position.dtype
    mine = device.select(corpus, ids)
    padding = _WIDTH - num_topics % _WIDTH  # at least one more topic, for no label

    def padded(rows: jax.Array, value: float = 0) -> jax.Array:
        """Topics [K, ...] to rows of padded topics."""
        return jnp.pad(rows.T, ((0, 0),) * (rows.ndim - 1) + ((0, padding),), constant_values=value)

    alpha = padded(state.alpha.astype(dtype))
    beta = state.beta.astype(dtype)
    total_beta = jnp.sum(beta, axis=-1)
    if beta.ndim == 2:
        beta, total_beta = padded(beta, 1), padded(total_beta, 1)
    real = lax.iota(jnp.int32, num_topics + padding) < num_topics
    in_documents = engine.count_labels(memory.labels, mine, num_topics).astype(jnp.int32)
    of_topics = jnp.sum(memory.counts, axis=1, dtype=jnp.int32)
    tables = Tables(padded(in_documents), padded(memory.counts), padded(of_topics))
    total = jnp.sum(mine.lengths)
    step = min(CHUNK, corpus.tokens.shape[0])

    def chunk(loop: tuple) -> tuple:
        first, labels, tables, moved = loop
        place, document = device.token_slots(mine, first, step)
        word = mine.tokens.at[place].get(mode="clip")
        label = labels.at[place].get(mode="fill", fill_value=num_topics).astype(jnp.int32)
        words, _ = random_words(key, step, dtype, columns=place)
        u = uniform.uniform(words, dtype)

        def token(i: jax.Array, loop: tuple) -> tuple:
            new_labels, tables = loop
            d, w = _at(document, i), _at(word, i)
            old = _one_hot(_at(label, i), real)
            in_document, of_word = _at(tables.documents, d) - old, _at(tables.words, w) - old
            of_topic = tables.topics - old
            mass = jnp.where(
                real,
                (alpha + in_document) * (_at(beta, w) + of_word) / (total_beta + of_topic),
                0,
            )
            sums = jnp.cumsum(mass)
            passed = sums <= _at(u, i) * sums[-1]
            new = jnp.minimum(jnp.sum(passed, dtype=jnp.int32), num_topics - 1)
            come = _one_hot(new, real)
            return _set(new_labels, i, new), Tables(
                _set(tables.documents, d, in_document + come),
                _set(tables.words, w, of_word + come),
                of_topic + come,
            )

        count = jnp.minimum(step, total - first)
        new, tables = lax.fori_loop(0, count, token, (label, tables))
        moved = moved + jnp.sum(new != label, dtype=jnp.int32)
        labels = labels.at[place].set(new.astype(labels.dtype), mode="drop")
        return first + step, labels, tables, moved

    start = (jnp.int32(0), memory.labels, tables, jnp.int32(0))
    _, labels, tables, moved = lax.while_loop(lambda loop: loop[0] < total, chunk, start)
    counts = tables.words[:, :num_topics].T
    topic_tokens = tables.topics[:num_topics].astype(dtype)
    position = simplex.normalise(jnp.log(state.beta + counts).astype(dtype))
    state = state._replace(
        position=position, step=state.step + 1, sampler=Labels(Memory(labels, counts))
    )
    share = moved.astype(dtype) / jnp.maximum(total, 1)
    return state, Info(topic_tokens, Sweep(share))


def _at(array: jax.Array, i: jax.Array) -> jax.Array:
    return lax.dynamic_index_in_dim(array, i.astype(jnp.uint32), keepdims=False)


def _set(array: jax.Array, i: jax.Array, row: jax.Array) -> jax.Array:
    return lax.dynamic_update_index_in_dim(array, row, i.astype(jnp.uint32), 0)


def _one_hot(label: jax.Array, real: jax.Array) -> jax.Array:
    return (lax.iota(jnp.int32, real.shape[0]) == label).astype(jnp.int32)
