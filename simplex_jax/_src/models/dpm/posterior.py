"""Hooks of a run: traces, partitions, held-out rows, and records of the evaluations."""

from collections.abc import Mapping

import jax
import numpy as np

from simplex_jax._src.base import PyTree
from simplex_jax._src.models.dpm import model
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import rows as family_rows
from simplex_jax._src.models.dpm.options import Options
from simplex_jax._src.models.heldout import HeldOut, mean, measured, metrics
from simplex_jax._src.runtime import gathering
from simplex_jax._src.runtime.gathering import Gathered, Kept, Posterior
from simplex_jax._src.runtime.hooks import Event
from simplex_jax._src.runtime.moments import Moments
from simplex_jax._src.runtime.session import Records
from simplex_jax._src.runtime.windows import window_of

_TRACED = ("alpha", "num_clusters", "largest")

_log_predictive = jax.jit(model.log_predictive)


def gather(settings: Options, heldout: bool) -> Posterior:
    """Return the hook that gathers traces of label-invariant quantities.

    These are the concentration, the number of clusters with rows, the share of the rows in the
    largest one and, with held-out rows, their mean log predictive density. Labels of clusters are
    not comparable between samples: see `clusters`.
    """
    chains = settings.chains
    names = [*_TRACED, "log_predictive"] if heldout else _TRACED

    def sample(event: Event) -> gathering.Sample:
        traced = _numbers(event, chains)
        return gathering.Sample({"alpha": traced["alpha"]}, {}, traced)

    def evaluated(event: Event) -> dict[str, np.ndarray]:
        return {"log_predictive": measured(event, "log_predictive", chains)} if heldout else {}

    def make() -> Gathered:
        return Gathered({"alpha": Moments((chains,))}, dict.fromkeys(names, (chains,)))

    return Posterior(sample, make, window_of(settings), evaluated)


def _numbers(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return the traced numbers of an event, [C] each."""
    occupancy = np.asarray(event.state.occupancy).reshape(chains, -1)
    return {
        "alpha": np.asarray(event.state.alpha, np.float64).reshape(chains),
        "num_clusters": (occupancy > 0).sum(axis=1),
        "largest": occupancy.max(axis=1) / occupancy.sum(axis=1),
    }


def read(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return the partitions of an event, [C, N], with compact labels, and alpha, [C]."""
    labels = np.asarray(event.state.labels).reshape(chains, -1)
    compact = np.stack([np.unique(row, return_inverse=True)[1] for row in labels])
    size = np.min_scalar_type(int(compact.max()))
    return {"labels": compact.astype(size), "alpha": np.asarray(event.state.alpha).reshape(chains)}


def keep(settings: Options) -> Kept:
    """Return the hook that keeps thinned partitions in memory."""
    return Kept(
        lambda event: read(event, settings.chains),
        settings.keep_samples,
        window_of(settings),
        None,
    )


def held_out(family: Family, rows: PyTree, settings: Options) -> HeldOut:
    """Return the hook that measures the log predictive densities of held-out rows."""

    def measure(event: Event) -> tuple[list[np.ndarray], dict[str, float]]:
        mixture, chains = event.state.position, settings.chains
        mixtures = (
            [mixture]
            if chains == 1
            else [
                jax.tree.map(lambda leaf, chain=chain: leaf[chain], mixture)
                for chain in range(chains)
            ]
        )
        return [np.asarray(_log_predictive(family, one, rows), np.float64) for one in mixtures], {}

    return HeldOut(
        "log_predictive",
        family_rows.size(rows),
        measure,
        mean,
        settings.chains,
        window_of(settings),
    )


def records(settings: Options, rows: int) -> Records:
    """Return the hook that records evaluations: traces, throughput and kernel diagnostics."""
    chains = settings.chains

    def measure(event: Event, passes: float) -> Mapping[str, float]:
        record: dict[str, float] = {
            "rows_per_second": round(passes * rows / max(event.seconds, 1e-9)),
            "capacity": int(event.state.occupancy.shape[-1]),
            "moved": float(np.mean(event.info.moved)),
        }
        for name, values in _numbers(event, chains).items():
            record[name] = float(values.mean())
            record |= zip(metrics(name, chains), map(float, values), strict=True)
        return record

    return Records(rows, settings.batch_size or rows, measure)
