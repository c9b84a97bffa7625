"""Convergence diagnostics of the chains of a fit, with topics matched."""

from collections.abc import Mapping

import numpy as np

from simplex_jax.evaluate import diagnostics


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
