"""What a run gathers of the posterior: traces, partitions, records of the evaluations."""

from collections.abc import Mapping

import numpy as np

from simplex_jax.dpm.settings import Settings
from simplex_jax.evaluate import gathering
from simplex_jax.evaluate.gathering import Kept, Posterior
from simplex_jax.evaluate.moments import Moments
from simplex_jax.runtime.hooks import Event
from simplex_jax.runtime.session import Records

TRACED = ("alpha", "occupied", "largest")


def gather(settings: Settings, heldout: bool) -> Posterior:
    """Return the hook that gathers traces of numbers that mean the same in every chain.

    Those are the concentration, the number of clusters with rows, the share of the rows in the
    largest one and, with held-out rows, their mean log predictive density. Clusters themselves
    have no number that they would keep from one sample to the next: see `clusters`.
    """
    chains = settings.chains
    names = [*TRACED, "log_predictive"] if heldout else TRACED

    def sample(event: Event) -> gathering.Sample:
        found = numbers(event, chains)
        if heldout:
            measured = [f"log_predictive{ending(chain, chains)}" for chain in range(chains)]
            found["log_predictive"] = np.array([event.metrics.get(n, np.nan) for n in measured])
        return gathering.Sample({"alpha": found["alpha"]}, {}, found)

    moments = {"alpha": Moments((chains,))}
    return Posterior(sample, moments, dict.fromkeys(names, (chains,)), settings.seconds)


def ending(chain: int, chains: int) -> str:
    """Return what the name of a metric of one chain ends in."""
    return f"_chain_{chain}" if chains > 1 else ""


def numbers(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return what is traced of an event, [C] each."""
    occupancy = np.asarray(event.state.occupancy).reshape(chains, -1)
    return {
        "alpha": np.asarray(event.state.alpha, np.float64).reshape(chains),
        "occupied": (occupancy > 0).sum(axis=1),
        "largest": occupancy.max(axis=1) / occupancy.sum(axis=1),
    }


def read(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return the partitions of an event, [C, N], clusters numbered without gaps, and alpha [C]."""
    labels = np.asarray(event.state.labels).reshape(chains, -1)
    compact = np.stack([np.unique(row, return_inverse=True)[1] for row in labels])
    size = np.min_scalar_type(int(compact.max()))
    return {"labels": compact.astype(size), "alpha": np.asarray(event.state.alpha).reshape(chains)}


def keep(settings: Settings) -> Kept:
    """Return the hook that keeps thinned partitions in memory."""
    return Kept(
        lambda event: read(event, settings.chains), settings.keep_samples, settings.seconds, None
    )


def records(settings: Settings, rows: int) -> Records:
    """Return the hook that records evaluations: traces, rate, and what the kernel tells."""
    chains = settings.chains

    def measure(event: Event, passes: float) -> Mapping[str, float]:
        told: dict[str, float] = {
            "rows_per_second": round(passes * rows / max(event.seconds, 1e-9)),
            "capacity": int(event.state.occupancy.shape[-1]),
            "moved": float(np.mean(event.info.moved)),
        }
        for name, values in numbers(event, chains).items():
            told[name] = float(values.mean())
            if chains > 1:
                told |= {f"{name}{ending(c, chains)}": float(v) for c, v in enumerate(values)}
        return told

    return Records(rows, settings.batch_size, measure)
