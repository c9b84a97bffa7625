"""The Dirichlet-process mixture as a scikit-learn estimator."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src.corpus import frames
from simplex_jax._src.evaluate import fits
from simplex_jax._src.extras import needed
from simplex_jax._src.models import dpm
from simplex_jax._src.models import estimator as common
from simplex_jax._src.models.dpm import clusters
from simplex_jax._src.models.dpm import estimator_families as families
from simplex_jax._src.models.dpm.clusters import Assignment, Samples
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import rows as family_rows
from simplex_jax._src.models.dpm.model import Mixture
from simplex_jax._src.models.dpm.options import Options
from simplex_jax._src.models.dpm.variables import Columns

with needed("simplex_jax.sklearn"):
    from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data

# New rows are padded to at least this number, so that few shapes are compiled.
_LEAST_ROWS = 256

# Attributes that only some families have.
_OF_FAMILY = (
    "means_",
    "covariances_",
    "standard_deviations_",
    "concentrations_",
    "profiles_",
    "components_",
)


@common.parameters_of(Options)
class DirichletProcessMixture(
    ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, common.Estimator
):
    r"""Clustering with an unknown number of clusters: `simplex_jax.dpm.fit` for scikit-learn.

    The rows of X are real vectors ("gaussian"), codes 0, 1, ... of categories per column, as from
    `OrdinalEncoder`, with NaN or -1 for missing values ("categorical"), counts as from
    `CountVectorizer`, dense or sparse ("multinomial"), or unit vectors, as from `Normalizer`
    ("von_mises_fisher"). Use "diagonal_gaussian" for real numbers with missing values, NaN, and
    "mixed" for data frames or object arrays with columns of numbers, categories and counts.

    The posterior is over partitions of the rows. `labels_` is the partition of least expected loss.
    New rows are assigned to its C clusters through the posterior samples. Each sample gives the
    probabilities of its own clusters for a row, and each of these is divided among the C clusters
    in proportion to the rows they share. The remainder is the probability of a new cluster. There
    is no `partial_fit`: a sample is a label for every row, so all rows are needed.

    Args:
        family: "gaussian", "diagonal_gaussian", "categorical", "multinomial", "von_mises_fisher" or
            "mixed"; or a `Family` of `dpm.families` with all its hyperparameters, for dense X.
        family_params: Arguments of the named family, by default {}. For "gaussian": "mean",
            "scale" ([p, p], or [S, p, p], of which each component has one), "strength" and
            "freedom", by default chosen from X such that clusters can be found in any dimension
            (`gaussian_of`); with a given scale, strength is 1 and freedom p + 2. For
            "diagonal_gaussian": the same names, where mean and scale default to mean and variance
            of each column of X (`diagonal_gaussian_of`). For "mixed": "kinds", see
            `dpm.fit` (columns are "x0", "x1", ... if X has no names), and "concentration" (0.5).
            For "categorical": "categories", by default as many as occur in X, and "concentration"
            (1). For "multinomial": "concentration" (0.5). For "von_mises_fisher":
            "concentrations", "weights", "mean" and "strength".
        {options}
        callbacks: Hooks, called with an `Event` after every evaluation, e.g. `hooks.Progress()`.
        random_state: A seed, a `RandomState`, a `Generator` or None.

    Attributes:
        labels_: Cluster of every row, 0 for the largest, int [N].
        n_clusters_: Number C of clusters in `labels_`.
        expected_loss_: Expected loss of `labels_`.
        weights_: Posterior mean of the weight of each cluster, [C]; they sum to less than 1.
        means_: For "gaussian": posterior mean of the components of the rows of each cluster,
            averaged over these rows, [C, p]. For "von_mises_fisher": its direction, [C, p].
        covariances_: For "gaussian": likewise, [C, p, p].
        concentrations_: For "von_mises_fisher": likewise, [C].
        standard_deviations_: For "diagonal_gaussian": likewise, [C, p].
        columns_: For "mixed": names, kinds, values and scales of the columns, a `dpm.Columns`.
        profiles_: For "mixed": likewise, in the order of `columns_.items`: mean and standard
            deviation of each number, in its units, rates and probabilities, [C, V].
        components_: For "multinomial" and "categorical": likewise, probabilities of the values, for
            "categorical" one column after the other, [C, sum of d].
        concentration_: Posterior mean of alpha, or alpha as given.
        concentration_sd_: Its posterior standard deviation, 0 if alpha is given.
        n_clusters_posterior_: Posterior probability of each number of clusters, by number; after
            `fit`.
        mixtures_: A `Mixture` of S posterior samples, for the prediction of rows: weights [S, K],
            atoms of leaves [S, K, ...].
        membership_: Share of the rows of each component of these in each cluster, [S, C, K].
        samples_: Posterior partitions, "labels" [S, chains, N], "alpha" and "step"; after `fit`.
        traces_: "alpha", "num_clusters" and "largest" over the last half, [T, chains]; after `fit`.
        diagnostics_: R-hat and effective sample sizes of the traces, by name; after `fit`.
        metrics_: One record per evaluation; after `fit`.
        warnings_: Sentences, each a reason to doubt the results; after `fit`.
        family_: The family of the fit.
        family_params_: All hyperparameters of the named family.
        seed_: The seed that was used.
        n_features_in_: Number of columns.
        feature_names_in_: Their names, where X has them.

    Example:
        >>> import numpy as np
        >>> from simplex_jax.sklearn import DirichletProcessMixture
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(60, 2)) + np.repeat([[-9.0, 0.0], [9.0, 0.0]], [40, 20], axis=0)
        >>> model = DirichletProcessMixture(random_state=0).fit(X)
        >>> model.n_clusters_, model.labels_[[0, 39, 40, 59]].tolist()
        (2, [0, 0, 1, 1])
        >>> model.predict([[-9.0, 0.0], [9.0, 0.0]]).tolist()
        [0, 1]
    """

    _FITTED: ClassVar = (
        "labels_",
        "n_clusters_",
        "expected_loss_",
        "weights_",
        *_OF_FAMILY,
        "concentration_",
        "concentration_sd_",
        "membership_",
        "family_",
        "seed_",
    )

    family: str | Family = dataclasses.field(default="gaussian", kw_only=False)
    family_params: Mapping[str, Any] | None = None

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        takes = _takes(self.family)
        tags.input_tags.sparse = takes.sparse
        tags.input_tags.positive_only = takes.positive
        tags.input_tags.allow_nan = takes.missing
        tags.input_tags.categorical = self.family in ("categorical", "mixed")
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Sample the clusters of the rows of X [N, p].

        Raises:
            ValueError: A parameter is out of range, or X does not fit the family.
            KeyboardInterrupt: Ctrl-C or SIGTERM ended the run early; the attributes hold the
                results so far.
        """
        self.seed_ = self._seed()
        family = self.family
        table = self._table(X, family, reset=True)
        params = self.family_params or {}
        if isinstance(family, Family):
            if params:
                raise ValueError("family_params are for families by name: leave them out")
            parameters: common.Arrays = {}
        else:
            parameters = families.hyperparameters(family, table, params)
        rows, built = _rows(family, parameters, table), _built(family, parameters)
        fitted = self._sampled(dpm.fit, rows, built)
        self.family_, self.family_params_ = family, parameters
        self.labels_, self.expected_loss_ = fitted.point.labels, fitted.point.loss
        self.n_clusters_ = fitted.num_clusters
        self.concentration_, self.concentration_sd_ = fitted.alpha, fitted.alpha_sd
        self.n_clusters_posterior_ = fitted.num_clusters_posterior
        self.traces_ = fitted.traces
        self.samples_ = fitted.partitions
        self._describe(fitted.clusters.samples.mixtures)
        common.end(fitted.interrupted)
        return self

    def _describe(self, mixtures: Mixture) -> None:
        """Set the attributes of the clusters from the samples."""
        width, count = mixtures.log_weights.shape[1], self.n_clusters_
        sampled = self.samples_["labels"].reshape(-1, len(self.labels_)).astype(np.int64)
        pairs = self.labels_ * width + sampled
        overlaps = np.array([np.bincount(one, minlength=count * width) for one in pairs])
        overlaps = overlaps.reshape(-1, count, width)
        sizes = overlaps.sum(axis=1, keepdims=True)
        for name in _OF_FAMILY:  # from an earlier fit of another family
            self.__dict__.pop(name, None)
        self.mixtures_ = mixtures
        self.membership_ = (overlaps / np.maximum(sizes, 1)).astype(np.float32)
        weights = np.exp(np.asarray(mixtures.log_weights, np.float64))
        self.weights_ = np.einsum("sk,sck->c", weights, self.membership_) / len(weights)
        if not isinstance(self.family_, Family):
            shares = overlaps / overlaps.sum(axis=(0, 2))[:, None]
            described = families.profiles(self.family_, self.family_params_, mixtures.atoms, shares)
            for name, array in described.items():
                setattr(self, name, array)

    def to_record(self) -> fits.Mixture:
        """Return traces and samples of `fit` for `simplex_jax.evaluate`."""
        check_is_fitted(self)
        return fits.Mixture(*(vars(self).get(name, {}) for name in ("traces_", "samples_")))

    @property
    def columns_(self) -> Columns:
        """The columns of a mixed table: names, kinds, values and scales."""
        check_is_fitted(self)
        if self.family_ != "mixed":
            raise AttributeError("columns_ are those of family 'mixed'")
        return families.columns_of(self.family_params_)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable cluster of each row; -1 for a new cluster.

        For training rows it can differ from `labels_`, which depends on all rows.
        """
        assigned = self._assign(X)
        proportions = assigned.proportions
        return np.where(assigned.new > proportions.max(axis=1), -1, proportions.argmax(axis=1))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each cluster, float32 [n, C].

        The remainder to 1 is the probability that a row is the first of a new cluster.
        """
        return self._assign(X).proportions

    def transform(self, X: Any) -> np.ndarray:
        """Return `predict_proba(X)` as features."""
        return self.predict_proba(X)

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log predictive density of each row, float64 [n].

        The density is averaged over the posterior samples and includes new clusters. That of counts
        omits the multinomial coefficient.
        """
        return self._assign(X).log_predictive

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of `score_samples(X)`."""
        return float(self.score_samples(X).mean())

    def _table(self, X: Any, family: str | Family, *, reset: bool) -> families.Table:
        """Return X as a table for a family, checked by scikit-learn."""
        takes = _takes(family)
        if takes.mixed:
            mapping = families.as_mapping(X)
            validate_data(self, X, reset=reset, skip_check_array=True)
            if reset or frames.names_of(X) is not None:
                return mapping
            # An array has the columns in the order of the fit.
            return dict(zip(self.columns_.columns, mapping.values(), strict=True))
        try:
            return validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr" if takes.sparse else False,
                dtype=[np.float64, np.float32, np.int64],
                ensure_all_finite="allow-nan" if takes.missing else True,
            )
        except ValueError as error:
            if family != "gaussian" or "contains NaN" not in str(error):
                raise
        raise ValueError(
            "Input X contains NaN, and family 'gaussian' takes complete rows only: "
            "DirichletProcessMixture('diagonal_gaussian') leaves missing numbers out, "
            "DirichletProcessMixture('mixed') also takes categories and counts; or impute them"
        )

    def _assign(self, X: Any) -> Assignment:
        check_is_fitted(self)
        table = self._table(X, self.family_, reset=False)
        rows = _rows(self.family_, self.family_params_, table)
        family = _built(self.family_, self.family_params_)
        family.check(rows)
        size = family_rows.size(rows)
        assigned = clusters.assign(
            Samples(self.mixtures_, self.membership_),
            family,
            families.padded(rows, _LEAST_ROWS, clusters.SHARD),
        )
        return Assignment(
            assigned.proportions[:size], assigned.new[:size], assigned.log_densities[:, :size]
        )

    def _arrays(self) -> common.Arrays:
        if isinstance(self.family_, Family):
            raise ValueError("a Family cannot be saved: give the family by its name")
        arrays = super()._arrays()
        arrays |= {f"family.{name}": array for name, array in self.family_params_.items()}
        leaves = [self.mixtures_.log_weights, self.mixtures_.log_rest]
        leaves += jax.tree.leaves(self.mixtures_.atoms)
        return arrays | common.numbered("mixtures.", leaves)

    def _take(self, arrays: common.Arrays) -> None:
        self.family_params_ = common.part(arrays, "family.")
        log_weights, log_rest, *leaves = common.part(arrays, "mixtures.").values()
        drawn = families.atoms(str(arrays["family_"]), self.family_params_, leaves)
        self.mixtures_ = Mixture(jnp.asarray(log_weights), jnp.asarray(log_rest), drawn)
        super()._take(arrays)


def _takes(family: str | Family) -> families.Input:
    return families.INPUT.get(family if isinstance(family, str) else "", families.Input())


def _built(family: str | Family, parameters: common.Arrays) -> Family:
    return family if isinstance(family, Family) else families.build(family, parameters)


def _rows(family: str | Family, parameters: common.Arrays, table: families.Table) -> Any:
    return table if isinstance(family, Family) else families.rows(family, parameters, table)
