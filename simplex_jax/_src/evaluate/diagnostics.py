"""R-hat and effective sample size of quantities traced over chains, and warnings from them."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeGuard

import numpy as np
from jax.typing import ArrayLike
from scipy import special
from scipy.fft import next_fast_len

ENOUGH = 50
"""Estimated effective samples from which intervals are shown.

Estimates are noisy: from 10 on, 95% intervals of traces with a true size of 3 would hold 75%
(`benchmarks/interval_threshold.py`).
"""

_FEW_DRAWS = 10  # posterior samples below which means and deviations are rough

LARGE_RHAT = 1.1
"""R-hat above which chains disagree; it is noisy with a few tens of samples."""

SHORTEST = 10
"""Samples of a chain below which their effective number cannot be estimated."""

_SHARE = "prevalence "  # followed by the number of a topic


def summary(traces: Mapping[str, ArrayLike]) -> dict[str, dict[str, float]]:
    """Compute R-hat and the effective sample size of each traced quantity.

    Both are rank-normalised (Vehtari et al. 2021), the same as ArviZ computes. R-hat is the larger
    of the bulk and the folded (tail) split R-hat; the effective sample size is the bulk one, over
    all chains. Aim for an R-hat below 1.01 and an effective size of 100 a chain. Trace quantities
    with the same meaning in every chain, or match the topics first.

    Args:
        traces: Samples of a scalar by name, [chains, samples].

    Returns:
        For each name `{"rhat": ..., "ess": ...}`. Both are NaN if a chain has fewer than four
        samples, a sample is not finite or all samples are equal. The effective sample size is also
        NaN if a chain has fewer than ten, which say nothing about correlation. R-hat is also NaN
        for a single chain, and infinite if chains are constant at different values.

    Raises:
        ValueError: An array does not have two axes.

    Example:
        >>> import numpy as np
        >>> trace = np.random.default_rng(0).normal(size=(4, 1000))
        >>> result = summary({"mixed": trace, "apart": trace + [[0], [0], [0], [3]]})
        >>> {name: round(values["rhat"], 1) for name, values in result.items()}
        {'mixed': 1.0, 'apart': 1.5}
    """
    return {name: _diagnose(name, trace) for name, trace in traces.items()}


def of_topics(traces: Mapping[int, ArrayLike]) -> dict[str, dict[str, float]]:
    """Return the `summary` of the prevalence of topics, by number, [chains, samples] each.

    That of a topic which has all tokens in every sample is 1, and is left out.

    Example:
        >>> of_topics({0: [[1.0, 1.0, 1.0, 1.0]]})
        {}
    """
    moving = {k: trace for k, trace in traces.items() if not np.allclose(trace, 1.0, atol=1e-6)}
    return summary({f"{_SHARE}{k}": trace for k, trace in moving.items()})


def effective_size(trace: ArrayLike) -> float:
    """Return the bulk effective sample size of a quantity, as `summary` does, or 0 if it is NaN.

    The trace is [chains, samples], or [samples] for one chain.

    Example:
        >>> effective_size([1.0, 1.0, 1.0, 1.0])
        0.0
    """
    size = _ess("trace", np.atleast_2d(np.asarray(trace, np.float64)))
    return size if math.isfinite(size) else 0.0


def _diagnose(name: str, trace: ArrayLike) -> dict[str, float]:
    array = np.asarray(trace, np.float64)
    return {"rhat": _rhat(name, array), "ess": _ess(name, array)}


def _rhat(name: str, array: np.ndarray) -> float:
    if not _moves(name, array) or len(array) == 1:
        return np.nan
    halves = _halves(array)
    folded = abs(halves - np.median(halves))
    with np.errstate(divide="ignore", invalid="ignore"):  # constant chains
        return max(_spread(_normal_scores(halves)), _spread(_normal_scores(folded)))


def _ess(name: str, array: np.ndarray) -> float:
    # Of shorter halves of chains no correlations are summed, so that it would be N log10(N).
    if not _moves(name, array) or array.shape[1] < SHORTEST:
        return np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        return _effective(_normal_scores(_halves(array)))


# The measures of Vehtari et al. (2021), with the bits of ArviZ, which takes a second to import.


def _halves(array: np.ndarray) -> np.ndarray:
    """Return the halves of chains as chains, without a middle sample."""
    half = array.shape[1] // 2
    return np.vstack((array[:, :half], array[:, -half:]))


def _normal_scores(array: np.ndarray) -> np.ndarray:
    """Return the normal quantiles of the ranks among all samples (Blom 1958)."""
    _, places, counts = np.unique(array.ravel(), return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # of equal samples the mean of theirs
    scores = special.ndtri((ranks - 3 / 8) / (array.size + 1 / 4))
    return scores[places].reshape(array.shape)


def _spread(chains: np.ndarray) -> float:
    """Return the R-hat of chains."""
    draws = chains.shape[1]
    between = draws * np.var(np.mean(chains, axis=1), ddof=1)
    within = np.mean(np.var(chains, axis=1, ddof=1))
    return float(np.sqrt((between / within + draws - 1) / draws))


def _effective(chains: np.ndarray) -> float:
    """Return the effective sample size of chains, by Geyer's initial monotone sequence (1992)."""
    if np.ptp(chains) < np.finfo(float).resolution:
        return float(chains.size)
    count, draws = chains.shape
    room = next_fast_len(2 * draws, real=True)
    spectrum = np.fft.rfft(chains - chains.mean(axis=1, keepdims=True), n=room)
    covariances = np.fft.irfft(spectrum * np.conjugate(spectrum), n=room)[:, :draws] / draws
    covariance = np.ascontiguousarray(covariances.T).mean(axis=1)
    within = covariance[0] * draws / (draws - 1.0)
    total = within * (draws - 1.0) / draws
    if count > 1:
        total += np.var(chains.mean(axis=1), ddof=1)
    correlation = 1.0 - (within - covariance) / total
    even, odd = 1.0, correlation[1]
    kept = np.zeros(draws)
    kept[:2] = even, odd
    t = 1
    while t < draws - 3 and even + odd > 0:  # sums of pairs are positive
        even, odd = correlation[t + 1], correlation[t + 2]
        if even + odd >= 0:
            kept[t + 1 : t + 3] = even, odd
        t += 2
    last = t - 2
    if even > 0:
        kept[last + 1] = even
    for t in range(1, last - 1, 2):  # and do not grow
        before = kept[t - 1] + kept[t]
        if kept[t + 1] + kept[t + 2] > before:
            kept[t + 1 : t + 3] = before / 2
    time = -1.0 + 2.0 * np.sum(kept[: last + 1]) + np.sum(kept[last + 1 : last + 2])
    if np.isnan(kept).any():
        return np.nan
    return float(chains.size / max(time, 1 / np.log10(chains.size)))


