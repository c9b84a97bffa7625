"""Summaries of the posterior of LDA during a run: moments, traces, samples, records."""

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.sharding import NamedSharding

from simplex_jax._src import sharded_rows
from simplex_jax._src.evaluate import matching
from simplex_jax._src.models.goal import Goal
from simplex_jax._src.models.heldout import measured
from simplex_jax._src.models.lda import model, sharding
from simplex_jax._src.models.lda.kernel import SAMPLERS
from simplex_jax._src.models.lda.options import Options
from simplex_jax._src.models.lda.seeds import Seeds
from simplex_jax._src.models.topics.data import Size
from simplex_jax._src.runtime import gathering
from simplex_jax._src.runtime.gathering import Gathered, Kept, Posterior
from simplex_jax._src.runtime.hooks import MAX_STEPS, Event
from simplex_jax._src.runtime.moments import Moments
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Records
from simplex_jax._src.runtime.windows import Window

# A run without a length ends after this number of passes in any case, or after as many as take
# about five minutes on two cores: draws of tokens and of numbers of the topics, in all chains, and
# calls, each as long as some draws.
_PASSES, _DRAWS, _CALL = 200, 2e10, 100_000


class Sample(NamedTuple):
    """Quantities of one sample; the first axis of every array is the chain."""

    mean: jax.Array  # mean of the topics given the labels, or the topics drawn, [C, rows, V]
    variance: jax.Array | None  # their variance given the labels, or None
    prevalence: jax.Array  # share of the tokens in each topic, [C, K]
    tokens: jax.Array  # tokens in each topic, counted or estimated, [C, K]
    alpha: jax.Array  # concentrations of topic proportions, [C, K]
    beta: jax.Array  # concentrations of topics, [C, V]


@functools.partial(jax.jit, static_argnames=("chains", "memoised"))
def read(
    state: model.State,
    topic_tokens: jax.Array,
    seeds: Seeds | None = None,
    *,
    chains: int,
    memoised: bool,
) -> Sample:
    """Return the sample in a state after an update.

    With memoised counts n the topics given the labels are Dirichlet(beta + n), where beta includes
    the pseudo-counts of seeds. Their mean m and variance m (1 - m) / (sum(beta + n) + 1) have less
    noise than the topics themselves (Rao-Blackwell). With estimated counts the topics are returned
    as drawn. Mean and variance have the rows of the state. Each number is computed alone, so
    devices that share rows get the same numbers.
    """

    def one(state: model.State, topic_tokens: jax.Array) -> Sample:
        prevalence = topic_tokens / jnp.maximum(jnp.sum(topic_tokens), 1)
        if not memoised:
            topics = jnp.exp(state.position)
            return Sample(topics, None, prevalence, topic_tokens, state.alpha, state.beta)
        total = model.totals(state, topic_tokens, seeds)
        # Multiplied, since XLA rewrites a division this way on some numbers of devices only.
        mean = model.concentrations(state, seeds) * (1 / total)
        # Near 1, 1 - mean would be mostly rounding.
        rest = jnp.where(mean > 0.5, model.others(state, seeds) * (1 / total), 1 - mean)
        variance = mean * rest * (1 / (total + 1))
        return Sample(mean, variance, prevalence, topic_tokens, state.alpha, state.beta)

    if chains > 1:
        return jax.vmap(one)(state, topic_tokens)
    return jax.tree.map(lambda leaf: leaf[None], one(state, topic_tokens))


@functools.partial(jax.jit, static_argnames="chains")
def log_likelihood(
    state: model.State, topic_tokens: jax.Array, seeds: Seeds | None = None, *, chains: int
) -> jax.Array:
    """Return log p(words | labels) of the tokens of each topic, topics summed out, [C, rows].

    It is the Dirichlet-multinomial probability of memoised counts, MALLET's "LL" but for the part
    of the labels; per token it is exact to about 1e-6 of its size.
    """

    def one(state: model.State, topic_tokens: jax.Array) -> jax.Array:
        total, empty = (model.totals(state, n, seeds) for n in (topic_tokens, 0 * topic_tokens))
        # Not concentrations less counts, which rounding makes 0 for words of a million tokens.
        logs = gammaln(model.concentrations(state, seeds)) - gammaln(model.prior(state, seeds))
        each = jnp.sum(logs, axis=-1)
        return each + jnp.squeeze(gammaln(empty) - gammaln(total), -1)

    if chains > 1:
        return jax.vmap(one)(state, topic_tokens)
    return one(state, topic_tokens)[None]


