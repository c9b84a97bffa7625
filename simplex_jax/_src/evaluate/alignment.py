"""Diagnostics and ranges over the chains of a fit, with topics matched."""

from collections.abc import Mapping

import numpy as np

from simplex_jax._src.evaluate import diagnostics


def diagnose(
    traces: Mapping[str, np.ndarray], order: np.ndarray, shared: np.ndarray
) -> dict[str, dict[str, float]]:
    """Return R-hat and effective sample size of the traces, "prevalence" [S, C, K], others [S, C].

    Topics, matched by `matching.align`, are named "prevalence 0" and so on, each over the chains
    that share it. Empty and constant traces, such as fixed concentrations, are omitted.
    """
    named = {name: trace.T for name, trace in traces.items() if name != "prevalence"}
    moving = {name: trace for name, trace in named.items() if np.unique(trace).size > 1}
    matched = np.take_along_axis(traces["prevalence"], order[None], axis=2)
    shares = {f"prevalence {k}": matched[:, shared[:, k], k].T for k in range(matched.shape[2])}
    return diagnostics.summary(moving | shares)


def range_over(chains: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the smallest and the largest of numbers of the chains, [C, K, ...], as [2, K, ...].

    Topics are matched by `order` [C, K].
    """
    result = np.stack([chains[0][order[0]]] * 2)
    for numbers, rows in zip(chains[1:], order[1:], strict=True):
        np.minimum(result[0], numbers[rows], out=result[0])
        np.maximum(result[1], numbers[rows], out=result[1])
    return result


def range_of_topics(chains: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the range of topics [C, K, V] over the chains, [2, K, V]; [2, K, 0] of one chain."""
    return range_over(chains if len(chains) > 1 else chains[:, :, :0], order)
