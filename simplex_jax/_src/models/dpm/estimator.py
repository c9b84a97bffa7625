"""The Dirichlet-process mixture as a scikit-learn estimator."""

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.base import PyTree
from simplex_jax._src.corpus import frames
from simplex_jax._src.evaluate import fits
from simplex_jax._src.extras import needed
from simplex_jax._src.models import dpm
from simplex_jax._src.models import estimator as common
from simplex_jax._src.models.dpm import clusters, families, variables
from simplex_jax._src.models.dpm.clusters import Assignment, Samples
from simplex_jax._src.models.dpm.data import whole_weights
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.families.categorical import variables as by_variable
from simplex_jax._src.models.dpm.families.diagonal_gaussian import DiagonalNormals, moments_of
from simplex_jax._src.models.dpm.families.family import SparseRows, counts_of
from simplex_jax._src.models.dpm.families.gaussian import Normals, check_covariance, of_scales
from simplex_jax._src.models.dpm.families.gaussian_prior import prior_of
from simplex_jax._src.models.dpm.families.von_mises_fisher import Directions
from simplex_jax._src.models.dpm.model import Mixture
from simplex_jax._src.models.dpm.options import Options
from simplex_jax._src.models.dpm.variables import CONCENTRATION, Columns
from simplex_jax._src.models.estimator import Arrays
from simplex_jax._src.models.options import MOST_CONCENTRATION
from simplex_jax._src.options import number

# Component families by name, for tables in the form of scikit-learn.
#
# The hyperparameters of a family of `dpm.families`, or of a mixed table, are a dict of plain
# arrays, so that they can be saved and the family rebuilt.

Table: TypeAlias = np.ndarray | sp.csr_array | dict[str, Any]

ALLOWED = {
    "gaussian": ("mean", "scale", "strength", "freedom"),
    "diagonal_gaussian": ("mean", "scale", "strength", "freedom"),
    "mixed": ("kinds", "concentration"),
    "categorical": ("categories", "concentration"),
    "multinomial": ("concentration",),
    "von_mises_fisher": ("concentrations", "weights", "mean", "strength"),
}
"""Hyperparameters of each family, except its size."""


class Input(NamedTuple):
    """Properties of the tables that a family accepts."""

    sparse: bool = False
    positive: bool = False  # entries must not be negative
    missing: bool = False  # NaN is a missing value
    mixed: bool = False  # columns are of several types


INPUT = {
    "categorical": Input(missing=True),
    "diagonal_gaussian": Input(missing=True),
    "gaussian": Input(missing=True),
    "mixed": Input(missing=True, mixed=True),
    "multinomial": Input(sparse=True, positive=True),
}
"""Inputs of the families that accept more than dense tables of real numbers."""


def hyperparameters(name: str, X: Table, given: Mapping[str, Any]) -> Arrays:
    """Return all hyperparameters of a family, with defaults computed from the table."""
    if name not in ALLOWED:
        raise ValueError(f"family must be one of {', '.join(ALLOWED)}, or a Family; it is {name!r}")
    if unknown := [key for key in given if key not in ALLOWED[name]]:
        raise ValueError(
            f"family_params of {name} can be {', '.join(ALLOWED[name])}; they have {unknown[0]!r}"
        )
    parameters: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if name == "mixed":
        return _mixed(X, **parameters)
    assert not isinstance(X, dict)
    if name == "diagonal_gaussian":
        parameters = _diagonal(np.asarray(X, np.float64), parameters)
    elif name == "gaussian":
        parameters = _gaussian(np.asarray(X, np.float64), parameters)
    elif name == "categorical":
        # One category if all values of a column are missing.
        largest = np.where(np.isnan(X), -1, X).max(axis=0)
        parameters = {"categories": np.maximum(largest, 0).astype(int) + 1} | parameters
    elif name == "multinomial":
        parameters["categories"] = X.shape[1]
    else:
        parameters["dimension"] = X.shape[1]
    return {key: np.asarray(value) for key, value in parameters.items()}


