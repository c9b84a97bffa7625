"""Probabilities that underflow while another kernel learns a concentration from them.

A model sees the probabilities of a ``dist.Dirichlet`` site as numbers, and those below the smallest
normal number are raised to it (`sites.constrain`). This does not affect a likelihood, but it
affects the site's density as a function of its concentration, which contains the logarithms. Sites
moved by one kernel see each other's exact logarithms. If another kernel moves the concentration,
or the prior is any other law on the simplex, which sees the raised numbers itself, their share is
counted, as a mean over the steps.
"""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from simplex_jax._src.base import PyTree
from simplex_jax._src.numpyro import density, sites
from simplex_jax._src.numpyro.density import Target
from simplex_jax._src.numpyro.sites import Values

# At a concentration of 0.08, this share of Dirichlet probabilities is raised. The mean logarithm is
# then off by a thousandth of its standard deviation.
_MOST = 1e-3


def first(target: Target, values: Values, names: Sequence[str]) -> Values:
    """Return a share of 0 for each counted site, of those that a kernel moves as logarithms.

    `values` are constrained values of all sites that this kernel sees.
    """
    learned = density.dependent(target, values, names, _concentration)
    seen = density.unnamed(target, values).union(learned)
    return {
        name: jnp.zeros((), values[name].dtype)
        for name in names
        if name in seen and target.layout.kinds[name] == sites.SIMPLEX
    }


def _concentration(law: dist.Distribution) -> PyTree:
    return getattr(sites.base(law), "concentration", ())


def counted(raised: Values, z: Values, i: jax.Array) -> Values:
    """Return the mean shares after a step to log-probabilities z, with i steps before it."""

    def mean(name: str, old: jax.Array) -> jax.Array:
        share = sites.underflows(z[name]).mean(dtype=old.dtype)
        return old + (share - old) / (i + 1).astype(old.dtype)

    return {name: mean(name, old) for name, old in raised.items()}


def doubts(raised: Mapping[str, jax.Array]) -> list[str]:
    """Return a reason for doubt for each site with too many raised numbers."""
    return [
        f"probabilities of {name!r} underflow, and are raised to the smallest normal number before "
        "another kernel learns their concentration from them, or a prior other than dist.Dirichlet "
        "sees them: use LogDirichlet from simplex_jax.numpyro, with a factor for "
        "what the prior has besides"
        for name, share in raised.items()
        if share > _MOST
    ]


def shown(raised: Mapping[str, jax.Array], name: str) -> str:
    """Return the diagnostics of a site, empty if no number was raised."""
    share = float(raised.get(name, 0))
    return f", raised {share:.1%}" if share > 0 else ""
