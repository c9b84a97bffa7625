"""Held-out perplexity of topics by document completion.

Half of the tokens of every held-out document are observed: its topic proportions are inferred from
them, with the topics fixed, and the other half is predicted. The perplexity is
exp(-mean log p(w | d)) over target tokens, p(w | d) = sum_k theta_dk phi_kw. Averaged, p is the
mean over the samples of a chain: that is the posterior predictive, and lower than for one sample.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax
from jax.nn import logsumexp
from jax.typing import ArrayLike

from simplex_jax.corpus import device
from simplex_jax.corpus.device import DeviceCorpus
from simplex_jax.evaluate import replicas
from simplex_jax.evaluate.averaging import LogMean
from simplex_jax.models.inference import document_proportions
from simplex_jax.runtime.hooks import Event, second_half

_CHUNK = 16_384
SWEEPS, BURN_IN = 20, 10


class Completion(NamedTuple):
    """Held-out documents, split in two.

    Attributes:
        observed: What topic proportions are inferred from.
        words: Words of the target halves, int32 [n].
        documents: Their documents, by place in `observed`, int32 [n].
        counts: How often each occurs, float32 [n].
    """

    observed: DeviceCorpus
    words: jax.Array
    documents: jax.Array
    counts: jax.Array


def completion(observed: sp.csr_array, target: sp.csr_array) -> Completion:
    """Put held-out documents on the device.

    Args:
        observed: Counts of the observed halves, [D, V].
        target: Counts of the target halves of the same documents, [D, V].

    Raises:
        ValueError: The shapes differ or there is no target token.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax.evaluate import perplexity
        >>> data = perplexity.completion(sp.csr_array([[2, 1]]), sp.csr_array([[0, 3]]))
        >>> data.words.tolist(), data.counts.tolist()
        ([1], [3.0])
    """
    if observed.shape != target.shape:
        raise ValueError(
            f"observed {observed.shape} and target {target.shape} must have the same shape"
        )
    entries = sp.coo_array(target)
    if not entries.nnz:
        raise ValueError("target must have at least one token: hold out more documents")
    corpus = device.to_device(observed)
    place = np.empty(observed.shape[0], np.int32)
    place[np.asarray(corpus.order)] = np.arange(observed.shape[0], dtype=np.int32)
    rows, columns = entries.coords
    return Completion(
        corpus,
        jnp.asarray(columns.astype(np.int32)),
        jnp.asarray(place[rows]),
        jnp.asarray(entries.data.astype(np.float32)),
    )


@partial(jax.jit, static_argnames=("sweeps", "burn_in"))
def log_predictive(
    key: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    data: Completion,
    *,
    sweeps: int = SWEEPS,
    burn_in: int = BURN_IN,
) -> jax.Array:
    """Return log p(w | d) of every target entry given topics [K, V], float [n]."""
    everything = jnp.arange(device.size(data.observed), dtype=jnp.int32)
    theta = document_proportions(
        key,
        log_topics,
        alpha,
        device.select(data.observed, everything),
        sweeps=sweeps,
        burn_in=burn_in,
    )
    log_theta = jnp.log(theta)

    def one_chunk(entry: tuple[jax.Array, jax.Array]) -> jax.Array:
        word, document = entry
        return logsumexp(log_theta[:, document] + log_topics[:, word], axis=0)

    size = data.words.shape[0]
    step = min(_CHUNK, size)
    chunks = -(-size // step)
    padded = [
        jnp.pad(x, (0, chunks * step - size)).reshape(chunks, step)
        for x in (data.words, data.documents)
    ]
    return lax.map(one_chunk, tuple(padded)).ravel()[:size]


def perplexity(log_p: ArrayLike, counts: ArrayLike) -> float:
    """Return exp(-mean log p) over target tokens."""
    return _exp(_cross_entropy(log_p, counts))


def _cross_entropy(log_p: ArrayLike, counts: ArrayLike) -> float:
    weights = np.asarray(counts, np.float64)
    return float(-(np.asarray(log_p, np.float64) @ weights) / weights.sum())


def _exp(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(x))


class Evaluation:
    """A hook that writes `perplexity` and `perplexity_average` into the metrics of an event.

    The average is over the evaluations of the second half of the run, by steps or by seconds, and
    over the chains: p is the mean over all these samples. With several chains `perplexity` is that
    of a single sample, its logarithm averaged over the chains, and `perplexity_chain_0` and so on
    are those of the chains.

    Args:
        data: The held-out documents.
        key: A PRNG key.
        chains: Chains along the first axis of the state's `position` (log topics [K, V]) and
            `alpha` [K]; with a single one there is no such axis.
        max_seconds: The length of a run that ends by time.
    """

    def __init__(
        self,
        data: Completion,
        key: jax.Array,
        chains: int = 1,
        max_seconds: float | None = None,
    ) -> None:
        self._data, self._key, self._chains = data, key, chains
        self._max_seconds = max_seconds
        self._average = LogMean(data.words.shape[0])

    def __call__(self, event: Event) -> None:
        """Evaluate the topics at hand."""
        log_p = self._log_predictive(event)
        entropies = [_cross_entropy(row, self._data.counts) for row in log_p]
        event.metrics["perplexity"] = _exp(sum(entropies) / len(entropies))
        if self._chains > 1:
            for chain, entropy in enumerate(entropies):
                event.metrics[f"perplexity_chain_{chain}"] = _exp(entropy)
        if second_half(event, self._max_seconds):
            self._average.add(log_p)
        if self._average.samples:
            mean = self._average.value()
            event.metrics["perplexity_average"] = perplexity(mean, self._data.counts)

    def _log_predictive(self, event: Event) -> list[np.ndarray]:
        """Log p of every target entry, float64 [n], for each chain in turn."""
        key = jax.random.fold_in(self._key, event.step)
        topics, alpha = replicas.first((event.state.position, event.state.alpha))
        if self._chains == 1:
            topics, alpha = topics[None], alpha[None]
        return [
            np.asarray(
                log_predictive(
                    jax.random.fold_in(key, chain), topics[chain], alpha[chain], self._data
                ),
                np.float64,
            )
            for chain in range(self._chains)
        ]

    def save(self) -> dict[str, Any]:
        """Return what a continued run needs."""
        return self._average.save()

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        self._average.load(saved)
