"""Component families of mixtures, each a record of functions, and their rows.

A custom family is a `Family` of plain functions, or of functions that `simplex_jax.base.bind` binds
to hyperparameters: these can change without recompilation, and a run with others is not resumed.
See `multinomial` for a short one.
"""

from simplex_jax.models.dpm.families.categorical import categorical, variables
from simplex_jax.models.dpm.families.diagonal_gaussian import (
    diagonal_gaussian,
    diagonal_gaussian_of,
)
from simplex_jax.models.dpm.families.family import Family, Simplex
from simplex_jax.models.dpm.families.gaussian import gaussian, gaussian_of
from simplex_jax.models.dpm.families.multinomial import multinomial
from simplex_jax.models.dpm.families.one_of import one_of
from simplex_jax.models.dpm.families.poisson import poisson
from simplex_jax.models.dpm.families.product import product
from simplex_jax.models.dpm.families.rows import (
    Selected,
    SparseRows,
    check,
    multinomial_rows,
    on_device,
    size,
    take,
    width,
)
from simplex_jax.models.dpm.families.von_mises_fisher import von_mises_fisher

__all__ = [
    "Family",
    "Selected",
    "Simplex",
    "SparseRows",
    "categorical",
    "check",
    "diagonal_gaussian",
    "diagonal_gaussian_of",
    "gaussian",
    "gaussian_of",
    "multinomial",
    "multinomial_rows",
    "on_device",
    "one_of",
    "poisson",
    "product",
    "size",
    "take",
    "variables",
    "von_mises_fisher",
    "width",
]
