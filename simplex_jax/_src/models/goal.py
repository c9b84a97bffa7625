"""Runs that end by a rule on their samples: their level has settled, with enough samples.

The rule reads no clock and is applied after fixed numbers of updates, so a run that it ends is
repeated to the bit by the same call.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.runtime.hooks import EXPECTED, MAX_STEPS, Event, Hook

EFFECTIVE = "ess_"
"""Prefix of the names of metrics for effective sample sizes."""

WITHIN = f"{EFFECTIVE}within_"
"""Prefix of those within chains, added, which do not tell how the chains differ."""

SHARE = 0.9
"""Fraction of the entries of a trace, such as topics, that must have a target effective size."""

ENOUGH = 30.0
"""Effective samples of the level, added over the chains."""

TOLERANCE = 0.003
"""Relative change of the perplexity, while the length of a run doubles, that is negligible.

Predictions have settled earlier (`verdict.TOLERANCE`), but not yet the topics.
"""

_GROWTH = 1.2
"""Growth of a run between two checks."""

BY_RULE = ("goal", "limit")
"""Reasons for the end of a run that do not depend on the machine."""


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


def added(trace: ArrayLike) -> float:
    """Return the effective sample sizes of the chains of a trace [samples, chains], added.

    Chains near different modes may differ in their level for ever; they are still worth their
    samples of the predictions, which are averaged over all of them.
    """
    return sum(diagnostics.effective_size(chain) for chain in np.asarray(trace, np.float64).T)


class Goal(Hook):
    """End a run when it reaches its goal or its limit.

    The goal is reached at two checks in a row if at both of them the level has changed by at most
    `TOLERANCE` since the run was half as long, and at the second its trace has `ENOUGH` effective
    samples, and `SHARE` of the entries of each trace of the `target` have that effective size. The
    run is checked at evaluations that do not depend on its history: the first ones, and then
    whenever it has grown by a fifth. Each check adds metrics: `ess_NAME`, which `SHARE` of the
    entries reach; `ess_within_LEVEL`, within the chains and added; `settled` and `goal`, 0 or 1;
    and `EXPECTED`, the estimated number of the last update, if there is an estimate.

    Args:
        traces: Returns the traces so far by name, [samples, chains, ...], matched over the chains
            and NaN where a chain lacks an entry. The one named `level` needs `ENOUGH` effective
            samples, if it is there and not constant, and the others the target.
        level: Name of that trace.
        measure: Returns the logarithm of a level with noise that averages over the samples, such as
            a perplexity, from an event and the traces; None if there is none, and the run goes on
            to its limit unless there is a target.
        active: Whether the run has a goal; otherwise the hook only follows the level.
        every: Updates between evaluations.
        target: Effective size of the other traces; None if they do not matter.
        limit: Updates after which the run ends in any case.
        seconds: Seconds of training after which it does.

    Attributes:
        reason: Why it ended the run: "goal", "limit", "clock", or "" if it has not.
    """

    def __init__(
        self,
        traces: Callable[[], Mapping[str, np.ndarray]],
        level: str,
        measure: Callable[[Event, Mapping[str, np.ndarray]], float | None],
        *,
        active: bool,
        every: int,
        target: float | None = None,
        limit: int = MAX_STEPS,
        seconds: float = math.inf,
    ) -> None:
        self._traces, self._level, self._measure = traces, level, measure
        self._active, self._every, self._target = active, every, target
        self._limit, self._seconds = limit, seconds
        self._levels: list[list[float]] = []  # updates and level of the checks
        self.reason = ""

    def __call__(self, event: Event) -> bool:
        """Check the run if a check is due, and return whether it ends."""
        done, reached = event.step - event.first_step, False
        # Not at the end of a run between two evaluations, which a longer run would not check.
        if event.due and _is_due(done // self._every):
            reached = self._check(event, done)
        if self._active:
            late = "clock" if event.seconds >= self._seconds else ""
            self.reason = "goal" if reached else "limit" if done >= self._limit else late
        return bool(self.reason)

    def over(self, event: Event) -> bool:
        """Return whether the run has reached a limit."""
        long = event.step - event.first_step >= self._limit
        return self._active and (long or event.seconds >= self._seconds)

    def ended(self, seconds: float) -> bool:
        """Return whether a restored run of so many seconds has ended, by its rule or the clock."""
        if self.reason not in BY_RULE and self._active and seconds >= self._seconds:
            self.reason = "clock"
            return True
        return self.reason in BY_RULE

    def _check(self, event: Event, done: int) -> bool:
        traces = self._traces()
        level = self._measure(event, traces)
        self._levels.append([done, math.nan if level is None else level])
        if not self._active:
            return False
        expected = [_GROWTH * done]  # updates until each part of the goal is reached, if known
        enough = level is not None or self._target is not None
        if level is not None:
            settled = self._has_settled()
            event.metrics["settled"] = float(settled)
            enough = enough and settled
            expected.append(done * max(self._change() / TOLERANCE, 1.0))
        for name, trace in traces.items():
            target = ENOUGH if name == self._level else self._target
            if target is None or (name == self._level and _is_constant(trace)):
                continue
            of_level = name == self._level
            reached = added(trace) if of_level else _reached_by_most(trace)
            # Not by the name of the effective size over all chains, which fits report.
            metric = f"{WITHIN}{name}" if of_level else f"{EFFECTIVE}{name}"
            event.metrics[metric] = reached
            enough = enough and reached >= target
            expected.append(done * max(target / reached, 1.0) if reached else math.inf)
        event.metrics["goal"] = float(enough)
        if level is None and self._target is None:
            expected.append(self._limit)
        if math.isfinite(last := done if enough else max(expected)):
            event.metrics[EXPECTED] = float(event.first_step + min(math.ceil(last), self._limit))
        return enough

    def _has_settled(self) -> bool:
        """Return whether the level had hardly changed at the last two checks."""
        return max(self._change(), self._change(1)) <= TOLERANCE

    def _change(self, back: int = 0) -> float:
        """Return how much the level has changed, at a check, since the run was half as long."""
        levels = self._levels[: len(self._levels) - back]
        if not levels:
            return math.inf
        done, now = levels[-1]
        before = [level for earlier, level in levels if earlier <= done / 2]
        change = abs(now - before[-1]) if before else math.inf
        return change if math.isfinite(change) else math.inf

    def save(self) -> dict[str, Any]:
        """Return the levels so far, and why and under which limits the run ended."""
        return {"levels": self._levels, "ended": [self.reason, *self._limits()]}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore them."""
        self._levels = [list(map(float, entry)) for entry in saved["levels"]]
        reason, *limits = saved["ended"]
        by_rule = self._active and reason in BY_RULE and limits == self._limits()
        self.reason = reason if by_rule else ""

    def _limits(self) -> list[float | None]:
        return [self._target, self._limit]


def _is_due(evaluation: int) -> bool:
    """Return whether the run is checked at an evaluation, numbered from 1."""
    number = 1
    while number < evaluation:
        number = math.ceil(_GROWTH * number)
    return number == evaluation


def _reached_by_most(trace: np.ndarray) -> float:
    """Return the effective size that `SHARE` of the entries of a trace reach."""
    sizes = np.sort(effective(trace), axis=None)
    return float(sizes[sizes.size - math.ceil(SHARE * sizes.size)])


def _is_constant(trace: np.ndarray) -> bool:
    return len(trace) >= diagnostics.SHORTEST and bool((trace == trace[0]).all())