def _gaussian(X: np.ndarray, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the prior, with the defaults of `gaussian_of`, or of `gaussian` for a given scale."""
    _check_mean(X, parameters)
    if "scale" in parameters:
        defaults: dict[str, Any] = {"strength": 1.0}
    else:
        remedy = f"give scale in family_params (n_samples = {len(X)})"
        X = X[~np.isnan(X).all(axis=1)]  # else the prior takes them for rows at the mean
        check_covariance(X, "X", remedy, np.float32)
        given = (parameters.get(name) for name in ("strength", "freedom"))
        defaults = prior_of(X, *given)._asdict()
    return {"mean": np.nanmean(X, axis=0)} | defaults | parameters


def _diagonal(X: np.ndarray, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the prior, with the defaults of `diagonal_gaussian_of`."""
    _check_mean(X, parameters)
    if {"mean", "scale"} <= set(parameters):
        return parameters
    each = [moments_of(x, f"column {j} of X", np.float32) for j, x in enumerate(X.T)]
    mean, sd = np.array(each).T
    return {"mean": mean, "scale": sd**2} | parameters


def _check_mean(X: np.ndarray, parameters: dict[str, Any]) -> None:
    shape = np.shape(parameters.get("mean", X[0]))
    if shape != X.shape[1:]:
        raise ValueError(f"mean in family_params must have shape [{X.shape[1]}]; it is {shape}")
    if not np.isfinite(parameters.get("mean", 0.0)).all():
        raise ValueError(f"mean in family_params must be finite; it is {parameters['mean']}")


def _mixed(
    X: Any, kinds: Mapping[str, str] | None = None, concentration: float = CONCENTRATION
) -> Arrays:
    concentration = number("concentration in family_params", concentration, most=MOST_CONCENTRATION)
    table_columns = variables.from_frame(X, kinds)[0]._replace(concentration=concentration)
    variables.check_concentration(table_columns, concentration, "concentration in family_params")
    return {"columns": np.asarray(json.dumps(table_columns._asdict()))}


def columns_of(parameters: Arrays) -> Columns:
    """Return the columns of a mixed table from their hyperparameters."""
    found = variables.from_json(json.loads(str(parameters["columns"])))
    assert isinstance(found, Columns)
    return found


def as_mapping(X: Any) -> dict[str, Any]:
    """Return the columns of a mixed table by name; columns of an array are "x0", "x1", ..."""
    if frames.names_of(X) is not None:
        return frames.as_frame(X).columns
    table = None if isinstance(X, Mapping) else np.asarray(X, object)
    if table is None:
        raise ValueError("X must be a data frame or a table [n, p]: a mapping is for dpm.fit")
    if table.ndim != 2:
        raise ValueError(f"X must be a data frame or a table [n, p]; its shape is {table.shape}")
    return {f"x{j}": table[:, j] for j in range(table.shape[1])}


def build_family(name: str, parameters: Arrays) -> Family:
    """Return the family with the given `hyperparameters`.

    Gaussian families have prior mean 0: `rows_of` subtracts the mean in float64.
    """
    if name == "mixed":
        return columns_of(parameters).family()
    if name in ("gaussian", "diagonal_gaussian"):
        options: dict[str, Any] = {"freedom": None} if name == "gaussian" else {}
        options |= {key: value for key, value in parameters.items() if key != "mean"}
        of = of_scales if name == "gaussian" else families.diagonal_gaussian
        return of(np.zeros(len(parameters["mean"]), np.float32), **options)
    if name == "categorical":
        sizes = parameters["categories"].tolist()
        return families.categorical(sizes, parameters.get("concentration", 1.0))
    if name == "multinomial":
        size, concentration = int(parameters["categories"]), parameters.get("concentration", 0.5)
        return families.multinomial(size, concentration)
    of_directions = {key: value for key, value in parameters.items() if key != "dimension"}
    return families.von_mises_fisher(int(parameters["dimension"]), **of_directions)


def rows_of(name: str, parameters: Arrays, X: Table) -> PyTree:
    """Convert a table to the rows of a family."""
    if name == "mixed":
        table_columns = columns_of(parameters)
        return table_columns.rows(table_columns.table(X))
    assert not isinstance(X, dict)
    if name in ("gaussian", "diagonal_gaussian"):
        with np.errstate(over="ignore"):  # the family rejects infinities
            return (np.asarray(X, np.float64) - parameters["mean"]).astype(np.float32)
    if name == "multinomial":
        return families.multinomial_rows(X)
    if name == "categorical":
        # As integers if possible: the family rejects other numbers.
        codes = np.where(np.isnan(X), -1, X)
        with np.errstate(invalid="ignore"):  # beyond int32
            whole = codes.astype(np.int32)
        return whole if (whole == codes).all() else X
    return np.asarray(X, np.float32)


def table_of(name: str | Family, parameters: Arrays, rows: PyTree) -> Any:
    """Return complete rows of a family as a table; the inverse of `rows_of`."""
    if name == "mixed":
        columns = columns_of(parameters).from_rows(rows)
        return np.stack([column.astype(object) for column in columns.values()], axis=1)
    if isinstance(rows, SparseRows):
        categories = parameters.get("categories", np.asarray(rows.words).max() + 1)
        return counts_of(rows, int(categories))
    if name in ("gaussian", "diagonal_gaussian"):
        return np.asarray(rows, np.float64) + parameters["mean"]
    return jax.tree.map(np.asarray, rows)


def padded(rows: PyTree, least: int, most: int) -> PyTree:
    """Pad rows with rows without data, so that few shapes are compiled.

    The number of rows becomes a power of two, at least `least`, or above `most` a multiple of it.
    The number of entries of sparse rows becomes a power of two.
    """
    size = family_rows.size(rows)
    width = max(least, 1 << (size - 1).bit_length())
    if width > most:
        width = -(-size // most) * most
    if isinstance(rows, SparseRows):
        entries = rows.words.shape[0]
        room = (0, (1 << (entries - 1).bit_length()) - entries)
        rows = rows._replace(words=jnp.pad(rows.words, room), counts=jnp.pad(rows.counts, room))
    else:
        rows = jax.tree.map(jnp.asarray, rows)
    return family_rows.take(rows, jnp.arange(width, dtype=jnp.int32))


def atoms_of(name: str, parameters: Arrays, leaves: list[np.ndarray]) -> PyTree:
    """Build atoms from their leaves."""
    if name == "mixed":
        return columns_of(parameters).from_leaves(leaves)
    if name == "multinomial":
        return leaves[0]
    record: Any = {
        "gaussian": Normals,
        "diagonal_gaussian": DiagonalNormals,
        "von_mises_fisher": Directions,
    }.get(name)
    return tuple(leaves) if record is None else record(*leaves)


def profiles_of(name: str, parameters: Arrays, drawn: PyTree, weights: np.ndarray) -> Arrays:
    """Return the attributes that describe clusters: averages of atoms over posterior samples.

    Atoms are leaves [S, K, ...]; their weights in each cluster, [S, C, K], sum to 1.
    """
    # Draws from a wide prior may be infinite.
    used = np.any(weights > 0, axis=1)

    def mean(leaf: np.ndarray) -> np.ndarray:
        flat = np.asarray(leaf, np.float64).reshape(*leaf.shape[:2], -1)
        flat = np.where(used[:, :, None], flat, 0)
        total = sum(w @ atoms for w, atoms in zip(weights, flat, strict=True))
        return total.reshape(len(total), *leaf.shape[2:])

    if name == "mixed":
        table_columns = columns_of(parameters)
        described = jax.tree.map(mean, table_columns.described(drawn))
        return {"profiles_": table_columns.in_units(table_columns.flat(described))}
    if name == "diagonal_gaussian":
        means = parameters["mean"] + mean(drawn.mean)
        return {"means_": means, "standard_deviations_": mean(drawn.sd)}
    if name == "gaussian":
        root = np.asarray(drawn.root, np.float64)
        inverse = np.linalg.inv(np.where(used[:, :, None, None], root, np.eye(root.shape[-1])))
        return {
            "means_": parameters["mean"] + mean(drawn.mean),
            "covariances_": mean(inverse @ np.swapaxes(inverse, -1, -2)),
        }
    if name == "von_mises_fisher":
        total = mean(drawn.mean)
        directions = total / np.linalg.norm(total, axis=1, keepdims=True)
        return {"means_": directions, "concentrations_": mean(drawn.concentration)}
    if name == "multinomial":
        return {"components_": mean(np.exp(drawn))}
    tables = by_variable(parameters["categories"].tolist(), drawn)
    return {"components_": np.concatenate([mean(np.exp(table)) for table in tables], axis=1)}


with needed("simplex_jax.sklearn"):
    from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data

# New rows are padded to at least this number, so that few shapes are compiled.
_LEAST_ROWS = 256

# Attributes that only some families have.
_OF_FAMILY = (
    *("means_", "covariances_", "standard_deviations_", "concentrations_", "profiles_"),
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
    ("von_mises_fisher"). Use "mixed" for data frames or object arrays with columns of numbers,
    categories and counts. Missing real numbers are NaN.

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
        callbacks: Hooks, called after every evaluation, e.g. `runtime.Progress()`; see `runtime`.
        random_state: A seed, a `RandomState`, a `Generator` or None.

    Attributes:
        labels_: Cluster of every row, 0 for the largest, int [N].
        n_clusters_: Number C of clusters in `labels_`.
        expected_loss_: Expected loss of `labels_`.
        weights_: Posterior mean of the weight of each cluster, [C]; they sum to less than 1.
        means_: For "gaussian": posterior mean of the components of the rows of each cluster,
            averaged over these rows, [C, p]. For "von_mises_fisher": its direction, [C, p].
        covariances_: For "gaussian": posterior mean covariances, [C, p, p].
        concentrations_: For "von_mises_fisher": posterior mean concentrations, [C].
        standard_deviations_: For "diagonal_gaussian": posterior mean standard deviations, [C, p].
        columns_: For "mixed": names, kinds, values and scales of the columns.
        profiles_: For "mixed": posterior means, in the order of `columns_.items`: mean and standard
            deviation of each number, in its units, rates and probabilities, [C, V].
        components_: For "multinomial" and "categorical": posterior mean probabilities of the
            values, for "categorical" one column after the other, [C, sum of d].
        concentration_: Posterior mean of alpha, or alpha as given.
        concentration_sd_: Its posterior standard deviation, 0 if alpha is given.
        n_clusters_posterior_: Posterior probability of each number of clusters, by number; after
            `fit`.
        mixtures_: S posterior samples of the mixture, for the prediction of rows: weights [S, K],
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
        *("labels_", "n_clusters_", "expected_loss_", "weights_", *_OF_FAMILY),
        *("concentration_", "concentration_sd_", "membership_", "family_", "seed_"),
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Sample the clusters of the rows of X [N, p].

        `sample_weight`, positive whole numbers [N], is how many equal rows each row stands for: the
        result has the distribution of a fit to X with each row repeated as often.

        Raises:
            ValueError: A parameter is out of range, or X does not fit the family.
            KeyboardInterrupt: Ctrl-C or SIGTERM ended the run early; the attributes hold the
                results so far.
        """
        self.seed_ = self._seed()
        family = self.family
        table = self._table(X, family, reset=True)
        params = self.family_params or {}
        size = _size(table)
        copies = np.arange(size)
        if sample_weight is not None:
            weights = whole_weights(sample_weight, tuple(map(str, copies)))
            copies = np.repeat(copies, weights)
        if isinstance(family, Family):
            if params:
                raise ValueError("family_params are for families by name: leave them out")
            parameters: common.Arrays = {}
        else:
            every = table if sample_weight is None else _take(table, copies)
            parameters = hyperparameters(family, every, params)
        rows, built = _rows(family, parameters, table), _built(family, parameters)
        fit = functools.partial(dpm.fit, weights=sample_weight)
        fitted = self._sampled(fit, rows, built)
        self.family_, self.family_params_ = family, parameters
        self.labels_, self.expected_loss_ = fitted.point.labels, fitted.point.loss
        self.n_clusters_ = fitted.num_clusters
        self.concentration_, self.concentration_sd_ = fitted.alpha, fitted.alpha_sd
        self.n_clusters_posterior_ = fitted.num_clusters_posterior
        self.traces_ = fitted.traces
        self.samples_ = fitted.partitions
        self._describe(fitted.clusters.samples.mixtures, copies)
        common.end(fitted.interrupted)
        return self

    def _describe(self, mixtures: Mixture, copies: np.ndarray | None = None) -> None:
        """Set the attributes of the clusters from the samples, in which rows come as `copies`."""
        width, count = mixtures.log_weights.shape[1], self.n_clusters_
        labels = self.labels_ if copies is None else self.labels_[copies]
        sampled = self.samples_["labels"].reshape(-1, len(labels)).astype(np.int64)
        pairs = labels * width + sampled
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
            described = profiles_of(self.family_, self.family_params_, mixtures.atoms, shares)
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
        return columns_of(self.family_params_)

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
        omits the multinomial coefficient. In tables ("mixed") numbers are in standard deviations of
        their columns, and counts relative to the Poisson distribution of their mean: these
        compare only fits of the same rows.
        """
        return self._assign(X).log_predictive

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of `score_samples(X)`."""
        return float(self.score_samples(X).mean())

    def sample(
        self,
        n_samples: int = 1,
        *,
        random_state: Any = None,
        draw: int | None = None,
        lengths: Any = None,
    ) -> tuple[Any, np.ndarray]:
        """Draw new rows from the posterior predictive distribution, and their clusters.

        The density of rows is that of `score_samples`.

        Args:
            n_samples: Number of rows n, from 1 on.
            random_state: A seed, a `RandomState`, a `Generator` or None, for that of the estimator.
            draw: Index of the posterior sample that all rows are from; by default each row has a
                random one.
            lengths: For counts ("multinomial"): their number in each row, an integer or [n].

        Returns:
            X [n, p] as `fit` takes it, without missing values: a sparse array of counts, codes of
            categories, or numbers; for "mixed" an array of objects with the columns of `columns_`,
            in their units. And the cluster of each row, int32 [n]; -1 for a new one.

        Raises:
            ValueError: An argument is out of range, or `lengths` is missing.
        """
        check_is_fitted(self)
        family, parameters = self.family_, self.family_params_
        seed = self._seed(random_state)
        samples = Samples(self.mixtures_, self.membership_)
        rows, labels = clusters.sample(
            seed, samples, _built(family, parameters), n_samples, draw=draw, lengths=lengths
        )
        return table_of(family, parameters, rows), labels

    def _table(self, X: Any, family: str | Family, *, reset: bool) -> Table:
        """Return X as a table for a family, checked by scikit-learn."""
        takes = _takes(family)
        if takes.mixed:
            mapping = as_mapping(X)
            validate_data(self, X, reset=reset, skip_check_array=True)
            if reset or frames.names_of(X) is not None:
                return mapping
            # An array has the columns in the order of the fit.
            return dict(zip(self.columns_.columns, mapping.values(), strict=True))
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr" if takes.sparse else False,
            dtype=[np.float64, np.float32, np.int64],
            ensure_all_finite="allow-nan" if takes.missing else True,
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
            padded(rows, _LEAST_ROWS, clusters.SHARD),
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
        drawn = atoms_of(str(arrays["family_"]), self.family_params_, leaves)
        self.mixtures_ = Mixture(jnp.asarray(log_weights), jnp.asarray(log_rest), drawn)
        super()._take(arrays)


def _size(table: Table) -> int:
    return len(next(iter(table.values()))) if isinstance(table, dict) else table.shape[0]


def _take(table: Table, rows: np.ndarray) -> Table:
    """Return the rows of a table with these numbers."""
    if not isinstance(table, dict):
        return table[rows]
    # Columns keep their types, which tell categories from numbers.
    return {
        name: column.take(rows) if hasattr(column, "take") else np.asarray(column, object)[rows]
        for name, column in table.items()
    }


def _takes(family: str | Family) -> Input:
    return INPUT.get(family if isinstance(family, str) else "", Input())


def _built(family: str | Family, parameters: common.Arrays) -> Family:
    return family if isinstance(family, Family) else build_family(family, parameters)


def _rows(family: str | Family, parameters: common.Arrays, table: Table) -> Any:
    return table if isinstance(family, Family) else rows_of(family, parameters, table)
