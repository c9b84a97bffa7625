"""The verdict on a run: what is good, what is not yet, and what improves it, in plain words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simplex_jax._src.evaluate.diagnostics import finite
from simplex_jax._src.models import heldout
from simplex_jax._src.report.display import counted, percent

SETTLED = "The predictions have settled: good enough to read, label and explore."
_MORE_TOPICS = "A longer run makes more topics stable and their prevalence more certain"
_ONE_CHAIN = "A longer run makes the prevalence of topics more certain"

TOLERANCE = 0.005
"""Relative change of a perplexity since a run was half as long that is negligible to a reader."""

_LONGER = 4
"""Factor by which a verdict proposes to lengthen a run."""


def longer(fitted: Any) -> dict[str, int]:
    """Return the length of a run, as an option, that a verdict proposes after a run.

    A run that ended within its static passes, of `dtm`, is told to become longer than these.
    """
    static = static_passes(fitted)
    return {name: _LONGER * max(number, static) for name, number in fitted.done.items()}


def static_passes(fitted: Any) -> int:
    """Return the passes at the start of a run in which topics are the same in all slices."""
    return getattr(fitted.settings, "static_passes", None) or 0


def change(metrics: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Return how much a measure of the average fell from half of a run to its end, if measured.

    `metrics` have the step of each evaluation.

    Example:
        >>> change([{"step": 10, "x": 3.0}, {"step": 20, "x": 2.0}, {"step": 40, "x": 1.5}], "x")
        0.5
    """
    measured = [(record["step"], record[name]) for record in metrics if finite(record.get(name))]
    # An evaluation at the end of a run, between those that are due, has the average of the last.
    if len(measured) > 1 and measured[-1][1] == measured[-2][1]:
        measured.pop()
    if not measured:
        return None
    last, now = measured[-1]
    before = [value for step, value in measured if step <= last / 2]
    return before[-1] - now if before else None


def predictions(fitted: Any, name: str, *, logarithmic: bool = False) -> str:
    """Return a sentence on whether the held-out predictions of a run have settled.

    They have if a goal says so, or if the average of the samples, the metric `NAME_average`, has
    not improved by more than `TOLERANCE` since the run was half as long; of a logarithm, which has
    no scale, by no more than the noise of one sample.
    """
    length = _length(fitted)
    if fitted.ended == "goal":
        return SETTLED
    improvement = change(fitted.metrics, f"{name}_average")
    if improvement is None:
        if any(finite(record.get(name)) for record in fitted.metrics):
            return f"The run is too short to tell whether its predictions have settled: {length}."
        why = "Nothing was held out (holdout, --holdout)"
        if any(name in record for record in fitted.metrics):
            why = "No measured prediction is finite"
        return f"{why}, so nothing shows whether the predictions have settled."
    values = [record[name] for record in fitted.metrics if finite(record.get(name))]
    if logarithmic:
        least = max(heldout.noise(values), TOLERANCE)
    else:
        least = TOLERANCE * abs(values[-1])
    if abs(improvement) <= least:
        return SETTLED
    end = f"after {length}"
    if fitted.ended == "clock":
        end += f", when the time limit of {fitted.settings.time_limit:g} s ended the run"
    return f"The predictions have not settled {end}: take this for a first look."


def _length(fitted: Any) -> str:
    ((name, number),) = fitted.done.items() or [("steps", 0)]
    noun = {"passes": "pass", "steps": "step"}[name]
    return f"{number:,} {name}" if number != 1 else f"1 {noun}"


def topics(fitted: Any, kinds: np.ndarray, ranges: np.ndarray) -> str:
    """Return a sentence on the topics of a run that are stable.

    Args:
        fitted: A fit with `stable` [K], of `settings.chains` chains.
        kinds: Whether a topic has an interval, bool [K].
        ranges: Smallest and largest prevalence over the chains, [2, K].
    """
    stable, chains = fitted.stable, len(fitted.shared)
    if chains == 1:
        return (
            "One chain cannot tell which topics another run would find: four can (chains=4, "
            "--chains 4)."
        )
    total, number = len(stable), int(stable.sum())
    both = "both chains" if chains == 2 else f"all {chains} chains"
    if not number:
        return f"No topic is stable: {both} have none in common. Another run may find others."
    apart = stable & ~kinds
    range_of = ""
    if apart.any():
        width = float((ranges[1] - ranges[0])[apart].max())
        range_of = f", with prevalences up to {percent(width)} points apart"
    if number == total:
        return f"{_all(total)} stable: {both} found {'it' if total == 1 else 'them'}{range_of}."
    rest = total - number
    others = "The other one" if rest == 1 else f"The other {rest}"
    return (
        f"{number} of {counted(total, 'topic')} {'is' if number == 1 else 'are'} stable (*): "
        f"{both} found {'it' if number == 1 else 'them'}{range_of}. {others} may be missing from "
        "another run."
    )


def _all(total: int) -> str:
    return {1: "The topic is", 2: "Both topics are"}.get(total, f"All {total} topics are")


def more_topics(fitted: Any, command: str) -> list[str]:
    """Return the line of a verdict on what a longer run does for topics; see `improvement`."""
    what = _MORE_TOPICS if len(fitted.shared) > 1 else _ONE_CHAIN
    return improvement(what, command)


def improvement(what: str, command: str) -> list[str]:
    """Return the line of a verdict that names the command or call of a longer run, if known."""
    return [f"{what}: {command}"] if command else []
