"""Has a run mixed? R-hat and effective sample size of quantities traced over chains."""

from collections.abc import Mapping

import numpy as np
from jax.typing import ArrayLike


def summary(traces: Mapping[str, ArrayLike]) -> dict[str, dict[str, float]]:
    """Compute R-hat and the effective sample size of each traced quantity.

    Both are the rank-normalised ones of Vehtari et al. (2021), as ArviZ computes them: R-hat the
    larger of the bulk and the folded (tail) one of the chains cut in halves, the effective sample
    size that of the bulk, over all chains. Above 1.01 chains disagree; one wants an effective size
    of 100 a chain. Trace what has the same meaning in every chain, or match the topics first.

    Args:
        traces: For each name the samples of a scalar, [chains, samples].

    Returns:
        For each name `{"rhat": ..., "ess": ...}`. Both are NaN where there are fewer than four
        samples a chain, a sample is not finite or no sample differs from another; R-hat also with
        a single chain, and it is infinite where chains stand still at different values.

    Raises:
        ValueError: An array has not two axes.

    Example:
        >>> import numpy as np
        >>> trace = np.random.default_rng(0).normal(size=(4, 1000))
        >>> found = summary({"mixed": trace, "apart": trace + [[0], [0], [0], [3]]})
        >>> {name: round(values["rhat"], 1) for name, values in found.items()}
        {'mixed': 1.0, 'apart': 1.5}
    """
    return {name: _diagnose(name, trace) for name, trace in traces.items()}


def _diagnose(name: str, trace: ArrayLike) -> dict[str, float]:
    from arviz_stats.base import array_stats  # here, for it takes half a second

    array = np.asarray(trace, np.float64)
    if array.ndim != 2:
        raise ValueError(f"trace {name!r} must be [chains, samples]; its shape is {array.shape}")
    still = not array.size or (array == array[0, 0]).all()
    if still or array.shape[1] < 4 or not np.isfinite(array).all():
        return {"rhat": np.nan, "ess": np.nan}
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that stand still
        rhat = array_stats.rhat(array, chain_axis=0, draw_axis=1) if len(array) > 1 else np.nan
        ess = array_stats.ess(array, chain_axis=0, draw_axis=1)
    return {"rhat": float(rhat), "ess": float(ess)}
