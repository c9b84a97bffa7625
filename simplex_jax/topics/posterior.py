"""What a run of LDA gathers of the posterior: moments, traces and thinned samples."""

import functools
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax.evaluate import gathering, replicas
from simplex_jax.evaluate.gathering import Kept, Posterior
from simplex_jax.evaluate.moments import Moments
from simplex_jax.models import lda
from simplex_jax.runtime.hooks import Event
from simplex_jax.topics.settings import Settings


class Sample(NamedTuple):
    """What one sample says, chains along the first axis of every array.

    Attributes:
        mean: Mean of the topics given the labels, or the topics drawn, [C, K, V].
        variance: Their variance given the labels, or None.
        prevalence: Share of the tokens in each topic, [C, K].
        alpha: Concentrations of topic proportions, [C, K].
        beta: Concentrations of topics, [C, V].
    """

    mean: jax.Array
    variance: jax.Array | None
    prevalence: jax.Array
    alpha: jax.Array
    beta: jax.Array


@functools.partial(jax.jit, static_argnames=("chains", "memoised"))
def read(state: lda.State, topic_tokens: jax.Array, *, chains: int, memoised: bool) -> Sample:
    """Read a sample off the state after an update.

    With memoised counts n the topics given the labels are Dirichlet(beta + n): of these the mean
    and the variance m (1 - m) / (sum(beta + n) + 1) are read, which is less noise than the topics
    themselves (Rao-Blackwell). With estimated counts the topics are read as drawn.
    """

    def one(state: lda.State, topic_tokens: jax.Array) -> Sample:
        mean = lda.mean_topics(state)
        variance = None
        if memoised:
            total = jnp.sum(state.beta) + topic_tokens
            variance = mean * (1 - mean) / (total[:, None] + 1)
        share = topic_tokens / jnp.maximum(jnp.sum(topic_tokens), 1)
        return Sample(mean, variance, share, state.alpha, state.beta)

    if chains > 1:
        return jax.vmap(one)(state, topic_tokens)
    return jax.tree.map(lambda leaf: leaf[None], one(state, topic_tokens))


def gather(settings: Settings, words: int, heldout: bool) -> Posterior:
    """Return the hook that gathers moments and traces.

    Args:
        settings: The settings.
        words: V.
        heldout: Whether events have a perplexity.

    Returns:
        With moments of "topics" [C, K, V], "prevalence" and "alpha" [C, K] and "beta" [C, V].
    """
    chains, num_topics = settings.chains, settings.num_topics
    memoised = settings.counts == "memoised"
    moments = {
        "topics": Moments((chains, num_topics, words), memoised),
        "prevalence": Moments((chains, num_topics)),
        "alpha": Moments((chains, num_topics)),
        "beta": Moments((chains, words)),
    }
    traces = {"prevalence": (chains, num_topics), "alpha": (chains,), "beta": (chains,)}
    if heldout:
        traces["log_predictive"] = (chains,)

    def sample(event: Event) -> gathering.Sample:
        found = read(
            *replicas.first((event.state, event.info.topic_tokens)),
            chains=chains,
            memoised=memoised,
        )
        return gathering.Sample(
            {
                "topics": found.mean,
                "prevalence": found.prevalence,
                "alpha": found.alpha,
                "beta": found.beta,
            },
            {} if found.variance is None else {"topics": found.variance},
            {
                "prevalence": found.prevalence,
                "alpha": jnp.sum(found.alpha, axis=-1),
                "beta": jnp.sum(found.beta, axis=-1),
                "log_predictive": np.array(_log_predictive(event.metrics, chains)),
            },
        )

    return Posterior(sample, moments, traces, settings.seconds)


def _log_predictive(metrics: dict[str, float], chains: int) -> list[float]:
    """Log-probability per held-out token in each chain, NaN where it was not measured."""
    names = [f"perplexity_chain_{chain}" for chain in range(chains)]
    names = names if chains > 1 else ["perplexity"]
    return [-float(np.log(metrics.get(name, np.nan))) for name in names]


def keep(settings: Settings, directory: Path | None) -> Kept:
    """Return the hook that keeps thinned samples, in a directory or in memory."""

    def sample(event: Event) -> dict[str, np.ndarray]:
        state, lead = event.state, (lambda x: x[None]) if settings.chains == 1 else (lambda x: x)
        return {
            "topics": np.exp(np.asarray(lead(state.position))),
            "alpha": np.asarray(lead(state.alpha)),
            "beta": np.asarray(lead(state.beta)),
        }

    return Kept(sample, settings.keep_samples, settings.seconds, directory)
