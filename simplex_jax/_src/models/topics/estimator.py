"""Shared code for the estimators of topic models of counts."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from simplex_jax._src import arguments
from simplex_jax._src.corpus import from_counts
from simplex_jax._src.corpus.corpus import checked_counts
from simplex_jax._src.models import estimator as common
from simplex_jax._src.models.topics import evaluation, proportions
from simplex_jax._src.models.topics.fits import Draw, Shares

_FRACTIONS = ("error", "draw")


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class CountEstimator(common.TopicEstimator):
    """An estimator of topics of counts [D, V], with concentrations `alpha_` [K].

    `fractions` says what to do with counts that are not whole numbers.
    """

    fractions: str = "error"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def transform(self, X: Any) -> np.ndarray:
        """Return the posterior mean of the topic proportions of documents, float32 [D, K].

        Monte Carlo with the seed of the fit: the same X gives the same proportions. Rows sum to 1,
        or leave the share of topics that are not reported.
        """
        counts = self._data(X, reset=False)
        shape = (counts.shape[0], len(self.components_))
        return proportions.joined(self._shards(counts), shape)[0]

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log predictive probability of a word in one half of each document.

        Proportions are inferred from the other half (document completion).

        Raises:
            ValueError: No document has two words.
        """
        counts = self._data(X, reset=False)
        return evaluation.log_score(self._draws(), counts, seed=self.seed_)

    def _draws(self) -> Sequence[Draw]:
        """Return the topics to predict documents with, as `CountFit.draws`."""
        raise NotImplementedError

    def _shards(self, counts: sp.csr_array) -> Iterator[Shares]:
        """Yield the topic proportions of documents, as `CountFit.shards`."""
        raise NotImplementedError

    def _data(self, X: Any, *, reset: bool, batch: int = 0) -> sp.csr_array:
        table = self._table(X, reset=reset, words=2)
        arguments.choice("fractions", self.fractions, _FRACTIONS)
        if table.nnz and table.data.min() < 0:
            raise ValueError(f"Negative values in data passed to {type(self).__name__}")
        if self.fractions == "draw":
            # With its own seed, so that the same X is always rounded the same way, and each batch
            # of a stream differently.
            floor = np.floor(table.data)
            uniforms = np.random.default_rng([self.seed_, batch] if batch else self.seed_)
            up = uniforms.random(table.nnz) < table.data - floor
            table = sp.csr_array((floor + up, table.indices, table.indptr), shape=table.shape)
        return from_counts(table).counts if reset else checked_counts(table, "X")
