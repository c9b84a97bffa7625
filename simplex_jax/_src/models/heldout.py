"""Metrics from the log densities of held-out documents or rows during a run, and their noise."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from simplex_jax._src.runtime.averaging import LogMean
from simplex_jax._src.runtime.hooks import Event, Hook
from simplex_jax._src.runtime.windows import Latest, Window

_LEAST_KNOWN = 4
"""Evaluations of a quarter from which their noise is estimated; of fewer it counts as 0."""

_BEYOND = 4.0
"""Standard deviations of that noise that a change must exceed: the lowest of fifty evaluations of
a settled chain is 2.2 below their mean."""


class HeldOut(Hook):
    """A hook that adds a summary of held-out log densities to the metrics of an event.

    `NAME` is the value for the current sample, over all chains; with several chains,
    `NAME_chain_0` and so on are the values of each. `NAME_average` is the value of the densities
    averaged over the chains and over the evaluations that are due in the window of the run, or of
    the current samples if there is none. `measure` returns
    the log densities [size] of each chain and other metrics, and `value` reduces the log densities
    to one number.
    """

    def __init__(
        self,
        name: str,
        size: int,
        measure: Callable[[Event], tuple[list[np.ndarray], dict[str, float]]],
        value: Callable[[list[np.ndarray]], float],
        chains: int,
        window: Window,
    ) -> None:
        self._name, self._measure, self._value = name, measure, value
        self._names = metrics(name, chains)
        self._average = Latest(lambda: LogMean(size), window)

    def __call__(self, event: Event) -> None:
        """Evaluate the current samples."""
        log_p, further = self._measure(event)
        for name, of_chain in zip(self._names, log_p, strict=True):
            event.metrics[name] = self._value([of_chain])
        event.metrics[self._name] = self._value(log_p)
        if event.due and (part := self._average.accumulator_for(event)) is not None:
            part.add(log_p)
        average = self._average.whole()
        if not average.samples:
            average.add(log_p)
        event.metrics[f"{self._name}_average"] = self._value([average.value()])
        event.metrics.update(further)

    def save(self) -> list[Any]:
        """Return the average."""
        return self._average.save()

    def load(self, saved: list[Any]) -> None:
        """Restore the average."""
        self._average.load(saved)


def mean(log_p: list[np.ndarray]) -> float:
    """Return the mean of log densities."""
    return float(np.mean(log_p))


def metrics(name: str, chains: int) -> list[str]:
    """Return the name of a metric for each chain."""
    return [f"{name}_chain_{chain}" for chain in range(chains)] if chains > 1 else [name]


def measured(event: Event, name: str, chains: int) -> np.ndarray:
    """Return a metric of each chain, [chains]; NaN if missing."""
    return np.array([event.metrics.get(metric, np.nan) for metric in metrics(name, chains)])


def noise(values: npt.ArrayLike) -> float:
    """Return the change between two evaluations [n] of a settled chain that may be noise.

    It is four standard deviations about a line, the median of those of the last three quarters, of
    which a jump spoils one; 0 if a quarter has fewer than four evaluations.
    """
    size = np.size(values) // 4
    if size < _LEAST_KNOWN:
        return 0.0
    quarters = np.reshape(np.asarray(values, float)[-3 * size :], (3, size))
    squares = np.polyfit(np.arange(size), quarters.T, 1, full=True)[1]
    return _BEYOND * float(np.sqrt(np.median(squares) / (size - 2)))
