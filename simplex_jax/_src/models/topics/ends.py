"""Ends of intervals of topics: of the posterior, of the chains' means, or none."""

from collections.abc import Callable

import numpy as np

from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.evaluate.intervals import beta_interval
from simplex_jax._src.models.topics.fits import TopicFit

KINDS = NONE, INTERVAL, OVER_CHAINS = range(3)
"""What the ends may be."""

TITLES = ("none", "95%", "range over chains")
"""How files name them."""


def kinds_of(fitted: TopicFit, over_chains: np.ndarray) -> np.ndarray:
    """Return what the ends of each topic are, one of `KINDS`, [K].

    There is no interval where `diagnostics.rough` says so. A topic that all of several chains have
    then has the range `over_chains` [2, K, ...], unless that is of size 0.
    """
    rough = diagnostics.rough(fitted.diagnostics, fitted.shared)
    several = len(fitted.shared) > 1 and bool(over_chains.size)
    ranged = rough & np.asarray(fitted.shared, bool).all(axis=0) & several
    return np.select([ranged, rough], [OVER_CHAINS, NONE], INTERVAL)


def ends(
    fitted: TopicFit,
    mean: np.ndarray,
    sd: np.ndarray,
    over_chains: np.ndarray,
    interval: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]] = beta_interval,
) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper ends, [2, K, ...], and what they are, by `kinds_of`, [K].

    They are those of the 95% interval, of the range over the chains, or NaN.

    Args:
        fitted: The topics.
        mean: Posterior means of numbers of each topic, [K, ...].
        sd: Their standard deviations; NaN if unknown.
        over_chains: Smallest and largest mean over the chains, [2, K, ...]; of size 0 for none.
        interval: Law of the interval, from mean and deviation.
    """
    kinds = kinds_of(fitted, over_chains)
    rows = (slice(None), *[None] * (mean.ndim - 1))
    known = (kinds == INTERVAL)[rows] & ~np.isnan(sd)
    result = np.where(known, np.stack(interval(mean, np.where(known, sd, np.nan))), np.nan)
    if (kinds == OVER_CHAINS).any():
        result = np.where((kinds == OVER_CHAINS)[rows], over_chains, result)
    return result, kinds
