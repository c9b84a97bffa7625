"""What the estimators of topics of counts share."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from simplex_jax.models import estimator as common
from simplex_jax.models.topics import measures, proportions


class CountsEstimator(common.TopicEstimator):
    """An estimator of topics of counts [D, V], with concentrations `alpha_` [K]."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def transform(self, X: Any) -> np.ndarray:
        """Return the posterior mean of the topic proportions of documents, float32 [D, K].

        Monte Carlo with the seed of the fit: the same X gives the same proportions.
        """
        counts = self._data(X, reset=False)
        return proportions.transform(self.components_, self.alpha_, counts, seed=self.seed_)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log predictive probability of a word in one half of each document.

        Proportions are inferred from the other half (document completion).

        Raises:
            ValueError: No document has two words.
        """
        counts = self._data(X, reset=False)
        return measures.score(self.components_, self.alpha_, counts, seed=self.seed_)

    def _table(self, X: Any, *, reset: bool, words: int = 2) -> sp.csr_array:
        table = super()._table(X, reset=reset, words=words)
        if table.nnz and table.data.min() < 0:
            raise ValueError(f"Negative values in data passed to {type(self).__name__}")
        return table
