"""Probabilities that underflow, where another kernel learns a concentration from them.

A model sees the probabilities of a ``dist.Dirichlet`` site as numbers, of which those below the
smallest normal one are raised to it (`sites.constrain`). A likelihood does not mind. The density of
the site does, as a function of its concentration: it has the logarithms. Sites that one kernel
moves see each other's logarithms as they are. Where another kernel moves the concentration the
share of numbers that were raised is counted, as a mean over the steps.
"""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from simplex_jax.base import PyTree
from simplex_jax.numpyro_kernels import density, sites
from simplex_jax.numpyro_kernels.density import Target
from simplex_jax.numpyro_kernels.sites import Values

# Of numbers of a Dirichlet law a concentration of 0.08 raises so many. The mean logarithm is then
# off by a thousandth of its standard deviation.
_MOST = 1e-3


def first(target: Target, values: Values, names: Sequence[str]) -> Values:
    """Return a share of 0 for each site to be counted, of those that a kernel moves as logarithms.

    `values` are constrained values of all sites that this kernel sees.
    """
    return {
        name: jnp.zeros((), values[name].dtype)
        for name in density.dependent(target, values, names, _concentration)
        if target.layout.kinds[name] == sites.SIMPLEX
    }


def _concentration(law: dist.Distribution) -> PyTree:
    return getattr(sites.base(law), "concentration", ())


def counted(raised: Values, z: Values, i: jax.Array) -> Values:
    """Return the mean shares after a step that led to log-probabilities z, and i steps before."""

    def mean(name: str, old: jax.Array) -> jax.Array:
        share = sites.underflows(z[name]).mean(dtype=old.dtype)
        return old + (share - old) / (i + 1).astype(old.dtype)

    return {name: mean(name, old) for name, old in raised.items()}


def doubts(raised: Mapping[str, jax.Array]) -> list[str]:
    """Return a reason to doubt for each site of which too many numbers were raised."""
    return [
        f"probabilities of {name!r} underflow, and are raised to the smallest normal number before "
        "another kernel learns their concentration from them: write LogDirichlet, of "
        "simplex_jax.numpyro_distributions, for dist.Dirichlet"
        for name, share in raised.items()
        if share > _MOST
    ]


def shown(raised: Mapping[str, jax.Array], name: str) -> str:
    """Return what diagnostics say of a site, which is nothing where no number was raised."""
    share = float(raised.get(name, 0))
    return f", raised {share:.1%}" if share > 0 else ""
