"""What a run gathers of the posterior: moments, traces, thinned samples, records."""

from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np
import scipy.sparse as sp

from simplex_jax.evaluate import gathering
from simplex_jax.evaluate.gathering import Kept, Posterior
from simplex_jax.evaluate.moments import Moments
from simplex_jax.models import sam_local
from simplex_jax.runtime.hooks import Event
from simplex_jax.runtime.session import Records
from simplex_jax.spherical.proportions import law_of, means
from simplex_jax.spherical.settings import Settings

CONCENTRATIONS = ("alpha", "sigma", "kappa1")
_SAMPLED = 512


def gather(settings: Settings, table: sp.csr_array, key: jax.Array, heldout: bool) -> Posterior:
    """Return the hook that gathers moments and traces.

    The mean share of each topic is that of up to 512 documents, evenly spaced, whose proportions
    are drawn given the topics of the sample.

    Args:
        settings: The settings.
        table: The training documents, [D, V].
        key: Of these draws.
        heldout: Whether events have a log-perplexity.

    Returns:
        With moments of "topics" [C, K, V], "prevalence" [C, K] and the concentrations [C].
    """
    chains, num_topics = settings.chains, settings.num_topics
    rows = np.unique(np.linspace(0, table.shape[0] - 1, _SAMPLED).round().astype(int))
    some = table[rows]
    how = sam_local.Local(samples=1, burn_in=8)
    moments = {
        "topics": Moments((chains, num_topics, table.shape[1])),
        "prevalence": Moments((chains, num_topics)),
    } | {name: Moments((chains,)) for name in CONCENTRATIONS}
    traces: dict[str, tuple[int, ...]] = {"prevalence": (chains, num_topics)}
    traces |= dict.fromkeys(CONCENTRATIONS, (chains,))
    if heldout:
        traces["log_perplexity"] = (chains,)

    def sample(event: Event) -> gathering.Sample:
        found = read(event, chains)
        at = jax.random.fold_in(key, event.step)
        parts = zip(found["topics"], found["alpha"], found["kappa1"], strict=True)
        laws = [law_of(b, some, alpha, kappa1, len(rows)) for b, alpha, kappa1 in parts]
        drawn = [means(jax.random.fold_in(at, i), law, how) for i, law in enumerate(laws)]
        shares = np.stack([np.asarray(one).mean(axis=0) for one in drawn])
        scalars = {name: found[name] for name in CONCENTRATIONS}
        names = [f"log_perplexity_chain_{chain}" for chain in range(chains)]
        names = names if chains > 1 else ["log_perplexity"]
        measured = {"log_perplexity": np.array([event.metrics.get(n, np.nan) for n in names])}
        both = {"prevalence": shares} | scalars
        return gathering.Sample({"topics": found["topics"]} | both, {}, both | measured)

    return Posterior(sample, moments, traces, settings.seconds)


def read(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return topics [C, K, V] and concentrations [C] of an event."""
    names = {"topics": "position"} | {name: name for name in CONCENTRATIONS}
    found = {name: np.asarray(getattr(event.state, field)) for name, field in names.items()}
    return found if chains > 1 else {name: array[None] for name, array in found.items()}


def keep(settings: Settings, directory: Path | None) -> Kept:
    """Return the hook that keeps thinned samples, in a directory or in memory."""

    def sample(event: Event) -> dict[str, np.ndarray]:
        return read(event, settings.chains)

    return Kept(sample, settings.keep_samples, settings.seconds, directory)


def records(settings: Settings, documents: int) -> Records:
    """Return the hook that records evaluations: rate, energy, noise, acceptance, thermostat."""

    def measure(event: Event, passes: float) -> Mapping[str, float]:
        info = event.info.sampler
        rate = round(passes * documents / max(event.seconds, 1e-9))
        told: dict[str, float] = {"documents_per_second": rate}
        for name in ("kinetic", "thermostat", "gradient_noise", "step_size", "acceptance"):
            if (value := getattr(info, name, None)) is not None:
                told[name] = float(np.mean(value))
        told["local_acceptance"] = float(np.mean(event.info.local_acceptance))
        return told | {"fit": float(np.mean(event.info.fit))}

    return Records(documents, settings.batch_size, measure)
