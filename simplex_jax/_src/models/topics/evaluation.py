"""How well topics predict documents, and how coherent they are.

Half of the tokens of every held-out document are observed: its topic proportions are inferred from
them, with the topics fixed, and the other half is predicted. The perplexity is
exp(-mean log p(w | d)) over target tokens, p(w | d) = sum_k theta_dk phi_kw. The average perplexity
uses the mean of p over posterior samples, the posterior predictive, and is lower than for one
sample.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import sharded_rows
from simplex_jax._src.base import State
from simplex_jax._src.corpus import device, split_tokens
from simplex_jax._src.corpus.corpus import checked_counts
from simplex_jax._src.corpus.device import DeviceCorpus
from simplex_jax._src.draws.keys import fold_in
from simplex_jax._src.evaluate import windows
from simplex_jax._src.evaluate.coherence import MEASURES, coherence, diversity
from simplex_jax._src.models.heldout import HeldOut
from simplex_jax._src.models.topics import engine as engines
from simplex_jax._src.models.topics.data import predictable
from simplex_jax._src.models.topics.fits import CountFit, Draw, TopicFit
from simplex_jax._src.models.topics.proportions import CHAINS, counts_of, log_of
from simplex_jax._src.runtime.hooks import Event
from simplex_jax._src.runtime.windows import Window, doubling

_CHUNK = 16_384
SWEEPS, BURN_IN = 20, 10


class Completion(NamedTuple):
    """Held-out documents, split in two."""

    observed: DeviceCorpus  # the halves that topic proportions are inferred from
    words: jax.Array  # words of the target halves, int32 [n]
    documents: jax.Array  # their documents, by place in `observed`, int32 [n]
    counts: jax.Array  # how often each occurs, float32 [n]


def completion(observed: Any, target: Any) -> Completion:
    """Put held-out documents on the device, from counts [D, V] of their two halves.

    Halves that are no counts, of different shapes, or without a target token raise a ValueError.
    """
    observed, target = (checked_counts(half, "heldout") for half in (observed, target))
    if observed.shape != target.shape:
        raise ValueError(
            f"observed {observed.shape} and target {target.shape} must have the same shape"
        )
    entries = sp.coo_array(target)
    if not entries.nnz:
        raise ValueError("the target has no token to predict: give more documents, or longer ones")
    corpus = device.to_device(observed)
    place = np.empty(observed.shape[0], np.int32)
    place[np.asarray(corpus.order)] = np.arange(observed.shape[0], dtype=np.int32)
    rows, columns = entries.coords
    return Completion(
        corpus,
        jax.device_put(columns.astype(np.int32)),
        jax.device_put(place[rows]),
        jax.device_put(entries.data.astype(np.float32)),
    )


@partial(jax.jit, static_argnames=("sweeps", "burn_in", "engine"))
def log_predictive(
    key: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    data: Completion,
    *,
    sweeps: int = SWEEPS,
    burn_in: int = BURN_IN,
    engine: str | None = None,
) -> jax.Array:
    """Return log p(w | d) of every target entry given topics [K, V], float [n].

    The proportions of a document are the mean, over collapsed Gibbs sweeps after the burn-in, of
    (alpha + n_d) / (sum alpha + length) (Patterson and Teh 2013, section 5.1).
    """
    if not 0 <= burn_in < sweeps:
        raise ValueError(f"burn_in must be from 0 to {sweeps - 1}; it is {burn_in}")
    documents = device.select(
        data.observed, jnp.arange(device.size(data.observed), dtype=jnp.int32)
    )
    result = engines.sweeps(
        key,
        log_topics,
        alpha,
        documents,
        None,
        times=sweeps,
        burn_in=burn_in,
        tally=True,
        engine=engine,
    )
    theta = alpha[:, None] + result.documents / (sweeps - burn_in)
    # Not divided by sum alpha + length, which differs by rounding: they must sum to 1.
    theta = theta / jnp.sum(theta, axis=0)
    return log_mixture(theta, log_topics, data.words, data.documents)


def log_mixture(
    weights: jax.Array, log_topics: jax.Array, words: jax.Array, documents: jax.Array
) -> jax.Array:
    """Return log sum_k weights[k, d] p_kw for entries of words and documents, [n] each.

    Weights are [K, D], and log topics [K, V].
    """
    likelihood, peak = engines.likelihood_of(log_topics), jnp.max(log_topics, axis=0)
    # Relative to the likeliest topic of a word, the sum is at least that topic's proportion: one
    # logarithm per entry suffices, and none per topic.
    rows, proportions = likelihood.T, weights.T

    def one_chunk(entry: tuple[jax.Array, jax.Array]) -> jax.Array:
        word, document = entry
        return jnp.log(jnp.sum(proportions[document] * rows[word], axis=1)) + peak[word]

    size = words.shape[0]
    step = min(_CHUNK, size)
    chunks = -(-size // step)
    padded = [
        jnp.pad(x, (0, chunks * step - size)).reshape(chunks, step) for x in (words, documents)
    ]
    return lax.map(one_chunk, tuple(padded)).ravel()[:size]


def perplexity(log_p: ArrayLike, counts: ArrayLike) -> float:
    """Return exp(-mean log p) over target tokens."""
    return _exp(_cross_entropy(log_p, counts))


def _cross_entropy(log_p: ArrayLike, counts: ArrayLike) -> float:
    weights = np.ravel(np.asarray(counts, np.float64))
    return float(-(np.asarray(log_p, np.float64) @ weights) / weights.sum())


def _exp(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(x))


class Evaluation(HeldOut):
    """The hook that records perplexities of the current topics, see `HeldOut`.

    `read` returns the log topics [K, V] and the concentrations [K] of a state, by default its
    `position` and `alpha`, and `predict` is `log_predictive` or takes its place, for `data` of its
    own kind. With several chains, along the first axis, `perplexity` averages the logarithm of
    their perplexities.
    """

    def __init__(
        self,
        data: Any,
        key: jax.Array,
        chains: int = 1,
        window: Window = doubling(1),  # noqa: B008, a pure function
        engine: str | None = None,
        read: Callable[[State], tuple[jax.Array, Any]] = lambda s: (s.position, s.alpha),
        predict: Callable[..., jax.Array] = log_predictive,
    ) -> None:
        def measure(event: Event) -> tuple[list[np.ndarray], dict[str, float]]:
            key_event = fold_in(key, event.step)
            first = sharded_rows.on_first_device(read(event.state))
            # One chain at a time, without copying a single one: topics may be large.
            each = (jax.tree.map(itemgetter(chain), first) for chain in range(chains))
            parts = [first] if chains == 1 else each
            keys = [fold_in(key_event, chain) for chain in range(chains)]
            log_p = [
                predict(key_chain, topics, alpha, data, engine=engine)
                for key_chain, (topics, alpha) in zip(keys, parts, strict=True)
            ]
            return [np.asarray(one, np.float64) for one in log_p], {}

        def value(log_p: list[np.ndarray]) -> float:
            return _exp(sum(_cross_entropy(one, data.counts) for one in log_p) / len(log_p))

        super().__init__("perplexity", data.words.size, measure, value, chains, window)


def measure_completion(
    fitted: CountFit, observed: sp.csr_array, target: sp.csr_array, *, seed: int
) -> dict[str, Any]:
    """Measure how well topics predict the target part of documents from the observed part."""
    if observed.shape != target.shape:
        raise ValueError(
            f"observed (--observed) has {observed.shape[0]} documents and target (--target) "
            f"{target.shape[0]}: give two parts of the same documents, in the same order"
        )
    return {
        "perplexity": _perplexity(fitted.draws(), observed, target, seed),
        "documents": observed.shape[0],
        "target_tokens": int(target.sum()),
        **measure_topics(fitted, observed + target),
    }


def score(fitted: CountFit, data: Any, *, seed: int) -> float:
    """Return the mean log predictive probability of a word; see `pipeline.Fit.score`."""
    return log_score(fitted.draws(), counts_of(data, fitted), seed=seed)


def log_score(draws: Sequence[Draw], counts: sp.csr_array, *, seed: int) -> float:
    """Return the mean log predictive probability of a word in one half of each document [D, V].

    Proportions are inferred from the other half. Raises a ValueError if no document has two words.
    """
    halves = split_tokens(counts, seed)
    if not predictable(*halves):
        raise ValueError("no document has two words, one to predict from the other")
    return -float(np.log(_perplexity(draws, *halves, seed)))


def _perplexity(
    draws: Sequence[Draw], observed: sp.csr_array, target: sp.csr_array, seed: int
) -> float:
    """Return the perplexity of the mean over the draws, with eight chains of sweeps or more."""
    data = completion(observed, target)
    repeats = -(-CHAINS // len(draws))
    keys = iter(jax.random.split(jax.random.key(seed), repeats * len(draws)))
    total = np.full(len(data.words), -np.inf)
    for draw in draws:
        log_topics, alpha = log_of(draw), jnp.asarray(draw.alpha, jnp.float32)
        for key in itertools.islice(keys, repeats):
            log_p = log_predictive(key, log_topics, alpha, data)
            total = np.logaddexp(total, np.asarray(log_p, np.float64))
    return perplexity(total - np.log(repeats * len(draws)), data.counts)


def measure_topics(fitted: TopicFit, documents: sp.csr_array) -> dict[str, Any]:
    """Measure the coherence of topics in documents, and the diversity of their words."""
    return {
        "coherence": {
            name: _mean(coherence(fitted.topics, documents, measure=name)) for name in MEASURES
        },
        "diversity": diversity(fitted.topics),
    }


def measure_windows(fitted: TopicFit, texts: list[list[str]]) -> dict[str, Any]:
    """Measure the coherence of topics over sliding windows of texts."""
    coherences = {
        name: _mean(
            windows.coherence_in_windows(fitted.topics, texts, fitted.vocabulary, measure=name)
        )
        for name in windows.MEASURES
    }
    return {"coherence_in_windows": coherences}


def _mean(values: np.ndarray) -> float | None:
    """Mean over the topics whose top words occur in the documents; None if there are none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None
