"""Component families of mixtures, each a record of functions, and their rows.

A custom family is a `Family` of plain functions, or of functions that `simplex_jax.bind` binds
to hyperparameters: these can change without recompilation, and a run with others is not resumed.
See `multinomial` for a short one.
"""

from simplex_jax._src.models.dpm.families.categorical import categorical
from simplex_jax._src.models.dpm.families.diagonal_gaussian import (
    diagonal_gaussian,
    diagonal_gaussian_of,
)
from simplex_jax._src.models.dpm.families.family import Family, multinomial_rows
from simplex_jax._src.models.dpm.families.family import Simplex as Simplex
from simplex_jax._src.models.dpm.families.gaussian import gaussian, gaussian_of
from simplex_jax._src.models.dpm.families.multinomial import multinomial
from simplex_jax._src.models.dpm.families.one_of import one_of
from simplex_jax._src.models.dpm.families.poisson import poisson
from simplex_jax._src.models.dpm.families.product import product
from simplex_jax._src.models.dpm.families.von_mises_fisher import von_mises_fisher

__all__ = [
    "Family",
    "categorical",
    "diagonal_gaussian",
    "diagonal_gaussian_of",
    "gaussian",
    "gaussian_of",
    "multinomial",
    "multinomial_rows",
    "one_of",
    "poisson",
    "product",
    "von_mises_fisher",
]
