"""Topics in slices as a scikit-learn estimator."""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.models import dtm
from simplex_jax._src.models import estimator as common
from simplex_jax._src.models.dtm import fitting
from simplex_jax._src.models.dtm.options import Options
from simplex_jax._src.models.topics import proportions
from simplex_jax._src.models.topics.estimator import CountEstimator
from simplex_jax._src.models.topics.fits import Shares


@common.parameters_of(Options)
class DynamicTopicModel(CountEstimator):
    """Topics that change between slices: `simplex_jax.dtm.fit` with the scikit-learn interface.

    Fit it to counts [D, V], dense or sparse, as from `CountVectorizer`, and the times or groups of
    the documents: `fit(X, times=years)`. Without them all documents are in one slice. `transform`
    takes documents of no known slice; `dtm.Fit.transform` those of a slice.

    Args:
        {options}
        slices: Periods of the times: "year", "decade", or a number of periods with about equally
            many documents; None as in `dtm.fit`.
        fractions: Treatment of counts that are not whole numbers: "error", or "draw", which rounds
            each up or down at random and preserves its mean.
        callbacks: Hooks, called after every evaluation, e.g. `runtime.Progress()`; see `runtime`.
        random_state: A seed, a `RandomState`, a `Generator` or None.

    Attributes:
        components_: Posterior mean of the topics over the slices, float32 [K, V]; rows sum to 1.
        components_sd_: Their posterior standard deviation, [K, V].
        components_by_slice_: Posterior mean of the topics of each slice, float32 [T, K, V].
        prevalence_: Share of the tokens in each topic, [K].
        prevalence_by_slice_: Expected proportions of a document of each slice, [T, K].
        alpha_: Concentrations of topic proportions, [K].
        document_steadiness_: Concentration of a document's own topics; None if it has none.
        slices_: The slices, with their names and times; after `fit`.
        diagnostics_: R-hat and effective sample sizes by name; after `fit`.
        metrics_: One record per evaluation; after `fit`.
        warnings_: Sentences, each a reason to doubt the results; after `fit`.
        seed_: The seed that was used.
        n_features_in_: V.
        feature_names_in_: The words, if X names its columns.

    Example:
        >>> from simplex_jax.sklearn import DynamicTopicModel
        >>> counts = [[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 2, 9]] * 2
        >>> topics = DynamicTopicModel(n_components=2, passes=40, static_passes=10, random_state=0)
        >>> topics.fit(counts, times=[1914, 1944] * 4).components_by_slice_.shape
        (2, 2, 4)
    """

    _FITTED: ClassVar = (
        "components_",
        "components_sd_",
        "components_by_slice_",
        "prevalence_",
        "prevalence_by_slice_",
        "alpha_",
        "document_steadiness_",
        "seed_",
    )

    slices: Any = None

    def fit(self, X: Any, y: Any = None, *, times: Any = None, groups: Any = None) -> Self:
        """Sample the topics of documents X [D, V], with their times [D], groups [D] or both.

        Raises:
            ValueError: A parameter is out of range, X is not valid data, or a document has no time
                or group.
            KeyboardInterrupt: Ctrl-C or SIGTERM ended the run early; the attributes hold the
                results so far.
        """
        self.fit_transform(X, times=times, groups=groups)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, *, times: Any = None, groups: Any = None
    ) -> np.ndarray:
        """Sample the topics of documents X, and return their proportions [D, K]; see `fit`."""
        self.seed_ = self._seed()
        chosen = {"times": times, "groups": groups, "slices": self.slices}
        fitted = self._sampled(
            lambda data, **arguments: dtm.fit(data, **arguments, **chosen),
            self._data(X, reset=True),
        )
        self.components_, self.components_sd_ = fitted.topics, fitted.topics_sd
        self.components_by_slice_ = fitted.topics_by_slice
        self.prevalence_, self.alpha_ = fitted.prevalence, fitted.alpha
        self.document_steadiness_ = fitting.own_topics(fitted)
        self.prevalence_by_slice_, self.slices_ = fitted.prevalence_by_slice, fitted.slices
        common.end(fitted.interrupted)
        return fitted.proportions

    def _arrays(self) -> common.Arrays:
        own = np.nan if self.document_steadiness_ is None else self.document_steadiness_
        return super()._arrays() | {"document_steadiness_": np.asarray(own)}

    def _take(self, arrays: common.Arrays) -> None:
        super()._take(arrays)
        own = float(arrays["document_steadiness_"])
        self.document_steadiness_ = None if np.isnan(own) else own

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log predictive probability of a word in one half of each document.

        Proportions are inferred from the other half, with the mean topics over the slices.

        Raises:
            ValueError: No document has two words.
        """
        counts = self._data(X, reset=False)
        given = self.components_[None], self.alpha_[None], self.document_steadiness_
        place = np.zeros(counts.shape[0], int)
        return -float(np.log(fitting.perplexity_of(*given, counts, place, seed=self.seed_)))

    def _shards(self, counts: sp.csr_array) -> Iterator[Shares]:
        return proportions.shards(
            self.components_,
            self.alpha_,
            counts,
            seed=self.seed_,
            share_error=self.share_error,
            own=self.document_steadiness_,
        )