def goal(settings: Any, posterior: Posterior, size: Size, heldout: bool) -> Goal:
    """Return the hook that ends a run without a length, using the gathered traces.

    The level is the held-out perplexity of the average of the samples or, if nothing is held out,
    the likelihood of the tokens.
    """
    level = "log_predictive" if heldout else "log_likelihood"
    names = {level, *_targets(settings)}

    def traces() -> dict[str, np.ndarray]:
        gathered = posterior.gathered()
        traces = {name: trace for name, trace in gathered.traces().items() if name in names}
        if settings.chains > 1 and gathered.samples and "prevalence" in traces:
            order, _, shared = matching.align(list(gathered.moments["topics"].mean))
            matched = np.take_along_axis(traces["prevalence"], order[None], axis=2)
            prior = gathered.moments["beta"].pooled()[0].sum()
            shared[1:] &= matching.told_apart(matched.mean(axis=0) * size.tokens, prior)
            traces["prevalence"] = np.where(shared, matched, np.nan)
        return traces

    def measure(event: Event, traces: Mapping[str, np.ndarray]) -> float | None:
        if heldout:
            return math.log(event.metrics["perplexity_average"])
        return float(traces[level].mean()) if traces.get(level, np.zeros(0)).size else None

    return Goal(
        traces,
        level,
        measure,
        active=settings.steps is None and settings.seconds is None,
        every=settings.eval_every,
        target=settings.target_ess,
        limit=limit(settings, size),
        seconds=math.inf if settings.time_limit is None else settings.time_limit,
    )


def _targets(settings: Any) -> set[str]:
    """Return the names of the traces that need the target's effective samples, if there is one."""
    if settings.target_ess is None:
        return set()
    if settings.num_topics > 1:
        return {"prevalence"}
    # The prevalence of the only topic is 1, and its labels do not move.
    return {name for name in ("alpha", "beta") if isinstance(getattr(settings, name), str)}


