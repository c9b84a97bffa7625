"""Hooks of a run: traces, samples, held-out documents, and records of the evaluations."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src.models.hdp.kernel import State
from simplex_jax._src.models.hdp.options import Options
from simplex_jax._src.models.heldout import measured, metrics
from simplex_jax._src.models.topics import evaluation
from simplex_jax._src.models.topics.data import Size
from simplex_jax._src.models.topics.evaluation import Completion
from simplex_jax._src.runtime import gathering
from simplex_jax._src.runtime.gathering import Gathered, Kept, Posterior
from simplex_jax._src.runtime.hooks import Event
from simplex_jax._src.runtime.moments import Moments
from simplex_jax._src.runtime.session import Records
from simplex_jax._src.runtime.windows import window_of

TRACED = ("alpha", "gamma", "topics")
"""Label-invariant quantities, comparable between chains and samples."""


def gather(settings: Options, heldout: bool) -> Posterior:
    """Return the hook that gathers the traces, including the log predictive if it is measured."""
    chains = settings.chains
    names = [*TRACED, "log_predictive"] if heldout else TRACED

    def sample(event: Event) -> gathering.Sample:
        traced = _numbers(event, chains)
        return gathering.Sample({name: traced[name] for name in ("alpha", "gamma")}, {}, traced)

    def evaluated(event: Event) -> dict[str, np.ndarray]:
        return {"log_predictive": -np.log(measured(event, "perplexity", chains))} if heldout else {}

    def make() -> Gathered:
        moments = {name: Moments((chains,)) for name in ("alpha", "gamma")}
        return Gathered(moments, dict.fromkeys(names, (chains,)))

    return Posterior(sample, make, window_of(settings), evaluated)


def _numbers(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return the traced numbers of an event, [C] each."""
    return {
        "alpha": np.asarray(event.state.alpha, np.float64).reshape(chains),
        "gamma": np.asarray(event.state.gamma, np.float64).reshape(chains),
        "topics": np.asarray(event.info.topics).reshape(chains),
    }


def read(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return the sample of an event: labels [C, T], and concentrations alpha b [C, K]."""
    state: State = event.state
    _, concentrations = topics_of(state)
    return {
        "labels": np.asarray(state.labels).reshape(chains, -1),
        "concentrations": np.asarray(concentrations).reshape(chains, -1),
    }


def topics_of(state: State) -> tuple[jax.Array, jax.Array]:
    """Return log topics and concentrations of document shares; chains are the first axis."""
    return state.position, state.alpha[..., None] * jnp.exp(state.log_weights)


def keep(settings: Options) -> Kept:
    """Return the hook that keeps thinned samples, in memory."""
    return Kept(
        lambda event: read(event, settings.chains),
        settings.keep_samples,
        window_of(settings),
        None,
    )


def held_out(data: Completion, key: jax.Array, settings: Options) -> evaluation.Evaluation:
    """Return the hook that measures the perplexity of held-out documents.

    Topics outside the state predict nothing: they weigh less than one token.
    """
    window = window_of(settings)
    return evaluation.Evaluation(data, key, settings.chains, window, settings.engine, topics_of)


def records(settings: Options, size: Size) -> Records:
    """Return the hook that records evaluations: traces, throughput, share of waiting documents."""
    chains = settings.chains

    def measure(event: Event, passes: float) -> Mapping[str, float]:
        record: dict[str, float] = {
            "tokens_per_second": round(passes * size.tokens / max(event.seconds, 1e-9)),
            "capacity": int(event.state.counts.shape[-2]),
            "waited": float(np.mean(event.info.waited)),
        }
        for name, values in _numbers(event, chains).items():
            record[name] = float(values.mean())
            record |= zip(metrics(name, chains), map(float, values), strict=True)
        return record

    return Records(size.documents, size.documents, measure)
