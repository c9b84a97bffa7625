"""The spherical admixture model as a scikit-learn estimator."""

import dataclasses
import warnings
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax import spherical
from simplex_jax.corpus import vectors as unit
from simplex_jax.evaluate import spherical as densities
from simplex_jax.models import sam_documents
from simplex_jax.scikit import common


class _Documents(NamedTuple):
    """Unit vectors, and which rows of X they are: the others are zero."""

    vectors: sp.csr_array
    rows: np.ndarray

    def with_those_aside(self, proportions: np.ndarray) -> np.ndarray:
        """Return proportions of all rows, equal ones of those that are zero."""
        topics = proportions.shape[1]
        everyone = np.full((len(self.rows), topics), 1 / topics, proportions.dtype)
        everyone[self.rows] = proportions
        return everyone


@dataclasses.dataclass(eq=False, repr=False)
class SphericalAdmixture(common.TopicEstimator):
    """Topics of unit vectors, sampled: `simplex_jax.spherical.fit` with scikit-learn's manners.

    Fit it to rows of length 1, dense or sparse, as `TfidfVectorizer` makes them. A negative entry
    of a topic says that its documents lack the word. A row that is zero, of a text without a known
    word, has no direction: it is put aside with a warning, and has equal shares of all topics.

    Proportions are drawn, with random numbers that go by the row of a document: the same X gives
    the same ones, but in another row a document has others. scikit-learn's `check_estimator`, which
    looks at a single topic there, does not see it.

    There is no `partial_fit`: topics follow the noisy gradient of a batch, for which B out of D
    documents want steps so short that some 5 D / B updates are worth one of all documents
    (`spherical.resolve`). A stream that shows each document once would end long before.

    Args:
        n_components: Number of topics K, at most the number of words.
        alpha: Concentration of the topic proportions, per topic.
        sigma: Concentration of the topics about their mean; None for 2 a word.
        kappa0: Concentration of that mean; None for 2 a word.
        kappa1: Concentration of the documents about theirs; None for 6 a word.
        learn: Those of "alpha", "kappa1" and "sigma" that are sampled along.
        sampler: One of `models.sam.SAMPLERS`.
        start: Where chains begin, "variational" or "prior", see `spherical.resolve`.
        step_size: None for that of `models.sam.build`.
        batch_size: Documents in a batch; None for all.
        passes: Length of the fit in passes over the documents; None for 300, unless `seconds` is
            given.
        seconds: Its length in seconds of training, instead.
        n_chains: Chains side by side, whose topics are matched and averaged.
        keep_samples: Posterior samples of the topics to keep in `samples_`.
        normalize: Scale rows to length 1 first; without it rows of another length are an error.
        callbacks: Hooks, called with an `Event` after every evaluation; say `hooks.Progress()`.
        random_state: A seed, a `RandomState` or None.

    Attributes:
        components_: Posterior mean directions of the topics, unit rows, float32 [K, V].
        components_sd_: Posterior standard deviation of their entries, [K, V].
        length_: Mean resultant length of each topic, 1 where all samples agree, [K].
        prevalence_: Mean share of each topic in the documents, [K].
        alpha_: Concentration of topic proportions.
        sigma_: Concentration of the topics.
        kappa1_: Concentration of the documents.
        samples_: Kept samples: "topics" [S, chains, K, V], "alpha", "sigma", "kappa1", "step".
        order_: Topic of each chain that was matched to each topic, [chains, K].
        diagnostics_: R-hat and effective sample sizes by name.
        metrics_: One record an evaluation.
        seed_: The seed that was used.
        n_features_in_: V.
        feature_names_in_: The words, where X names its columns.

    Example:
        >>> import numpy as np
        >>> from simplex_jax.scikit import SphericalAdmixture
        >>> X = np.repeat([[0.8, 0.6, 0.0, 0.0], [0.0, 0.0, 0.6, 0.8]], 10, axis=0)
        >>> model = SphericalAdmixture(2, alpha=0.5, kappa1=200.0, passes=200, random_state=0)
        >>> model.fit_transform(X).shape, model.components_.shape
        ((20, 2), (2, 4))
    """

    _FITTED: ClassVar = (
        "components_",
        "components_sd_",
        "length_",
        "prevalence_",
        "alpha_",
        "sigma_",
        "kappa1_",
        "seed_",
    )

    n_components: int = 10
    _: dataclasses.KW_ONLY
    alpha: float = 10.0
    sigma: float | None = None
    kappa0: float | None = None
    kappa1: float | None = None
    learn: tuple[str, ...] = ()
    sampler: str = "gsgnht"
    start: str = "variational"
    step_size: float | None = None
    keep_samples: int = 0
    normalize: bool = False

    def _fit(self, data: _Documents) -> np.ndarray:
        found = spherical.fit(
            data.vectors,
            self.n_components,
            alpha=self.alpha,
            sigma=self.sigma,
            kappa0=self.kappa0,
            kappa1=self.kappa1,
            learn=tuple(self.learn),
            sampler=self.sampler,
            start=self.start,
            step_size=self.step_size,
            keep_samples=self.keep_samples,
            **self._run(),
        )
        self.components_, self.components_sd_ = found.mean, found.sd
        self.length_, self.prevalence_ = found.length, found.prevalence
        self.alpha_, self.sigma_, self.kappa1_ = found.alpha, found.sigma, found.kappa1
        self.samples_, self.order_ = found.kept, found.order
        self.diagnostics_, self.metrics_ = found.diagnostics, found.metrics
        common.end(found.interrupted)
        return data.with_those_aside(found.proportions)

    def transform(self, X: Any) -> np.ndarray:
        """Return the posterior mean of the topic proportions of unit vectors, float32 [D, K].

        Monte Carlo with the seed of the fit: the same X gives the same proportions.
        """
        data = self._data(X, reset=False)
        if not data.rows.any():
            return data.with_those_aside(np.zeros((0, len(self.components_)), np.float32))
        found = spherical.transform(
            self.components_, data.vectors, alpha=self.alpha_, kappa1=self.kappa1_, seed=self.seed_
        )
        return data.with_those_aside(found)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log density of documents on the sphere, by importance sampling.

        Of those that have a direction, that is.

        Raises:
            ValueError: None has.
        """
        data = self._data(X, reset=False)
        if not data.rows.any():
            raise ValueError("X has zero vectors only, which have no density")
        found = densities.importance(
            jax.random.key(self.seed_),
            jnp.asarray(self.components_),
            sam_documents.to_device(data.vectors),
            self.alpha_,
            self.kappa1_,
        )
        return -densities.log_perplexity(found.log_p)

    def log_perplexity(self, X: Any) -> float:
        """Return -score(X), as the literature of the model reports it; it is per document."""
        return -self.score(X)

    def _data(self, X: Any, *, reset: bool) -> _Documents:
        table = self._table(X, reset=reset, words=2)
        zero = abs(table).sum(axis=1) == 0
        if zero.all() and reset:
            raise ValueError("X has zero vectors only, which have no direction: nothing is left")
        if zero.any():
            rows = np.flatnonzero(zero)
            warnings.warn(
                f"X has {len(rows)} zero vectors, which have no direction (the first is row "
                f"{rows[0]}, counted from 0): they are put aside, with equal shares of all topics",
                stacklevel=3,
            )
            # Others keep their numbers, which messages about them name.
            stand_ins = sp.csr_array((np.ones(len(rows)), (rows, 0 * rows)), table.shape)
            table = table + stand_ins
        found = unit.from_array(table, source="X", normalise=bool(self.normalize))
        return _Documents(found.values[~zero], ~zero)
