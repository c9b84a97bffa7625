"""A mixture of unigrams as a scikit-learn estimator."""

from typing import Any, ClassVar

import numpy as np
from simplex_jax._src.models.unigrams import fitting
from simplex_jax._src.models.unigrams.options import Options

from simplex_jax._src.corpus import from_counts
from simplex_jax._src.models import estimator as common
from simplex_jax._src.models import unigrams


@common.parameters_of(Options)
class Unigrams(common.TopicEstimator):
    """Kinds of documents.

    Args:
        {options}
        callbacks: Hooks, called with an `Event` after every evaluation; say `hooks.Progress()`.
        random_state: A seed, a `RandomState`, a `Generator` or None.
    """

    _FITTED: ClassVar = ("components_", "shares_", "seed_")

    def _data(self, X: Any, *, reset: bool) -> Any:
        return from_counts(self._table(X, reset=reset))

    def _fit(self, data: Any) -> np.ndarray:
        fitted = self._sampled(unigrams.fit, data)
        self.components_, self.shares_ = fitted.topics, fitted.shares
        self.samples_, self.order_ = fitted.samples, fitted.order
        common.end(fitted.interrupted)
        return fitted.proportions

    def transform(self, X: Any) -> np.ndarray:
        """Return the probabilities of the labels of documents."""
        return fitting._labels(self.components_, self.shares_, self._data(X, reset=False))
