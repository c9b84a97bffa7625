"""Intervals of topics in slices: what a further chain would draw.

Where chains agree, by effective samples enough, that is one of their draws. Elsewhere chains that
have a topic differ in it by more than each of them varies, for as long as anyone waits: there, the
draws of each chain around its own mean are widened by how far the chains are apart.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.evaluate import diagnostics, matching
from simplex_jax._src.evaluate.coherence import top_words
from simplex_jax._src.evaluate.intervals import beta_interval
from simplex_jax._src.models.topics.report import INTERVAL, NONE, OVER_CHAINS
from simplex_jax._src.runtime.moments import Moments

ENDS = (0.025, 0.975)
"""Quantiles at the ends of intervals."""

_LEADING = 10  # words of a topic and slice that tell how far chains are apart
_FEWEST = 3  # topics that tell how far apart chains are that lack a topic


def kinds_of(
    known: np.ndarray, shared: np.ndarray, samples: int, topic: int | None = None
) -> np.ndarray:
    """Return what ends [..., K] are, or those of one topic, given which have samples enough.

    The number of `samples` is that of each chain.
    """
    in_all, stable = np.logical_and.reduce(shared, axis=0), matching.stable(shared)
    enough = samples >= diagnostics.SHORTEST
    comparable = np.logical_and(np.logical_or(stable, stable.sum() >= _FEWEST), enough)
    if topic is not None:
        in_all, comparable = in_all[topic], comparable[topic]
    return np.where(known & in_all, INTERVAL, np.where(comparable, OVER_CHAINS, NONE))


class Parts(Moments):
    """Moments that know how far the means of the merged parts of each chain are apart."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self._number = 1  # of parts
        self._between = jnp.zeros(())  # sum of squares between their means, of those within it

    def merge(self, other: Moments) -> None:
        """Add all samples of another."""
        assert isinstance(other, Parts)
        if self.samples and other.samples:
            weight = self.samples * other.samples / (self.samples + other.samples)
            apart = weight * (other._mean - self._mean) ** 2
            self._between, self._number = (
                self._between + other._between + apart,
                self._number + other._number,
            )
        elif other.samples:
            self._between, self._number = other._between, other._number
        super().merge(other)

    def analysed(self, order: np.ndarray, shared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the variance within chains, and the effective samples of all, [K, ...].

        Means of m independent samples vary 1 / m times as much as these. Those of the parts of all
        chains, of n samples each, vary like those of m = n / F, by an analysis of variance; so the
        number of all samples divided by F is that of effective ones, of which chains that are apart
        have few. Arguments are as for `pooled`; without two parts there are none.
        """
        mean, squares = np.asarray(self._mean), np.asarray(self._squares)
        between = np.broadcast_to(np.asarray(self._between), mean.shape)
        variance, effective = np.empty(mean.shape[1:], np.float32), np.zeros_like(mean[0])
        for k in range(len(variance)):
            chains = np.flatnonzero(shared[:, k])
            rows = chains, order[chains, k]
            apart = np.var(mean[rows].astype(np.float64), axis=0) * len(chains) * self.samples
            across = between[rows].sum(axis=0) + apart
            inside = np.maximum(squares[rows] - between[rows], 0).sum(axis=0)
            total, parts = len(chains) * self.samples, len(chains) * self._number
            variance[k] = squares[rows].sum(axis=0) / max(total - len(chains), 1)
            if 1 < parts < total:
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = (across / (parts - 1)) / (inside / (total - parts))
                effective[k] = np.nan_to_num(total / np.maximum(ratio, 1))
        return variance, effective


def _widening(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return how much more a draw of a further chain deviates than one within a chain, [K].

    How far chains are apart is the variance of their means [C, ..., K] divided by that within, on
    average over the quantities of a topic, and again over all topics: of both the mean, as two
    chains tell little of one topic, but one topic may be more certain than others. The mean of a
    further chain varies around that of all, which is known from these. Topics that a chain lacks,
    with NaN, have the average, of no fewer than `_FEWEST` topics.
    """
    chains, result = len(mean), np.ones(mean.shape[-1])
    if chains == 1:
        return result
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = mean.var(axis=0, ddof=1) / variance
    known = np.isfinite(ratio)
    number = known.reshape(-1, len(result)).sum(axis=0)
    total = np.where(known, ratio, 0).reshape(-1, len(result)).sum(axis=0)
    some = number > 0
    apart = np.zeros(len(result))
    if some.any():
        own = total[some] / number[some]
        apart[some] = (own + own.mean()) / 2
        if some.sum() >= _FEWEST:
            apart[~some] = own.mean()
    have = np.isfinite(mean).reshape(chains, -1, len(result)).any(axis=1).sum(axis=0)
    return np.sqrt(1 + apart * (1 + 1 / np.maximum(have, 1)))


def word_ends(mean: ArrayLike, sd: ArrayLike, level: float = 0.95) -> np.ndarray:
    """Return the ends of intervals of probabilities of words, [2, ...].

    They are central ones of beta distributions, but from 0 on if the deviation is that of a
    distribution with its mode at 0: a word may be absent from a topic, with a probability of 1e-30.
    """
    p, deviation = np.clip(mean, 0, 1), np.asarray(sd)
    absent = deviation >= p
    central = np.stack(beta_interval(p, deviation, level))
    from_zero = np.stack([np.zeros(p.shape), beta_interval(p, deviation, 2 * level - 1)[1]])
    return np.where(absent, from_zero, central)


def interval_of(trace: np.ndarray, kinds: np.ndarray, ends: Sequence[float] = ENDS) -> np.ndarray:
    """Return quantiles of what a further chain draws, [2, ...], NaN where `kinds` is `NONE`.

    Where they are `INTERVAL`, it draws as the others do, [S, C, ..., K]. Elsewhere the samples of
    each chain deviate from its mean; around the mean of all chains, a further one deviates more.
    """
    mean = trace.mean(axis=0)
    variance = trace.var(axis=0, ddof=min(len(trace) - 1, 1))
    variance = np.nanmean(variance, axis=0)
    apart = np.nanmean(mean, axis=0) + _widening(mean, variance) * (trace - mean)
    drawn = np.where(kinds == INTERVAL, trace, apart)
    return np.where(kinds == NONE, np.nan, np.nanquantile(drawn, ends, axis=(0, 1)))


def words_known(effective: np.ndarray, chains: int) -> np.ndarray:
    """Return which words have effective samples enough, by the means of parts of chains."""
    # Three parts of one chain tell less than six of two.
    return effective >= diagnostics.ENOUGH * (2 if chains == 1 else 1)


def deviations(
    topics: np.ndarray,
    pooled: np.ndarray,
    known: np.ndarray,
    of_chains: np.ndarray,
    variance: np.ndarray,
    order: np.ndarray,
    shared: np.ndarray,
) -> np.ndarray:
    """Return the deviations of words in a further chain, as `interval_of`, [K, T, V].

    Those of known words in topics that all chains have are the pooled ones of all samples. The
    others are from the mean topics, of all chains and of each, [C, K, T, V], and the variance
    within; how far the chains are apart is measured by the leading words of each slice.
    """
    words = top_words(topics.reshape(-1, topics.shape[2]), _LEADING)
    words = words.reshape(*topics.shape[:2], -1)
    leading = np.stack(
        [
            np.take_along_axis(own[rows], words, axis=2)
            for own, rows in zip(of_chains, order, strict=True)
        ]
    ).astype(np.float64)
    leading[~shared] = np.nan
    inside = np.take_along_axis(variance, words, axis=2)
    wider = _widening(np.moveaxis(leading, 1, -1), np.moveaxis(inside, 0, -1))
    apart = np.sqrt(variance) * wider[:, None, None].astype(np.float32)
    in_all = np.logical_and.reduce(shared, axis=0)
    return np.where(known & in_all[:, None, None], pooled, apart)


def matched(samples: np.ndarray, order: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """Return samples [S, C, ..., K] with matched topics, NaN where a chain lacks one."""
    lead = (None, slice(None), *[None] * (samples.ndim - 3))
    return np.where(shared[lead], np.take_along_axis(samples, order[lead], axis=-1), np.nan)