def _moves(name: str, array: np.ndarray) -> bool:
    """Return whether a trace is finite, not constant, and has at least four samples."""
    if array.ndim != 2:
        raise ValueError(f"trace {name!r} must be [chains, samples]; its shape is {array.shape}")
    constant = not array.size or (array == array[0, 0]).all()
    return not constant and array.shape[1] >= 4 and bool(np.isfinite(array).all())


def enough(diagnostics: Mapping[str, Mapping[str, float | None]], name: str) -> bool:
    """Return whether a quantity has effective samples for an interval; those not traced have.

    Example:
        >>> enough({"alpha": {"ess": 7.0}}, "alpha"), enough({}, "beta")
        (False, True)
    """
    size = diagnostics.get(name, {"ess": math.inf}).get("ess")
    return size is not None and size >= ENOUGH


def rough(diagnostics: Mapping[str, Mapping[str, float | None]], shared: ArrayLike) -> np.ndarray:
    """Return which topics have no interval, bool [K].

    They are not in all chains, by `shared` [C, K], or the effective size of their prevalence is
    unknown or below `ENOUGH`, unless it is always 1 (`of_topics`). A topic of one chain mixes in
    that chain only.

    Example:
        >>> sizes = {"prevalence 0": {"ess": 7.0}, "prevalence 1": {"ess": 70.0}}
        >>> rough(sizes, [[True, True], [True, True]]).tolist()
        [True, False]
        >>> rough(sizes, [[True, True], [True, False]]).tolist()
        [True, True]
    """
    in_chain = np.asarray(shared, bool)
    known = np.array([enough(diagnostics, f"{_SHARE}{k}") for k in range(in_chain.shape[1])])
    return np.logical_not(known & in_chain.all(axis=0))


