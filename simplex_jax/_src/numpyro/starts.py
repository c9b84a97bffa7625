"""A search for values from which a chain can start, as in numpyro's own kernels."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from simplex_jax._src.numpyro import sites
from simplex_jax._src.numpyro.sites import Values

# Same as in `numpyro.infer.util.find_valid_initial_params`.
TRIES = 100


def search(
    key: jax.Array,
    values: Values,
    redraw: Callable[[jax.Array, jax.Array], Values],
    is_valid: Callable[[Values], jax.Array],
) -> Values:
    """Return the first valid values, or the last that were tried.

    `redraw` takes a key and whether to draw from the prior. A flat law may be far from where the
    density is positive, and so may the prior, so they alternate.
    """

    def is_searching(carry: tuple[jax.Array, Values]) -> jax.Array:
        i, values = carry
        return (i < TRIES) & ~is_valid(values)

    def retry(carry: tuple[jax.Array, Values]) -> tuple[jax.Array, Values]:
        i, _ = carry
        return i + 1, redraw(jax.random.fold_in(key, i), i % 2 == 0)

    return jax.lax.while_loop(is_searching, retry, (jnp.zeros((), jnp.int32), values))[1]


def message(names: Iterable[str], init_params: Mapping[str, Any] | None) -> str:
    """Return the error message for when no values are valid."""
    init_params = init_params or {}
    if all(name in init_params for name in names):
        return (
            "the log density or its gradient is not finite at init_params: give values at which "
            "the priors and all data have a positive density"
        )
    where = "to start from"
    if init_params:
        where = f"beside the values of {sites.listed(init_params)} in init_params"
    return (
        f"{TRIES} draws of the latent sites found none {where} at which the log density and its "
        "gradient are finite: check the model, or give init_params where the priors and all data "
        "have a positive density"
    )
