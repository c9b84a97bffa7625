"""An estimate of the time of a run, and a warning before one that takes long."""

import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp

from simplex_jax._src.base import PyTree
from simplex_jax._src.models.dpm import model
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import rows as family_rows
from simplex_jax._src.models.dpm.options import Options, process_alpha

_LONG = 120.0
"""Seconds from which a run is warned of."""

# Roughly, of one core of a CPU: multiplications a second, and the seconds of one stick, however
# small, for a draw or an evidence.
_RATE, _EACH = 2e9, 1e-5

# Draws of sticks, and evidences of all sticks that a split-merge move computes.
_DRAWS, _EVIDENCES = 2, 4


def sticks(settings: Options, rows: int, clusters: int) -> int:
    """Return about how many sticks the first updates need.

    With k clusters of similar size, the sticks beyond them weigh alpha / (n + alpha), and the least
    slice of n rows is about 1 / (k n), occasionally a 20th of that: after alpha log(20 k alpha)
    more sticks the rest is as small. A learned concentration starts near its posterior mean given k
    clusters.
    """
    if not isinstance(settings.alpha, str):
        alpha = settings.alpha
    else:
        prior, alpha = process_alpha(settings), 1.0
        assert isinstance(prior, model.Gamma)
        for _ in range(3):
            alpha = float((prior.shape + clusters) / (prior.rate + math.log1p(rows / alpha)))
    return math.ceil(clusters + alpha * math.log(max(20 * clusters * alpha, 1.0)))


def seconds(settings: Options, family: Family, rows: PyTree, capacity: int) -> float:
    """Return about how many seconds a run takes on one core, without compilation."""
    one = jnp.zeros(1, jnp.int32)
    atoms: Any = jax.eval_shape(
        lambda: family.draw(
            jax.random.key(0), family.statistics(family_rows.take(rows, one), one, 1)
        )
    )
    leaves = jax.tree.leaves(atoms)
    size = sum(leaf.size for leaf in leaves)
    # A matrix for each component has to be factored: for `one_of` by each of its members.
    p = max((leaf.shape[-1] for leaf in leaves if leaf.ndim > 2), default=0)
    square = [leaf.shape for leaf in leaves if leaf.shape[-2:] == (p, p)]
    factor = 3.0 * p**3 if square else 0.0
    priors = max((jnp.size(leaf) for leaf in jax.tree.leaves(family)), default=0)
    members = max(1, priors // (p * p)) if square else 1
    moves = settings.split_merge or 0
    each = _EACH + factor / _RATE
    draws = (_DRAWS + _EVIDENCES * moves) * capacity * members * each
    # As many sums of statistics as there are passes over the rows, in an update and its moves.
    batch = settings.batch_size or family_rows.size(rows)
    passes = batch * (capacity + 4 * (1 + moves)) * size / _RATE
    assert settings.steps is not None
    return settings.steps * settings.chains * (draws + passes)


def warn(settings: Options, family: Family, rows: PyTree, clusters: int) -> None:
    """Warn of a run that takes minutes, with what makes it shorter."""
    count = sticks(settings, family_rows.size(rows), clusters)
    capacity = max(settings.capacity, count)
    if settings.seconds is not None or (time := seconds(settings, family, rows, capacity)) < _LONG:
        return
    leaves = jax.tree.leaves(rows)
    reasons = []
    if not isinstance(settings.alpha, str) and count > 4 * settings.capacity:
        size = family_rows.size(rows)
        expected = settings.alpha * math.log1p(size / settings.alpha)
        reasons.append(
            f"alpha = {settings.alpha:g} expects {expected:,.0f} clusters of {size:,} rows and "
            f"needs some {count:,} sticks: give a smaller one, or learn it"
        )
    if len(leaves) == 1 and leaves[0].ndim == 2 and leaves[0].shape[1] >= 32:
        reasons.append(
            f"a component has the covariance of {leaves[0].shape[1]} columns: reduce them by "
            "principal components, or take the family diagonal_gaussian"
        )
    reasons.append("do fewer passes (--passes), or give a time (--seconds)")
    warnings.warn(
        f"the run takes about {_told(time)} on one core; {'; or '.join(reasons)}", stacklevel=2
    )


def _told(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"
