"""What is gathered of the posterior while a run goes on: moments, traces and thinned samples.

These hooks can be saved in a checkpoint and loaded again: a run that was interrupted gathers what
an uninterrupted one would have.
"""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax.evaluate import replicas
from simplex_jax.evaluate.moments import Moments
from simplex_jax.models import lda
from simplex_jax.runtime import output
from simplex_jax.runtime.hooks import Event, second_half
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


class Posterior:
    """Moments and traces of the samples of the second half of a run.

    Args:
        settings: The settings.
        words: V.
        heldout: Whether events have a perplexity.

    Attributes:
        moments: Moments of "topics" [C, K, V], "prevalence" and "alpha" [C, K] and "beta" [C, V].
    """

    def __init__(self, settings: Settings, words: int, heldout: bool) -> None:
        self._seconds, self._heldout = settings.seconds, heldout
        chains, num_topics = settings.chains, settings.num_topics
        self._read = functools.partial(read, chains=chains, memoised=settings.counts == "memoised")
        self.moments = {
            "topics": Moments((chains, num_topics, words), settings.counts == "memoised"),
            "prevalence": Moments((chains, num_topics)),
            "alpha": Moments((chains, num_topics)),
            "beta": Moments((chains, words)),
        }
        self._shapes = {"prevalence": (chains, num_topics), "alpha": (chains,), "beta": (chains,)}
        if heldout:
            self._shapes["log_predictive"] = (chains,)
        self._traces: dict[str, list[np.ndarray]] = {name: [] for name in self._shapes}

    @property
    def samples(self) -> int:
        """Samples of each chain so far."""
        return self.moments["topics"].samples

    def __call__(self, event: Event) -> None:
        """Add the state at hand, if it is time."""
        if second_half(event, self._seconds):
            self.add(event)

    def add(self, event: Event) -> None:
        """Add a sample of every chain."""
        sample = self._read(*replicas.first((event.state, event.info.topic_tokens)))
        self.moments["topics"].add(sample.mean, 0.0 if sample.variance is None else sample.variance)
        for name in ("prevalence", "alpha", "beta"):
            self.moments[name].add(getattr(sample, name))
        values = {
            "prevalence": sample.prevalence,
            "alpha": jnp.sum(sample.alpha, axis=-1),
            "beta": jnp.sum(sample.beta, axis=-1),
            "log_predictive": _log_predictive(event.metrics, len(sample.alpha)),
        }
        for name, trace in self._traces.items():
            trace.append(np.asarray(values[name], np.float64))

    def traces(self) -> dict[str, np.ndarray]:
        """Return what was traced, by name: [samples, chains] or, "prevalence", with a K as well."""
        return {
            name: np.array(self._traces[name]).reshape(-1, *shape)
            for name, shape in self._shapes.items()
        }

    def save(self) -> dict[str, Any]:
        """Return what a continued run needs."""
        moments = {name: moments.save() for name, moments in self.moments.items()}
        return {"moments": moments, "traces": self._traces}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        for name, moments in self.moments.items():
            moments.load(saved["moments"][name])
        self._traces = saved["traces"]


def _log_predictive(metrics: dict[str, float], chains: int) -> list[float]:
    """Log-probability per held-out token in each chain, NaN where it was not measured."""
    names = [f"perplexity_chain_{chain}" for chain in range(chains)]
    names = names if chains > 1 else ["perplexity"]
    return [-float(np.log(metrics.get(name, np.nan))) for name in names]


class Kept:
    """Thinned samples of the topics, evenly spaced over the second half of a run.

    With a directory each is written as it is drawn, to `sample-00000.npz` and so on; else they stay
    in memory. Topics are numbered as in each chain.

    Args:
        settings: The settings.
        directory: Where to, made if it is missing.
    """

    def __init__(self, settings: Settings, directory: Path | None) -> None:
        self._wanted, self._chains = settings.keep_samples, settings.chains
        self._seconds, self._directory = settings.seconds, directory
        self._count = 0
        self._samples: list[dict[str, np.ndarray]] = []
        if directory is not None and self._wanted:
            directory.mkdir(parents=True, exist_ok=True)

    def __call__(self, event: Event) -> None:
        """Keep the state at hand, if it is time."""
        due = second_half(event, self._seconds) and self._count < self._wanted
        if not due or self._progress(event) * self._wanted < self._count + 1:
            return
        state, lead = event.state, (lambda x: x[None]) if self._chains == 1 else (lambda x: x)
        sample = {
            "topics": np.exp(np.asarray(lead(state.position))),
            "alpha": np.asarray(lead(state.alpha)),
            "beta": np.asarray(lead(state.beta)),
            "step": np.asarray(event.step),
        }
        if self._directory is None:
            self._samples.append(sample)
        else:
            output.write_npz(self._directory / f"sample-{self._count:05d}.npz", sample)
        self._count += 1

    def _progress(self, event: Event) -> float:
        """Share of the second half that is over, in [0, 1]."""
        steps = (event.step - event.first_step) / (event.last_step - event.first_step)
        clock = 0.0 if self._seconds is None else event.seconds / self._seconds
        return min(2 * max(steps, clock) - 1, 1.0)

    def samples(self) -> dict[str, np.ndarray]:
        """Return the samples in memory by name, stacked; empty if there are none."""
        if not self._samples:
            return {}
        return {name: np.stack([s[name] for s in self._samples]) for name in self._samples[0]}

    def save(self) -> dict[str, Any]:
        """Return what a continued run needs."""
        return {"count": self._count, "samples": self._samples}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        self._count, self._samples = saved["count"], saved["samples"]
