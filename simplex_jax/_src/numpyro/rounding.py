"""Bounds on the rounding error of the log ratio of an exact move, whose true value is 0.

If a likelihood is conjugate in a site, its log is a sum of n_j y_j - e_j exp(y_j) and terms without
the site, where y is the native value and n the counts, which the shapes a exceed. With u = eps / 2,
half a unit in the last place, the roundings and their sizes are:

- exp(y), by u relatively: n_j u in a log likelihood of n_j counts, and e_j exp(y_j) u;
- its logarithm in a model, and the product of that with n_j: n_j |y_j| u each;
- what a row adds before the sum, mainly log factorials: for n_j counts in R terms, n_j log(1 + n_j
  / R) u, since the log factorial of a term of n_j / R has that size;
- the sum of the terms, in a tree as in XLA: the sum T of their absolute values times u for the last
  level; lower levels matter less, because their errors have independent signs;
- the shapes at both ends, `simplex_moves.rounding`, times the change of y_j that they multiply;
- in the rest of the ratio, log theta_j of up to |y_j| + log(a_j), as sum and factor of a_j.

Each of the sizes M = T + sum_j [a_j (1 + |y_j| + log(1 + a_j / R)) + e_j exp(y_j)] thus has about 4
roundings, 4 u = 2 eps, at either end. In float32 that is 0.15 nats for 100,000 rows of categories,
of which a run shows about 0.03, and 1e-5 nats for ten. If all moves of a chain are within the bound
B, the density of its law is that of the model up to factors between exp(-B) and exp(B). A larger
jump of the log density is seen. A smaller one changes no probability by more than tanh(B / 4),
because a factor of exp(B) between two sets moves the share p of one by no more.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from simplex_jax._src.numpyro.density import Density

MOST = 1.0
"""The largest bound, in nats, with which a site is called exact."""


def size(
    density: Density, y: jax.Array, shape: jax.Array, falls: jax.Array | float = 0.0
) -> jax.Array:
    """Return M at one end of a move, a scalar; `falls` is e exp(y), in the shape of the site."""
    logs = 1 + jnp.abs(y) + jnp.log1p(shape / density.terms.astype(y.dtype))
    return density.size + (shape * logs + falls).sum()


def allowed(sizes: Sequence[jax.Array], rise: jax.Array, shape_error: jax.Array) -> jax.Array:
    """Return the bound on the log ratio of an exact move, in nats, a scalar.

    The sizes are M at its ends; the rise is the change of the native value.
    """
    epsilon = jnp.finfo(rise.dtype).eps
    return (2 * epsilon * sum(sizes) + (shape_error * jnp.abs(rise)).sum()).astype(rise.dtype)


def shown(bound: float) -> str:
    """Return the diagnostics of a conjugate site."""
    if bound > MOST:
        return f"conjugate, jumps up to {bound:.2g} nats not seen"
    # Omit a bound that no run could distinguish from 0.
    return "exact" + (f" within {bound:.2g} nats" if bound > 0.01 else "")


def message(name: str, bound: float) -> str:
    """Return the reason for doubt for a site with a bound above `MOST`."""
    return (
        f"rounding hides jumps of the log density of up to {bound:.2g} nats from the draws of "
        f"{name!r}: a constraint, threshold or changepoint of that size would be ignored. If the "
        "model has any, use double precision, jax.config.update('jax_enable_x64', True); if it has "
        "none, the draws are exact"
    )


def confirms(log_ratio: jax.Array, bound: jax.Array) -> jax.Array:
    """Return whether the log density confirms that a move is exact; an infinite one never does."""
    return jnp.isfinite(log_ratio) & (jnp.abs(log_ratio) <= bound)
