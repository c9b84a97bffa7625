"""R-hat and effective sample size of quantities traced over chains, and warnings from them."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeGuard

import numpy as np
from jax.typing import ArrayLike

FEW_DRAWS = 10
"""Effective samples below which intervals are rough: 10 independent ones cover 91% of 95%."""

LARGE_RHAT = 1.1
"""R-hat above which chains disagree; it is noisy with a few tens of samples."""

SHORTEST = 10
"""Samples of a chain below which their effective number cannot be estimated."""

_SHARE = "prevalence "  # followed by the number of a topic


def summary(traces: Mapping[str, ArrayLike]) -> dict[str, dict[str, float]]:
    """Compute R-hat and the effective sample size of each traced quantity.

    Both are rank-normalised (Vehtari et al. 2021), as computed by ArviZ. R-hat is the larger of the
    bulk and the folded (tail) split R-hat; the effective sample size is the bulk one, over all
    chains. Aim for an R-hat below 1.01 and an effective size of 100 a chain. Trace quantities with
    the same meaning in every chain, or match the topics first.

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


def effective_size(trace: ArrayLike) -> float:
    """Return the bulk effective sample size of one chain, 0 if it is too short or constant.

    Example:
        >>> effective_size([1.0, 1.0, 1.0, 1.0])
        0.0
    """
    size = _diagnose("trace", np.asarray(trace)[None])["ess"]
    return size if math.isfinite(size) else 0.0


def _diagnose(name: str, trace: ArrayLike) -> dict[str, float]:
    from arviz_stats.base import array_stats  # here, since it takes half a second

    array = np.asarray(trace, np.float64)
    if array.ndim != 2:
        raise ValueError(f"trace {name!r} must be [chains, samples]; its shape is {array.shape}")
    constant = not array.size or (array == array[0, 0]).all()
    if constant or array.shape[1] < 4 or not np.isfinite(array).all():
        return {"rhat": np.nan, "ess": np.nan}
    with np.errstate(divide="ignore", invalid="ignore"):  # constant chains
        rhat = array_stats.rhat(array, chain_axis=0, draw_axis=1) if len(array) > 1 else np.nan
        # Of shorter halves of chains, ArviZ sums no correlations: it returns N log10(N).
        enough = array.shape[1] >= SHORTEST
        ess = array_stats.ess(array, chain_axis=0, draw_axis=1) if enough else np.nan
    return {"rhat": float(rhat), "ess": float(ess)}


def rough(diagnostics: Mapping[str, Mapping[str, float | None]], topics: int) -> np.ndarray:
    """Return which topics have a prevalence whose effective size is unknown or below 10.

    Their intervals would be meaningless.

    Example:
        >>> rough({"prevalence 0": {"ess": 7.0}, "prevalence 1": {"ess": 70.0}}, 2).tolist()
        [True, False]
    """
    if topics == 1:  # whose share is 1
        return np.zeros(1, bool)
    sizes = [diagnostics.get(f"{_SHARE}{k}", {"ess": np.inf}).get("ess") for k in range(topics)]
    return ~(np.array([np.nan if size is None else size for size in sizes]) >= FEW_DRAWS)


def chain_warnings(
    samples: int,
    diagnostics: Mapping[str, Mapping[str, float | None]],
    shared: ArrayLike,
    absent: str = "{their} means and intervals are of the chains that have {them}",
) -> list[str]:
    """Return a sentence for each sign that chains are too short or disagree.

    `samples` counts posterior samples of all chains, `diagnostics` are from `summary`, and `shared`
    says which topics the chains share, [C, K], from `matching.align`. Topics are numbered from 0.
    `absent` says how the model treats topics that are absent from a chain.
    """
    in_chain = np.asarray(shared, bool)
    warnings, total = [], in_chain.shape[1]
    if samples < FEW_DRAWS:
        number = f"{samples} posterior sample{'' if samples == 1 else 's'}"
        warnings.append(f"The means and deviations are of {number} only: a longer run gives more.")
    unmixed = [name for name, entry in diagnostics.items() if _above(entry.get("rhat"), LARGE_RHAT)]
    if unmixed:
        warnings.append(
            f"The chains disagree (R-hat above {LARGE_RHAT}) on {_named(unmixed, total)}: "
            "run them longer, or treat the intervals as those of one of several explanations "
            "of the corpus."
        )
    few = [
        name
        for name, entry in diagnostics.items()
        if _above(FEW_DRAWS, entry.get("ess"))
        or (total > 1 and name.startswith(_SHARE) and not finite(entry.get("ess")))
        # A trace that moves, but too short for an effective size.
        or (finite(entry.get("rhat")) and not finite(entry.get("ess")))
    ]
    if few and samples >= FEW_DRAWS:
        # Only of topics; concentrations and predictions keep their intervals.
        without = any(name.startswith(_SHARE) for name in few)
        warnings.append(
            f"Fewer than {FEW_DRAWS} effective samples of {_named(few, total)}: too few for "
            f"intervals{', which such topics are shown without' if without else ''}; a longer run "
            "gives more."
        )
    unshared = np.flatnonzero(~in_chain.all(axis=0))
    if unshared.size:
        one = unshared.size == 1
        fate = absent.format(their="its" if one else "their", them="it" if one else "them")
        warnings.append(
            f"{unshared.size} of {total} topics {'is' if one else 'are'} not in all chains: "
            f"{listed(unshared)}. {fate[0].upper()}{fate[1:]}."
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
