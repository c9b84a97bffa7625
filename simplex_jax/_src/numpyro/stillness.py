"""Sites whose numbers do not move: they look like samples, and nothing computed from them is right.

A chain may be stuck where every move is rejected, or where moves are so short that only rounding
changes the numbers. Acceptance rates do not show the latter, and means of one chain neither. So
each vector of a site is compared with its value at the end of the warm-up.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src.numpyro.sites import Values

# Steps after the warm-up until a site is doubted.
_STEPS = 100
# Probabilities have moved if they changed by this part: less may be rounding. Those within a
# millionth of 0 or 1 are left out, unless all are: a sparse vector that stays sparse does move.
_PART, _CORNER = 1e-4, 1e-6


class Still(NamedTuple):
    """A site at the end of the warm-up, and which of its vectors have moved since then."""

    start: jax.Array
    moved: jax.Array  # [...], without the last axis if they are log-probabilities


def first(z: Values, logs: Sequence[str]) -> dict[str, Still]:
    """Return the sites as unmoved; those in `logs` are log-probabilities."""
    return {
        name: Still(y, jnp.zeros(y.shape[:-1] if name in logs else y.shape, bool))
        for name, y in z.items()
    }


def watched(
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
    before, after = jnp.exp(start), jnp.exp(y)
    inside = (before > _CORNER) & (before < 1 - _CORNER)
    far = jnp.abs(after - before) > _PART * before
    return jnp.where(inside.any(axis=-1), (inside & far).any(axis=-1), (y != start).any(axis=-1))


def doubts(still: Mapping[str, Still], steps: jax.Array) -> list[str]:
    """Return a reason for doubt for each site with vectors that do not move.

    `steps` are those since the warm-up; numbers of several chains have a first axis more.
    """
    if (steps < _STEPS).any():
        return []
    shares = {name: 1 - np.asarray(site.moved).mean() for name, site in still.items()}
    return [message(name, share) for name, share in shares.items() if share > 0]


def message(name: str, share: float) -> str:
    """Return the reason for doubt for a site, given the share of its vectors that do not move."""
    what = f"{name!r} has" if share == 1 else f"{share:.2g} of the rows or chains of {name!r} have"
    return (
        f"{what} not moved since the warm-up, and what is computed from the samples would be that "
        "of a single value: start elsewhere (init_params, or init_strategy), use a longer warm-up, "
        "write a density that rises to a corner of the simplex as dist.Dirichlet with "
        "concentrations below 1, or use NUTS, with GammaReference if probabilities are small"
    )


def of_samples(samples: jax.Array) -> float:
    """Return the share of the numbers of a site, [n, ...], that are the same in all samples."""
    x = np.asarray(samples)
    return float((x == x[0]).all(axis=0).mean())