def limit(settings: Any, size: Size) -> int:
    """Return the updates after which a run without a length ends, whatever it has reached.

    They depend on sizes only, not on the machine. A run with a target goes on until it reaches it.
    """
    if settings.target_ess is not None:
        return MAX_STEPS
    drawn = settings.chains * (size.tokens + settings.num_topics * size.words) + _CALL
    return max(_PASSES, math.ceil(_DRAWS / drawn)) * -(-size.documents // settings.batch_size)


def gather(
    settings: Any,
    window: Window,
    words: int,
    heldout: bool,
    seeds: Seeds | None,
    rows: NamedSharding | None = None,
) -> Posterior:
    """Return the hook that gathers moments and traces.

    These include predictions if `heldout`, else, of memoised counts, the likelihood of the tokens.

    Moments are those of "topics" [C, K, V], "prevalence", "tokens" and "alpha" [C, K] and "beta"
    [C, V]. `rows` is how devices share the topics and their moments, see `sharding.rows_of`.
    """
    chains, num_topics = settings.chains, settings.num_topics
    memoised = settings.counts == "memoised"
    traces = {"prevalence": (chains, num_topics), "alpha": (chains,), "beta": (chains,)}
    if heldout:
        traces["log_predictive"] = (chains,)
    elif memoised:
        traces["log_likelihood"] = (chains,)

    def make() -> Gathered:
        moments = {
            "topics": Moments((chains, num_topics, words), memoised, rows),
            "prevalence": Moments((chains, num_topics)),
            "tokens": Moments((chains, num_topics)),
            "alpha": Moments((chains, num_topics)),
            "beta": Moments((chains, words)),
        }
        return Gathered(moments, traces)

    def sample(event: Event) -> gathering.Sample:
        taken = sharding.without_labels(event.state), event.info.topic_tokens
        if rows is None:
            taken = sharded_rows.on_first_device(taken)
        topics = read(*taken, seeds, chains=chains, memoised=memoised)
        now = sharded_rows.on_first_device(topics._replace(mean=None, variance=None))
        return gathering.Sample(
            {
                "topics": topics.mean,
                "prevalence": now.prevalence,
                "tokens": now.tokens,
                "alpha": now.alpha,
                "beta": now.beta,
            },
            {} if topics.variance is None else {"topics": topics.variance},
            {
                "prevalence": now.prevalence,
                "alpha": np.asarray(now.alpha).sum(axis=-1),
                "beta": np.asarray(now.beta).sum(axis=-1),
            },
        )

    def evaluated(event: Event) -> dict[str, np.ndarray]:
        if heldout:
            return {"log_predictive": -np.log(measured(event, "perplexity", chains))}
        if not memoised:
            return {}
        taken = sharding.without_labels(event.state), event.info.topic_tokens
        if rows is None:
            taken = sharded_rows.on_first_device(taken)
        each = log_likelihood(*taken, seeds, chains=chains)[..., None]
        total = np.asarray(sharded_rows.gather_rows(each, num_topics), np.float64).sum(axis=(1, 2))
        tokens = np.asarray(sharded_rows.on_first_device(event.info.topic_tokens)).sum(axis=-1)
        return {"log_likelihood": total / tokens}

    return Posterior(sample, make, window, evaluated)


def prevalence(
    gathered: Gathered, order: np.ndarray, shared: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, standard deviation and range of the prevalence of topics in matched chains.

    They are [K], [K] and [2, K]; the range is that of the means of the chains. The mean is a ratio
    of means. Estimated token counts scale with the length of the documents in a batch, and a mean
    of prevalences in batches would weigh short documents like long ones.
    """
    moments = gathered.moments
    tokens = moments["tokens"].mean.astype(np.float64)
    by_chain = tokens / np.maximum(tokens.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    matched = np.take_along_axis(by_chain, order, axis=1)
    _, deviation = moments["prevalence"].pooled(order, shared)
    return (
        np.average(matched, axis=0, weights=shared),
        deviation,
        matching.range_over(by_chain, order),
    )


def keep(settings: Options, window: Window, folder: Folder | None) -> Kept:
    """Return the hook that keeps thinned samples, in a directory or in memory."""

    def sample(event: Event) -> dict[str, np.ndarray]:
        state = event.state
        tokens = event.info.topic_tokens
        arrays = {"topics": sharding.topics_of(state), "alpha": state.alpha, "beta": state.beta}
        arrays = sharded_rows.on_first_device(arrays | {"prevalence": tokens})
        arrays["topics"] = np.exp(arrays["topics"])
        tokens = np.asarray(arrays["prevalence"])
        arrays["prevalence"] = tokens / np.maximum(tokens.sum(axis=-1, keepdims=True), 1)
        lead = settings.chains == 1
        return {name: np.asarray(array)[None if lead else ...] for name, array in arrays.items()}

    assert settings.keep_samples is not None  # settled
    return Kept(sample, settings.keep_samples, window, folder)


def records(settings: Any, size: Size) -> Records:
    """Return the hook that records evaluations and tokens per second."""

    def measure(event: Event, passes: float) -> Mapping[str, float]:
        rate = round(passes * size.tokens / max(event.seconds, 1e-9))
        largest = {name: float(np.max(getattr(event.info.sampler, name))) for name in measures}
        return {"tokens_per_second": rate} | largest

    measures = SAMPLERS[settings.sampler].measures
    per_pass = -(-size.documents // settings.batch_size)
    # Memoised blocks cover the corpus exactly once a pass; the last one may be short.
    memoised = settings.counts == "memoised"
    per_step = size.documents / per_pass if memoised else settings.batch_size
    return Records(size.documents, per_step, measure)
