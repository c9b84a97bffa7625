"""Hooks of a run: moments, traces, thinned samples, held-out documents, and records."""

from collections.abc import Mapping

import jax
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.models.heldout import HeldOut, mean, measured
from simplex_jax._src.models.sam import density, sparse
from simplex_jax._src.models.sam.options import Options
from simplex_jax._src.models.sam.proportions import law_of, means
from simplex_jax._src.runtime import gathering
from simplex_jax._src.runtime.gathering import Gathered, Kept, Posterior
from simplex_jax._src.runtime.hooks import Event
from simplex_jax._src.runtime.moments import Moments
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Records
from simplex_jax._src.runtime.windows import window_of

CONCENTRATIONS = ("alpha", "sigma", "kappa1")
_SAMPLED, _BURN_IN = 512, 8


def gather(settings: Options, table: sp.csr_array, key: jax.Array, heldout: bool) -> Posterior:
    """Return the hook that gathers moments and traces.

    The mean share of each topic is computed from up to 512 documents, evenly spaced, whose
    proportions are drawn with `key` given the topics of the sample. The moments are those of
    "topics" [C, K, V], "prevalence" [C, K] and the concentrations [C].
    """
    chains, num_topics = settings.chains, settings.num_topics
    rows = np.unique(np.linspace(0, table.shape[0] - 1, _SAMPLED).round().astype(int))
    some = table[rows]
    traces: dict[str, tuple[int, ...]] = {"prevalence": (chains, num_topics)}
    traces |= dict.fromkeys(CONCENTRATIONS, (chains,))
    if heldout:
        traces["log_perplexity"] = (chains,)

    def make() -> Gathered:
        moments = {name: Moments((chains,)) for name in CONCENTRATIONS}
        moments["topics"] = Moments((chains, num_topics, table.shape[1]))
        moments["prevalence"] = Moments((chains, num_topics))
        return Gathered(moments, traces)

    def sample(event: Event) -> gathering.Sample:
        state = read(event, chains)
        at = jax.random.fold_in(key, event.step)
        parts = zip(state["topics"], state["alpha"], state["kappa1"], strict=True)
        laws = [law_of(b, some, alpha, kappa1, len(rows)) for b, alpha, kappa1 in parts]
        drawn = [means(jax.random.fold_in(at, i), law, _BURN_IN, 1) for i, law in enumerate(laws)]
        shares = np.stack([np.asarray(one).mean(axis=0) for one in drawn])
        scalars = {name: state[name] for name in CONCENTRATIONS}
        both = {"prevalence": shares} | scalars
        return gathering.Sample({"topics": state["topics"]} | both, {}, both)

    def evaluated(event: Event) -> dict[str, np.ndarray]:
        return {"log_perplexity": measured(event, "log_perplexity", chains)} if heldout else {}

    return Posterior(sample, make, window_of(settings), evaluated)


def read(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return topics [C, K, V] and concentrations [C] of an event."""
    names = {"topics": "position"} | {name: name for name in CONCENTRATIONS}
    arrays = {name: np.asarray(getattr(event.state, field)) for name, field in names.items()}
    return arrays if chains > 1 else {name: array[None] for name, array in arrays.items()}


def keep(settings: Options, folder: Folder | None) -> Kept:
    """Return the hook that keeps thinned samples, in a directory or in memory."""
    assert settings.keep_samples is not None  # settled
    return Kept(
        lambda event: read(event, settings.chains),
        settings.keep_samples,
        window_of(settings),
        folder,
    )


def held_out(table: sp.csr_array, key: jax.Array, settings: Options) -> HeldOut:
    """Return the hook that estimates log-perplexities of held-out unit vectors [H, V].

    Its metrics include `heldout_ess`, the median over documents of the effective sample size of the
    estimates.
    """
    documents = sparse.to_device(table)

    def measure(event: Event) -> tuple[list[np.ndarray], dict[str, float]]:
        state, key_event = read(event, settings.chains), jax.random.fold_in(key, event.step)
        estimates = [
            density.importance(
                jax.random.fold_in(key_event, chain),
                state["topics"][chain],
                documents,
                float(state["alpha"][chain]),
                float(state["kappa1"][chain]),
            )
            for chain in range(settings.chains)
        ]
        ess = float(np.mean([np.median(estimate.ess) for estimate in estimates]))
        return [estimate.log_p for estimate in estimates], {"heldout_ess": ess}

    def value(log_p: list[np.ndarray]) -> float:
        return -mean(log_p)

    size, chains = table.shape[0], settings.chains
    return HeldOut("log_perplexity", size, measure, value, chains, window_of(settings))


def records(settings: Options, documents: int) -> Records:
    """Return the hook that records evaluations: throughput, energy, noise, acceptance rates."""

    def measure(event: Event, passes: float) -> Mapping[str, float]:
        info = event.info.sampler._asdict()
        rate = round(passes * documents / max(event.seconds, 1e-9))
        measures: dict[str, float] = {"documents_per_second": rate}
        for name in ("kinetic", "thermostat", "gradient_noise", "step_size", "acceptance"):
            if (value := info.get(name)) is not None:
                measures[name] = float(np.mean(value))
        measures["local_acceptance"] = float(np.mean(event.info.local_acceptance))
        return measures | {"fit": float(np.mean(event.info.fit))}

    return Records(documents, settings.batch_size or documents, measure)
