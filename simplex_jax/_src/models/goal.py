"""Runs that continue until they have enough effective samples and their level has settled."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.runtime.hooks import EFFECTIVE as PREFIX
from simplex_jax._src.runtime.hooks import Event, Hook

SHARE = 0.9
"""Fraction of the traced entries, such as topics, that must have enough effective samples."""

_GROWTH = 1.2
"""Growth of a run, in updates, between two checks."""

_DRIFT = 0.001
"""Negligible change along a trace, relative to its level."""


def effective(trace: ArrayLike) -> np.ndarray:
    """Return the effective sample sizes of `diagnostics.effective_size`.

    Args:
        trace: Samples of some quantities, [samples, chains, ...], all NaN in chains that lack one.

    Returns:
        The sizes [...], over the chains that have the quantity; 0 if it is constant, or if the
        chains are too short.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(500, 2, 2))
        >>> x[:, 1, 1] = np.nan
        >>> (effective(x) / [1000, 500]).round().tolist()
        [1.0, 1.0]
    """
    array = np.asarray(trace, np.float64)
    entries = math.prod(array.shape[2:])
    chains = np.reshape(array, (*array.shape[:2], entries)).transpose(2, 1, 0)
    sizes = [diagnostics.effective_size(entry[~np.isnan(entry).all(axis=1)]) for entry in chains]
    return np.reshape(sizes, array.shape[2:])


def settled(trace: ArrayLike) -> bool:
    """Return whether the mean of a trace [samples, chains] has stopped changing.

    It has if a line fitted to the mean over the chains changes along the trace by at most 0.1% of
    its level or three standard errors, whichever is larger.
    """
    rows = np.asarray(trace, np.float64).mean(axis=1)
    if len(rows) < diagnostics.SHORTEST:
        return False
    time = np.linspace(-0.5, 0.5, len(rows))
    slope, level = np.polyfit(time, rows, 1)
    residuals = rows - level - slope * time
    size = max(diagnostics.effective_size(residuals), 1.0)
    error = math.sqrt(np.var(residuals) / size / np.var(time))
    return bool(abs(slope) <= max(_DRIFT * abs(level), 3 * error))


class Goal(Hook):
    """End a run when it reaches its goal or its time limit.

    The goal is reached when `SHARE` of the entries of every trace have `target` effective samples
    over the chains, and the trace named by `level` has settled. The limit is `seconds` or `steps`,
    whichever comes last. The run is checked whenever it has grown by a fifth. Each check adds
    metrics: `ess_NAME`, which `SHARE` of the entries reach, and `settled`, 0 or 1, if there is a
    level.

    Args:
        traces: Returns the traces so far by name, [samples, chains, ...], matched over the chains
            and NaN where a chain lacks an entry.
        level: Name of a trace that may be missing.
        target: Number of effective samples; None for a run with a length.
        seconds: Time limit.
        steps: Minimum number of updates before the time limit applies.
    """

    def __init__(
        self,
        traces: Callable[[], dict[str, np.ndarray]],
        level: str,
        target: float | None,
        seconds: float,
        steps: int = 0,
    ) -> None:
        self._traces, self._level, self._target = traces, level, target
        self._seconds, self._steps = seconds, steps
        self._next, self._ended = 0, False

    def __call__(self, event: Event) -> bool:
        """Check the run if a check is due, and return whether it ends."""
        if self._target is None:
            return False
        done, late = event.step - event.first_step, self.over(event)
        if done < self._next and not late:
            return False
        self._next = math.ceil(_GROWTH * done)
        self._ended = self._look(event, self._target) or late
        return self._ended

    def over(self, event: Event) -> bool:
        """Return whether the run has reached its time limit."""
        late = event.seconds >= self._seconds and event.step - event.first_step >= self._steps
        return late and self._target is not None

    def ended(self) -> bool:
        """Return whether a restored run had already ended under the same limits."""
        return self._ended

    def _look(self, event: Event, target: float) -> bool:
        traces, enough = self._traces(), True
        for name, trace in traces.items():
            sizes = np.sort(effective(trace), axis=None)
            reached = float(sizes[sizes.size - math.ceil(SHARE * sizes.size)])
            event.metrics[f"{PREFIX}{name}"] = reached
            enough = enough and reached >= target
        if self._level in traces:
            level = settled(traces[self._level])
            event.metrics["settled"] = float(level)
            enough = enough and level
        return enough

    def save(self) -> dict[str, Any]:
        """Return when the next check is due, and the limits under which the run ended."""
        return {"next": self._next, "ended": self._limits() if self._ended else []}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore them."""
        self._next, self._ended = saved["next"], saved["ended"] == self._limits()

    def _limits(self) -> list[float | None]:
        return [self._target, self._seconds, self._steps]
