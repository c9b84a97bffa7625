"""Component laws by name: from tables as scikit-learn has them to the rows of a family.

The functions here know the four families of `models.dp_families`. What decides a family is a dict
of plain arrays, so that it can be saved and its record built again.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax.base import PyTree
from simplex_jax.models import dp_families
from simplex_jax.models.dp_families import Family, SparseRows
from simplex_jax.models.dp_families.gaussian import Normals
from simplex_jax.models.dp_families.von_mises_fisher import Directions
from simplex_jax.scikit.common import Arrays

Table: TypeAlias = np.ndarray | sp.csr_array

ALLOWED = {
    "gaussian": ("mean", "scale", "strength", "freedom"),
    "categorical": ("categories", "concentration"),
    "multinomial": ("concentration",),
    "von_mises_fisher": ("concentrations", "weights", "mean", "strength"),
}
"""What can be given of each family, beside its size."""


class Input(NamedTuple):
    """What tables a family takes.

    Attributes:
        sparse: Sparse ones.
        positive: Whether entries must not be negative.
        missing: Whether NaN is a missing value.
    """

    sparse: bool = False
    positive: bool = False
    missing: bool = False


INPUT = {
    "categorical": Input(missing=True),
    "multinomial": Input(sparse=True, positive=True),
}
"""Of those families that take other tables than dense ones of real numbers."""


def hyperparameters(name: str, X: Table, given: Mapping[str, Any]) -> Arrays:
    """Return everything that decides a family, with what was left out taken from a table.

    Args:
        name: One of `ALLOWED`.
        X: The table to fit.
        given: Arguments of the family, those of `ALLOWED`.

    Raises:
        ValueError: There is no such family or no such argument, or a column of X does not vary.
    """
    if name not in ALLOWED:
        raise ValueError(f"family must be one of {', '.join(ALLOWED)}, or a Family; it is {name!r}")
    if unknown := [key for key in given if key not in ALLOWED[name]]:
        raise ValueError(
            f"family_params of {name} can be {', '.join(ALLOWED[name])}; they have {unknown[0]!r}"
        )
    found: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if name == "gaussian":
        found = _gaussian(np.asarray(X, np.float64), found)
    elif name == "categorical":
        found = {"categories": _categories(np.asarray(X))} | found
    elif name == "multinomial":
        found["categories"] = X.shape[1]
    else:
        found["dimension"] = X.shape[1]
    return {key: np.asarray(value) for key, value in found.items()}


def _gaussian(X: np.ndarray, found: dict[str, Any]) -> dict[str, Any]:
    """Return the prior, as `gaussian_of` has it where it is left out."""
    found = {"mean": X.mean(axis=0), "strength": 1.0} | found
    shape = np.asarray(found["mean"]).shape
    if shape != X.shape[1:]:
        raise ValueError(f"mean in family_params must have shape [{X.shape[1]}]; it is {shape}")
    if "scale" in found:
        return found
    spread = X.std(axis=0)
    if not (spread > 0).all():
        column = int(np.argmin(spread))
        raise ValueError(
            f"column {column} of X does not vary (n_samples = {len(X)}): leave it out, or give "
            "scale in family_params"
        )
    covariance = np.atleast_2d(np.cov(X.T, bias=True))
    return found | {"scale": covariance + 1e-6 * np.diag(np.diag(covariance))}


def _categories(X: np.ndarray) -> list[int]:
    """Return how many categories each column has, one where no value is known."""
    known = np.where(np.isnan(X), -1, X)
    return [int(largest) + 1 if largest >= 0 else 1 for largest in known.max(axis=0)]


def build(name: str, found: Arrays) -> Family:
    """Return the family that arrays of `hyperparameters` decide.

    A Gaussian one is about 0: the prior mean is taken out of its rows, in float64.
    """
    if name == "gaussian":
        options = {key: value for key, value in found.items() if key != "mean"}
        return dp_families.gaussian(np.zeros(len(found["mean"]), np.float32), **options)
    if name == "categorical":
        sizes = found["categories"].tolist()
        return dp_families.categorical(sizes, found.get("concentration", 1.0))
    if name == "multinomial":
        size, concentration = int(found["categories"]), found.get("concentration", 0.5)
        return dp_families.multinomial(size, concentration)
    options = {key: value for key, value in found.items() if key != "dimension"}
    return dp_families.von_mises_fisher(int(found["dimension"]), **options)


def rows(name: str, found: Arrays, X: Table) -> PyTree:
    """Return the rows of a family that a table has."""
    if name == "gaussian":
        return (np.asarray(X, np.float64) - found["mean"]).astype(np.float32)
    if name == "multinomial":
        return dp_families.multinomial_rows(X)
    if name == "categorical":
        # As whole numbers, unless there are others: of those the family will tell.
        codes = np.where(np.isnan(X), -1, X)
        whole = codes.astype(np.int32)
        return whole if (whole == codes).all() else X
    return np.asarray(X, np.float32)


def padded(rows: PyTree, least: int, most: int) -> PyTree:
    """Return rows with others without data after them, so that few shapes are compiled.

    There are then a power of two of them, at least `least`, or a multiple of `most`; and so is the
    number of entries of sparse rows.
    """
    size = dp_families.size(rows)
    width = max(least, 1 << (size - 1).bit_length())
    if width > most:
        width = -(-size // most) * most
    if isinstance(rows, SparseRows):
        entries = rows.words.shape[0]
        room = (0, (1 << (entries - 1).bit_length()) - entries)
        rows = rows._replace(words=jnp.pad(rows.words, room), counts=jnp.pad(rows.counts, room))
    else:
        rows = jax.tree.map(jnp.asarray, rows)
    return dp_families.take(rows, jnp.arange(width, dtype=jnp.int32))


def atoms(name: str, leaves: list[np.ndarray]) -> PyTree:
    """Return atoms from their leaves."""
    if name == "multinomial":
        return leaves[0]
    record: Any = {"gaussian": Normals, "von_mises_fisher": Directions}.get(name)
    return tuple(leaves) if record is None else record(*leaves)


def profiles(name: str, found: Arrays, drawn: PyTree, weights: np.ndarray) -> Arrays:
    """Return attributes that describe clusters: averages of atoms of posterior samples.

    Args:
        name: Of the family.
        found: Its hyperparameters.
        drawn: Atoms, leaves [S, K, ...].
        weights: What each counts in each cluster, [S, C, K], with sums of 1 in each.
    """

    def mean(leaf: np.ndarray) -> np.ndarray:
        # Atoms of no rows, which may be anything, have weight 0.
        flat = np.asarray(leaf, np.float64).reshape(*leaf.shape[:2], -1)
        total = sum(w @ atoms for w, atoms in zip(weights, flat, strict=True))
        return total.reshape(len(total), *leaf.shape[2:])

    if name == "gaussian":
        inverse = np.linalg.inv(np.asarray(drawn.root, np.float64))
        return {
            "means_": found["mean"] + mean(drawn.mean),
            "covariances_": mean(inverse @ np.swapaxes(inverse, -1, -2)),
        }
    if name == "von_mises_fisher":
        total = mean(drawn.mean)
        directions = total / np.linalg.norm(total, axis=1, keepdims=True)
        return {"means_": directions, "concentrations_": mean(drawn.concentration)}
    if name == "multinomial":
        return {"components_": mean(np.exp(drawn))}
    tables = dp_families.variables(found["categories"].tolist(), drawn)
    return {"components_": np.concatenate([mean(np.exp(table)) for table in tables], axis=1)}