def few_samples(samples: int, *, kept: bool = False) -> list[str]:
    """Return a warning if the posterior samples of all chains are few.

    If they are those that a run has `kept`, more may have to be kept.

    Example:
        >>> few_samples(1)
        ['The means and deviations are of 1 posterior sample only: a longer run gives more.']
    """
    if samples >= _FEW_DRAWS:
        return []
    number = f"{samples} posterior sample{'' if samples == 1 else 's'}"
    more = "a longer run, or keeping more (keep_samples)," if kept else "a longer run"
    return [f"The means and deviations are of {number} only: {more} gives more."]


def chain_notes(
    diagnostics: Mapping[str, Mapping[str, float | None]],
    shared: ArrayLike,
    absent: str = "{their} means are of the chains that have {them}",
) -> list[str]:
    """Return a sentence for each sign that chains are too short or disagree.

    `diagnostics` are from `summary`, and `shared` says which topics the chains share, [C, K], from
    `matching.align`. Topics are numbered from 0. `absent` says how the model treats topics that are
    absent from a chain.
    """
    in_chain = np.asarray(shared, bool)
    warnings, total = [], in_chain.shape[1]
    unmixed = [name for name, entry in diagnostics.items() if _above(entry.get("rhat"), LARGE_RHAT)]
    if unmixed:
        warnings.append(
            f"The chains disagree (R-hat above {LARGE_RHAT}) on {_named(unmixed, total)}: "
            "run them longer, or treat the intervals as those of one of several explanations "
            "of the data."
        )
    few = [
        name
        for name, entry in diagnostics.items()
        if _above(ENOUGH, entry.get("ess"))
        or (name.startswith(_SHARE) and not finite(entry.get("ess")))
        # A trace that moves, but too short for an effective size.
        or (finite(entry.get("rhat")) and not finite(entry.get("ess")))
    ]
    if few:
        # Only of topics; concentrations and predictions keep their intervals.
        fate = ""
        if any(name.startswith(_SHARE) for name in few):
            fate = ", so such topics are shown without one"
            if len(in_chain) > 1:
                fate += " (those in all chains with the range of their prevalence over the chains)"
        warnings.append(
            f"Fewer than {ENOUGH} effective samples of {_named(few, total)}: too few for "
            f"intervals{fate}; a longer run gives more."
        )
    unshared = np.flatnonzero(~in_chain.all(axis=0))
    if unshared.size:
        one = unshared.size == 1
        fate = absent.format(their="its" if one else "their", them="it" if one else "them")
        warnings.append(
            f"{unshared.size} of {total} topics {'is' if one else 'are'} not in all chains, and "
            f"{'has' if one else 'have'} no interval: {listed(unshared)}. "
            f"{fate[0].upper()}{fate[1:]}."
        )
    return warnings


def _above(value: float | None, threshold: float | None) -> bool:
    return value is not None and threshold is not None and value > threshold


def _named(quantities: Sequence[str], total: int) -> str:
    """List quantities, with only the number of many topics: alpha, prevalence of 7 of 30 topics."""
    groups: dict[str, list[str]] = {}
    for quantity in quantities:
        name, _, number = quantity.rpartition(" ")
        groups.setdefault(name if number.isdigit() else quantity, []).append(quantity)
    return ", ".join(
        f"{name} of {len(members)} of {total} topics" if len(members) > 3 else ", ".join(members)
        for name, members in groups.items()
    )


def listed(entries: Sequence[object] | np.ndarray) -> str:
    """Return the first ten entries, separated by commas, and how many more there are."""
    shown = ", ".join(str(entry) for entry in entries[:10])
    return shown + (f" and {len(entries) - 10} more" if len(entries) > 10 else "")


def finite(value: float | None) -> TypeGuard[float]:
    """Return whether a measurement exists and is finite."""
    return value is not None and math.isfinite(value)
