"""Held-out rows while a run goes on: their log predictive density."""

from typing import Any

import jax
import numpy as np

from simplex_jax.base import PyTree
from simplex_jax.dpm import posterior
from simplex_jax.dpm.settings import Settings
from simplex_jax.evaluate.averaging import LogMean
from simplex_jax.models import dp_families, dp_mixture
from simplex_jax.models.dp_families import Family
from simplex_jax.runtime.hooks import Event, second_half

log_predictive = jax.jit(dp_mixture.log_predictive)
"""`(family, mixture, rows) -> [n]`, see `dp_mixture.log_predictive`."""


class HeldOut:
    """A hook that writes log predictive densities, means over the rows, into an event's metrics.

    They are `log_predictive`, of the mixture at hand; with several chains their mean, and
    `log_predictive_chain_0` and so on; and `log_predictive_average`, of the densities averaged over
    the evaluations of the second half of the run and over the chains.

    Args:
        family: The law of the components.
        rows: Held-out rows.
        settings: Of the run.
    """

    def __init__(self, family: Family, rows: PyTree, settings: Settings) -> None:
        self._family, self._rows, self._settings = family, rows, settings
        self._average = LogMean(dp_families.size(rows))

    def __call__(self, event: Event) -> None:
        """Evaluate the mixtures at hand."""
        chains = self._settings.chains
        found = []
        for chain in range(chains):
            mixture = event.state.position
            if chains > 1:
                mixture = jax.tree.map(lambda leaf, chain=chain: leaf[chain], mixture)
            found.append(np.asarray(log_predictive(self._family, mixture, self._rows), np.float64))
            name = f"log_predictive{posterior.ending(chain, chains)}"
            event.metrics[name] = float(found[-1].mean())
        event.metrics["log_predictive"] = float(np.mean(found))
        if second_half(event, self._settings.seconds):
            self._average.add(found)
        if self._average.samples:
            event.metrics["log_predictive_average"] = float(self._average.value().mean())

    def save(self) -> dict[str, Any]:
        """Return what a continued run needs."""
        return self._average.save()

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        self._average.load(saved)
