"""Held-out documents while a run goes on: their log-perplexity by importance sampling."""

from typing import Any

import jax
import numpy as np
import scipy.sparse as sp

from simplex_jax.evaluate import spherical
from simplex_jax.evaluate.averaging import LogMean
from simplex_jax.models import sam_documents
from simplex_jax.runtime.hooks import Event, second_half
from simplex_jax.spherical import posterior
from simplex_jax.spherical.settings import Settings


class HeldOut:
    """A hook that writes log-perplexities into the metrics of an event.

    They are `log_perplexity`, of the topics at hand; with several chains their mean, and
    `log_perplexity_chain_0` and so on; `log_perplexity_average`, of the densities averaged over the
    evaluations of the second half of the run and over the chains; and `heldout_ess`, the median
    over documents of the effective number of the draws by which each density was estimated.

    Args:
        table: Held-out unit vectors [H, V].
        key: A PRNG key.
        settings: Of the run.
    """

    def __init__(self, table: sp.csr_array, key: jax.Array, settings: Settings) -> None:
        self._documents, self._key = sam_documents.to_device(table), key
        self._chains, self._seconds = settings.chains, settings.seconds
        self._average = LogMean(table.shape[0])

    def __call__(self, event: Event) -> None:
        """Evaluate the topics at hand."""
        key = jax.random.fold_in(self._key, event.step)
        found = posterior.read(event, self._chains)
        rows, sizes = [], []
        for chain in range(self._chains):
            alpha, kappa1 = (float(found[name][chain]) for name in ("alpha", "kappa1"))
            at = jax.random.fold_in(key, chain)
            one = spherical.importance(at, found["topics"][chain], self._documents, alpha, kappa1)
            rows.append(one.log_p)
            sizes.append(np.median(one.ess))
            if self._chains > 1:
                event.metrics[f"log_perplexity_chain_{chain}"] = spherical.log_perplexity(one.log_p)
        event.metrics["log_perplexity"] = spherical.log_perplexity(np.stack(rows))
        if second_half(event, self._seconds):
            self._average.add(rows)
        if self._average.samples:
            event.metrics["log_perplexity_average"] = spherical.log_perplexity(
                self._average.value()
            )
        event.metrics["heldout_ess"] = float(np.mean(sizes))

    def save(self) -> dict[str, Any]:
        """Return what a continued run needs."""
        return self._average.save()

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        self._average.load(saved)
