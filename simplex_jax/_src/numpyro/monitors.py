"""What is watched in every step of a chain: numbers that underflow, and numbers that do not move.

**Underflow.** A model sees the probabilities of a ``dist.Dirichlet`` site as numbers, and those
below the smallest normal number are raised to it. This does not affect a likelihood, but it affects
the site's density as a function of its concentration, which contains the logarithms. Sites moved by
one kernel see each other's exact logarithms. If another kernel moves the concentration, or the
prior is any other distribution on the simplex, which sees the raised numbers itself, their share
is counted, as a mean over the steps.

**No movement.** Such numbers look like samples, and nothing computed from them is right. A chain
may be stuck where every move is rejected, or where moves are so short that only rounding changes
the numbers. Acceptance rates do not show the latter, and means of one chain neither. So each vector
of a site is compared with its value at the end of the warm-up.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from simplex_jax._src.base import PyTree
from simplex_jax._src.numpyro import density, sites
from simplex_jax._src.numpyro.density import Target
from simplex_jax._src.numpyro.sites import Values

# At a concentration of 0.08, this share of Dirichlet probabilities is raised. The mean logarithm is
# then off by a thousandth of its standard deviation.
_MOST_RAISED = 1e-3
# Steps after the warm-up until a site is said to be stuck.
_STEPS = 100
# Probabilities have moved if they changed by this part: less may be rounding. Those within a
# millionth of 0 or 1 are left out, unless all are: a sparse vector that stays sparse does move.
_PART, _CORNER = 1e-4, 1e-6


def initialize_raised(target: Target, values: Values, names: Sequence[str]) -> Values:
    """Return a share of 0 for each counted site, of those that a kernel moves as logarithms.

    `values` are constrained values of all sites that this kernel sees.
    """
    learned = density.dependent_sites(target, values, names, _concentration)
    seen = density.unnamed_priors(target, values).union(learned)
    return {
        name: jnp.zeros((), values[name].dtype)
        for name in names
        if name in seen and (kind := target.layout.kinds[name]).on_simplex and not kind.is_log
    }


def _concentration(distribution: dist.Distribution) -> PyTree:
    return getattr(sites.base(distribution), "concentration", ())


def update_raised(raised: Values, z: Values, i: jax.Array) -> Values:
    """Return the mean shares after a step to log-probabilities z, with i steps before it."""

    def mean(name: str, old: jax.Array) -> jax.Array:
        share = sites.underflows(z[name]).mean(dtype=old.dtype)
        return old + (share - old) / (i + 1).astype(old.dtype)

    return {name: mean(name, old) for name, old in raised.items()}


def raised_warnings(raised: Mapping[str, jax.Array]) -> list[str]:
    """Return a warning for each site with too many raised numbers."""
    return [
        f"probabilities of {name!r} underflow, and are raised to the smallest normal number before "
        "another kernel learns their concentration from them, or a prior other than dist.Dirichlet "
        "sees them: use LogDirichlet from simplex_jax.numpyro, with a factor for "
        "what the prior has besides"
        for name, share in raised.items()
        if share > _MOST_RAISED
    ]


def raised_str(raised: Mapping[str, jax.Array], name: str) -> str:
    """Return the diagnostics of a site, empty if no number was raised."""
    share = float(raised.get(name, 0))
    return f", raised {share:.1%}" if share > 0 else ""


class Still(NamedTuple):
    """A site at the end of the warm-up, and which of its vectors have moved since then."""

    start: jax.Array
    moved: jax.Array  # [...], without the last axis if they are log-probabilities


def initialize_still(z: Values, logs: Sequence[str]) -> dict[str, Still]:
    """Return the sites as unmoved; those in `logs` are log-probabilities."""
    return {
        name: Still(y, jnp.zeros(y.shape[:-1] if name in logs else y.shape, bool))
        for name, y in z.items()
    }


def update_still(
    still: Mapping[str, Still], z: Values, i: jax.Array, num_warmup: jax.Array
) -> dict[str, Still]:
    """Return the sites after a step to z, with i steps before it."""

    def one(name: str, old: Still) -> Still:
        y = z[name]
        is_first = i <= num_warmup
        moved = old.moved | _moved(old.start, y, rows=old.moved.ndim < y.ndim)
        return Still(jnp.where(is_first, y, old.start), ~is_first & moved)

    return {name: one(name, old) for name, old in still.items()}


def _moved(start: jax.Array, y: jax.Array, *, rows: bool) -> jax.Array:
    if not rows:
        return y != start
    if y.shape[-1] == 1:  # a simplex of one point
        return jnp.ones(y.shape[:-1], bool)
    before, after = jnp.exp(start), jnp.exp(y)
    inside = (before > _CORNER) & (before < 1 - _CORNER)
    far = jnp.abs(after - before) > _PART * before
    return jnp.where(inside.any(axis=-1), (inside & far).any(axis=-1), (y != start).any(axis=-1))


def still_warnings(still: Mapping[str, Still], steps: jax.Array) -> list[str]:
    """Return a warning for each site with vectors that do not move.

    `steps` are those since the warm-up; numbers of several chains have a first axis more.
    """
    if (steps < _STEPS).any():
        return []
    shares = {
        name: 1 - np.asarray(site.moved).mean() for name, site in still.items() if site.moved.size
    }
    return [_still_message(name, share) for name, share in shares.items() if share > 0]


def _still_message(name: str, share: float) -> str:
    """Return the warning for a site, given the share of its vectors that do not move."""
    what = f"{name!r} has" if share == 1 else f"{share:.2g} of the rows or chains of {name!r} have"
    return (
        f"{what} not moved since the warm-up, and what is computed from the samples would be that "
        "of a single value: start elsewhere (init_params, or init_strategy), use a longer warm-up, "
        "write a density that rises to a corner of the simplex as dist.Dirichlet with "
        "concentrations below 1, or use NUTS, with GammaReference if probabilities are small"
    )


def share_constant(samples: jax.Array) -> float:
    """Return the share of the numbers of a site, [n, ...], that are the same in all samples."""
    x = np.asarray(samples)
    return float((x == x[0]).all(axis=0).mean())
