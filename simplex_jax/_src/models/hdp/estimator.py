"""The hierarchical Dirichlet process as a scikit-learn estimator."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.evaluate.fits import Mixture, Topics
from simplex_jax._src.models import estimator as common
from simplex_jax._src.models import hdp
from simplex_jax._src.models.hdp.fitting import DIMS
from simplex_jax._src.models.hdp.options import Options
from simplex_jax._src.models.hdp.posterior import Draws
from simplex_jax._src.models.topics import proportions
from simplex_jax._src.models.topics.estimator import CountEstimator
from simplex_jax._src.models.topics.fits import Shares

_DRAWS = "draws."


@common.parameters_of(Options)
class HierarchicalDirichletProcess(CountEstimator):
    """An unknown number of topics: `simplex_jax.hdp.fit` with the scikit-learn interface.

    Fit it to counts [D, V], dense or sparse, as from `CountVectorizer`. It reports the topics that
    at least half of the kept posterior samples have. There is no `partial_fit`: a sample is a topic
    for every token, so all documents are needed.

    Args:
        {options}
        fractions: Treatment of counts that are not whole numbers: "error", or "draw", which rounds
            each up or down at random and preserves its mean.
        callbacks: Hooks, called after every evaluation, e.g. `runtime.Progress()`; see `runtime`.
        random_state: A seed, a `RandomState`, a `Generator` or None.

    Attributes:
        components_: Posterior mean of the topics, float32 [K, V]; rows sum to 1.
        components_sd_: Their posterior standard deviation, [K, V].
        prevalence_: Share of the tokens in each topic, [K].
        alpha_: Concentration of the topic proportions of a document.
        alpha_sd_: Its posterior standard deviation, 0 if it is given.
        gamma_: Concentration of the weights of the topics.
        gamma_sd_: Its posterior standard deviation, 0 if it is given.
        topic_alpha_: Concentrations of the proportions in each topic, [K].
        num_topics_: Number of topics reported, K; proportions of documents leave the share of
            others.
        num_topics_posterior_: Posterior probability of each number of topics with tokens, by
            number; after `fit`.
        diagnostics_: R-hat and effective sample sizes by name; after `fit`.
        traces_: "alpha", "gamma" and "topics" over the last half, [T, chains]; after `fit`.
        samples_: Posterior draws, "labels" [S, chains, T] and more; after `fit`.
        metrics_: One record per evaluation; after `fit`.
        warnings_: Sentences, each a reason to doubt the results; after `fit`.
        seed_: The seed that was used.
        n_features_in_: V.
        feature_names_in_: The words, if X names its columns.

    Example:
        >>> from sklearn.feature_extraction.text import CountVectorizer
        >>> from sklearn.pipeline import make_pipeline
        >>> from simplex_jax.sklearn import HierarchicalDirichletProcess
        >>> texts = ["cat dog cat dog cat", "sun moon sun moon sun"] * 20
        >>> topics = HierarchicalDirichletProcess(passes=100, random_state=0)
        >>> shares = make_pipeline(CountVectorizer(), topics).fit_transform(texts)
        >>> bool(shares[0].argmax() != shares[1].argmax())
        True
    """

    _RESULTS: ClassVar = (
        *("topics", "topics_sd", "prevalence", "alpha", "alpha_sd", "gamma", "gamma_sd"),
        *("topic_alpha", "num_topics_posterior", "traces"),
    )
    _FITTED: ClassVar = (
        *("components_", "components_sd_", "prevalence_", "alpha_", "alpha_sd_"),
        *("gamma_", "gamma_sd_", "topic_alpha_", "seed_"),
    )

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Sample the topics of documents X, and return what `transform` then does, [D, K].

        Proportions of the fit itself are by the samples' own labels, which `transform` lacks.
        Errors are those of `fit`.
        """
        return self.fit(X).transform(X)

    def _fit(self, data: sp.csr_array) -> np.ndarray:
        fitted = self._sampled(hdp.fit, data)
        self._predictive, self.samples_ = fitted.predictive, fitted.partitions
        common.end(fitted.interrupted)
        return fitted.proportions

    def _draws(self) -> Draws:
        return self._predictive

    def _shards(self, counts: sp.csr_array) -> Iterator[Shares]:
        return proportions.over_draws(self._predictive, self.num_topics_, counts, seed=self.seed_)

    def _arrays(self) -> common.Arrays:
        beta = {"beta": np.asarray(self._predictive.beta)}
        draws = {f"{_DRAWS}{name}": x for name, x in self._predictive.arrays().items()}
        return super()._arrays() | draws | beta

    def _take(self, arrays: common.Arrays) -> None:
        shape, beta = arrays["components_"].shape, float(arrays.pop("beta"))
        draws = common.part(arrays, _DRAWS)
        self._predictive = Draws.restored(draws, beta, shape[1], shape[0])
        super()._take(arrays)

    def to_record(self) -> Topics:
        """Return the topics and the samples of labels for `simplex_jax.evaluate`."""
        topics = super().to_record()
        if "traces_" not in vars(self):
            return topics
        return topics._replace(samples={}, mixture=Mixture(self.traces_, self.samples_, DIMS))
