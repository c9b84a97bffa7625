"""Component families by name, for tables in the form of scikit-learn.

The hyperparameters of a family of `dpm.families`, or of a mixed table, are a dict of plain arrays,
so that they can be saved and the family rebuilt.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.base import PyTree
from simplex_jax._src.corpus import frames
from simplex_jax._src.models.dpm import families, variables
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import rows as family_rows
from simplex_jax._src.models.dpm.families.categorical import variables as by_variable
from simplex_jax._src.models.dpm.families.diagonal_gaussian import DiagonalNormals, moments_of
from simplex_jax._src.models.dpm.families.gaussian import Normals, check_covariance, of_scales
from simplex_jax._src.models.dpm.families.gaussian_prior import prior_of
from simplex_jax._src.models.dpm.families.rows import SparseRows
from simplex_jax._src.models.dpm.families.von_mises_fisher import Directions
from simplex_jax._src.models.dpm.variables import CONCENTRATION, Columns
from simplex_jax._src.models.estimator import Arrays
from simplex_jax._src.models.options import MOST_CONCENTRATION
from simplex_jax._src.options import number

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
        check_covariance(X, "X", remedy, np.float32)
        given = (parameters.get(name) for name in ("strength", "freedom"))
        defaults = prior_of(X, *given)._asdict()
    return {"mean": X.mean(axis=0)} | defaults | parameters


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


def build(name: str, parameters: Arrays) -> Family:
    """Return the family with the given `hyperparameters`.

    Gaussian families have prior mean 0: `rows` subtracts the mean in float64.
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


def rows(name: str, parameters: Arrays, X: Table) -> PyTree:
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


def atoms(name: str, parameters: Arrays, leaves: list[np.ndarray]) -> PyTree:
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


def profiles(name: str, parameters: Arrays, drawn: PyTree, weights: np.ndarray) -> Arrays:
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
