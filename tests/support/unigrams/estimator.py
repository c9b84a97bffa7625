"""A mixture of unigrams as a scikit-learn estimator."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from simplex_jax._src.models.unigrams import fitting
from simplex_jax._src.models.unigrams.options import Options

from simplex_jax._src.models import estimator as common
from simplex_jax._src.models import unigrams
from simplex_jax._src.models.topics.estimator import CountEstimator


@common.parameters_of(Options)
class Unigrams(CountEstimator):
    """Kinds of documents.

    Args:
        {options}
        fractions: What to do with counts that are not whole numbers: "error", or "draw", which
            rounds each up or down at random.
        callbacks: Hooks, called after every evaluation, e.g. `runtime.Progress()`; see `runtime`.
        random_state: A seed, a `RandomState`, a `Generator` or None.
    """

    _FITTED: ClassVar = ("components_", "shares_", "seed_")

    def _fit(self, data: sp.csr_array) -> np.ndarray:
        fitted = self._sampled(unigrams.fit, data)
        self.components_, self.shares_ = fitted.topics, fitted.shares
        self.samples_, self.order_ = fitted.samples, fitted.order
        common.end(fitted.interrupted)
        return fitted.proportions

    def transform(self, X: Any) -> np.ndarray:
        """Return the probabilities of the labels of documents."""
        return fitting.labels(self.components_, self.shares_, self._data(X, reset=False))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log density of documents."""
        counts = self._data(X, reset=False)
        return fitting.log_density(self.components_, self.shares_, counts)
