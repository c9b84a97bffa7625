"""The spherical admixture model as a scikit-learn estimator."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import vectors as unit
from simplex_jax._src.models import estimator as common
from simplex_jax._src.models import sam
from simplex_jax._src.models.sam import density
from simplex_jax._src.models.sam.data import scatter_to_all
from simplex_jax._src.models.sam.joint import to_device
from simplex_jax._src.models.sam.options import Options
from simplex_jax._src.warn import warn_caller


class _Documents(NamedTuple):
    """Unit vectors, and the mask of their rows in X: the other rows are zero."""

    vectors: sp.csr_array
    rows: np.ndarray


@common.parameters_of(Options)
class SphericalAdmixture(common.TopicEstimator):
    """Topics of unit vectors: `simplex_jax.sam.fit` with the scikit-learn interface.

    Fit it to rows of length 1, dense or sparse, as from `TfidfVectorizer`. A negative entry of a
    topic says that its documents lack the word. A zero row, from a text without a known word, has
    no direction: it is left out with a warning, and gets equal proportions of all topics.

    Proportions are random and depend on the row of a document: the same X gives the same ones, but
    in another row a document gets others. scikit-learn's `check_estimator` does not notice, because
    it tests a single topic there.

    There is no `partial_fit`: with the noisy gradient of B out of D documents, steps have to be so
    short that some 5 D / B updates are worth one with all documents. A stream that
    shows each document once would end long before.

    Args:
        {options}
        normalise: Scale rows to length 1 first; otherwise rows of another length are an error.
        callbacks: Hooks, called after every evaluation, e.g. `runtime.Progress()`; see `runtime`.
        random_state: A seed, a `RandomState`, a `Generator` or None.

    Attributes:
        components_: Posterior mean directions of the topics, unit rows, float32 [K, V].
        components_sd_: Posterior standard deviation of their entries, [K, V].
        num_topics_: Number of topics, K.
        length_: Mean resultant length of each topic, 1 if all samples agree, [K].
        prevalence_: Mean share of each topic in the documents, [K].
        alpha_: Concentration of topic proportions.
        sigma_: Concentration of the topics.
        kappa1_: Concentration of the documents.
        samples_: Posterior draws: "topics" [S, chains, K, V], "alpha", "sigma", "kappa1", "step".
        order_: Topic of each chain that was matched to each topic, [chains, K].
        diagnostics_: R-hat and effective sample sizes by name.
        metrics_: One record per evaluation.
        warnings_: Sentences, each a reason to doubt the results; after `fit`.
        seed_: The seed that was used.
        n_features_in_: V.
        feature_names_in_: The words, if X names its columns.

    Example:
        >>> import numpy as np
        >>> from simplex_jax.sklearn import SphericalAdmixture
        >>> X = np.repeat([[0.8, 0.6, 0.0, 0.0], [0.0, 0.0, 0.6, 0.8]], 10, axis=0)
        >>> model = SphericalAdmixture(2, alpha=0.5, kappa1=200.0, passes=200, random_state=0)
        >>> model.fit_transform(X).shape, model.components_.shape
        ((20, 2), (2, 4))
    """

    _RESULTS: ClassVar = (
        *("topics", "topics_sd", "length", "prevalence", "alpha", "sigma", "kappa1"),
        *("samples", "order"),
    )
    _FITTED: ClassVar = (
        *("components_", "components_sd_", "length_", "prevalence_", "alpha_", "sigma_"),
        *("kappa1_", "seed_"),
    )

    n_components: int = dataclasses.field(default=10, kw_only=False)
    normalise: bool = False

    def _fit(self, data: _Documents) -> np.ndarray:
        fitted = self._sampled(sam.fit, data.vectors)
        common.end(fitted.interrupted)
        return scatter_to_all(data.rows, fitted.proportions)

    def transform(self, X: Any) -> np.ndarray:
        """Return the posterior mean of the topic proportions of unit vectors, float32 [D, K].

        Monte Carlo with the seed of the fit: the same X gives the same proportions.
        """
        data = self._data(X, reset=False)
        if not data.rows.any():
            return scatter_to_all(data.rows, np.zeros((0, len(self.components_)), np.float32))
        proportions = sam.transform(
            self.components_, data.vectors, alpha=self.alpha_, kappa1=self.kappa1_, seed=self.seed_
        )
        return scatter_to_all(data.rows, proportions)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log density of documents on the sphere, by importance sampling.

        Documents without a direction are ignored.

        Raises:
            ValueError: No document has a direction.
        """
        data = self._data(X, reset=False)
        if not data.rows.any():
            raise ValueError("X has zero vectors only, which have no density")
        estimate = density.estimate(
            jax.random.key(self.seed_),
            jnp.asarray(self.components_),
            to_device(data.vectors),
            self.alpha_,
            self.kappa1_,
        )
        return -density.log_perplexity(estimate.log_p)

    def log_perplexity(self, X: Any) -> float:
        """Return -score(X), the value per document that the literature reports."""
        return -self.score(X)

    def _data(self, X: Any, *, reset: bool) -> _Documents:
        table = self._table(X, reset=reset, words=2)
        zero = abs(table).sum(axis=1) == 0
        if zero.all() and reset:
            raise ValueError("X has zero vectors only, which have no direction: nothing is left")
        if zero.any():
            rows = np.flatnonzero(zero)
            warn_caller(
                f"X has {len(rows)} zero vectors, which have no direction (the first is row "
                f"{rows[0]}, counted from 0): they are left out, with equal proportions of all "
                "topics",
            )
            # Other rows keep their indices, which error messages name.
            stand_ins = sp.csr_array((np.ones(len(rows)), (rows, 0 * rows)), table.shape)
            table = table + stand_ins
        vectors = unit.from_array(table, source="X", normalise=bool(self.normalise))
        return _Documents(vectors.values[~zero], ~zero)
