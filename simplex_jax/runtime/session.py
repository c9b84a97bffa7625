"""A run from its start, or from its newest checkpoint, to its end or an interruption."""

import contextlib
import math
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from simplex_jax.base import Batch, Info, Kernel, State, current_step
from simplex_jax.batches import Stream
from simplex_jax.draws import arguments
from simplex_jax.runtime.checkpoint import Restored, Saver, Store
from simplex_jax.runtime.driver import Grow, run
from simplex_jax.runtime.hooks import Event, Hook
from simplex_jax.runtime.interrupt import Interrupt

MAX_STEPS = 2**31 - 1

# Passes of a run whose length is not given, and evaluations in it.
_PASSES, _EVALUATIONS = 200, 50


class Length(NamedTuple):
    """How long a run is, and when it is looked at.

    Attributes:
        steps: Updates, or None if time ends the run.
        seconds: Training time that ends the run, or None.
        eval_every: Updates between evaluations.
    """

    steps: int | None
    seconds: float | None
    eval_every: int


class Trained(NamedTuple):
    """The end of a run.

    Attributes:
        state: The last state.
        event: The last event, with that state; None if there was nothing to do.
        interrupted: The signal that ended the run before its time, or None.
    """

    state: State
    event: Event | None
    interrupted: signal.Signals | None


def length(
    per_pass: int,
    *,
    passes: float | None,
    steps: int | None,
    seconds: float | None,
    eval_every: int | None,
    eval_timed: int | None = None,
) -> Length:
    """Return the length of a run with what was left out filled in.

    Args:
        per_pass: Updates in a pass over the data.
        passes: Length in passes.
        steps: Length in updates.
        seconds: Length in seconds of training; at most one of the three is given.
        eval_every: Updates between evaluations; by default a 50th of the run.
        eval_timed: The default of a run that ends by time; None for a pass.

    Raises:
        ValueError: More than one length is given, or a number is out of range.

    Example:
        >>> length(5, passes=20, steps=None, seconds=None, eval_every=None)
        Length(steps=100, seconds=None, eval_every=2)
    """
    lengths = {"passes": passes, "steps": steps, "seconds": seconds}
    if sum(given is not None for given in lengths.values()) > 1:
        raise ValueError("give at most one of passes, steps and seconds")
    for name, value in lengths.items():
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be positive; it is {value}")
    total: int | None = None
    if seconds is None:
        wanted = (_PASSES if passes is None else passes) * per_pass
        if steps is not None:
            wanted = float(arguments.at_least("steps", steps, 1))
        if wanted > MAX_STEPS:
            raise ValueError(
                f"{wanted:g} steps are more than a run can number: give fewer passes or steps"
            )
        total = max(1, round(wanted))
    if eval_every is None:
        timed = per_pass if eval_timed is None else eval_timed
        eval_every = timed if total is None else max(1, total // _EVALUATIONS)
    eval_every = arguments.at_least("eval_every", eval_every, 1)
    return Length(total, seconds, eval_every if total is None else min(eval_every, total))


def check_seed(seed: int) -> int:
    """Return a seed as it is.

    Raises:
        ValueError: It is not between 0 and 2^63 - 1.
    """
    if arguments.at_least("seed", seed, 0) >= 2**63:
        raise ValueError(f"seed must be between 0 and 2^63 - 1; it is {seed}")
    return int(seed)


class Latest:
    """A hook that remembers the latest event.

    Attributes:
        event: It, without its state; None before the first.
    """

    def __init__(self) -> None:
        self.event: Event | None = None

    def __call__(self, event: Event) -> None:
        """Do nothing: `pulse` is called at the end of a chunk as well."""

    def pulse(self, event: Event) -> None:
        """Remember the event."""
        self.event = event._replace(state=None)


class Records:
    """What each evaluation measured, with the count of documents visited.

    Args:
        documents: Documents in a pass.
        per_step: Documents in a step, on average.
        measure: `(event, passes) -> more numbers` for the metrics.

    Attributes:
        records: One for each evaluation.
    """

    def __init__(
        self,
        documents: int,
        per_step: float,
        measure: Callable[[Event, float], Mapping[str, float]],
    ) -> None:
        self.records: list[dict[str, float]] = []
        self._documents, self._per_step, self._measure = documents, per_step, measure

    def __call__(self, event: Event) -> None:
        """Complete the metrics of an event and keep them."""
        visited = event.step * self._per_step
        passes = visited / self._documents
        event.metrics["documents"] = round(visited)
        event.metrics["passes"] = round(passes, 3)
        event.metrics.update(self._measure(event, passes))
        record = {"step": event.step, "seconds": round(event.seconds, 4)} | event.metrics
        self.records.append(record)

    def save(self) -> list[dict[str, float]]:
        """Return what a continued run needs."""
        return self.records

    def load(self, saved: list[dict[str, float]]) -> None:
        """Go on from what was saved."""
        self.records = saved


def train(
    key: jax.Array,
    kernel: Kernel,
    state: State,
    feed: Callable[[int], Stream | Iterable[Batch]],
    length: Length,
    *,
    measures: Mapping[str, Any],
    hooks: Sequence[Hook] = (),
    checkpoint: Path | None = None,
    checkpoint_every: float = 60.0,
    resume: bool = False,
    about: Mapping[str, Any],
    grow: Grow | None = None,
) -> Trained:
    """Run a kernel to its end; SIGINT and SIGTERM end it early, with a checkpoint.

    Args:
        key: Of the driver.
        kernel: The kernel.
        state: Its first state.
        feed: `first step -> stream`, where the driver is to read batches from.
        length: How long.
        measures: Hooks that accumulate something, by name, called in this order; they are saved
            and brought back.
        hooks: Hooks called after them.
        checkpoint: Directory of the checkpoints; None for none.
        checkpoint_every: Least number of seconds between two of them.
        resume: Go on from the newest checkpoint; where there is none yet, start anew.
        about: What a run that goes on must have in common with this one.
        grow: Makes room in a state, see `driver.run`; a run may then go on from a checkpoint of a
            larger one.

    Returns:
        The end of the run.

    Raises:
        ValueError: `resume` without a directory; a `CheckpointError` where the checkpoints are
            damaged or of another run.
        FloatingPointError: The state became NaN; the message names the newest checkpoint.
    """
    if resume and checkpoint is None:
        raise ValueError("checkpoint must name the directory to resume from")
    saver, latest = None, Latest()
    restored = Restored(state, first_step=0, seconds=0.0)
    if checkpoint is not None:
        saver = Saver(Store(checkpoint), measures, about, checkpoint_every)
        if resume:
            restored = saver.restore(state, resized=grow is not None) or restored
    begin = int(current_step(restored.state))
    last = MAX_STEPS if length.steps is None else length.steps
    with Interrupt() as interrupt, _naming_the_newest(checkpoint):
        state, _ = run(
            key,
            kernel,
            restored.state,
            feed(begin),
            last - begin,
            collect=_nothing,
            hooks=[latest, *measures.values(), *hooks, interrupt, *([saver] if saver else [])],
            chunk=length.eval_every,
            max_seconds=length.seconds,
            first_step=restored.first_step,
            seconds=restored.seconds,
            grow=grow,
        )
    event = latest.event and latest.event._replace(state=state)
    return Trained(state, event, interrupt.signal)


@contextlib.contextmanager
def _naming_the_newest(checkpoints: Path | None) -> Iterator[None]:
    """Add the newest checkpoint to the message where a run has become NaN."""
    try:
        yield
    except FloatingPointError as error:
        found = [] if checkpoints is None else sorted(checkpoints.glob("*-step-*"))
        if not found:
            raise
        newest = f"; the last checkpoint, {str(found[-1])!r}, is from before"
        raise FloatingPointError(f"{error}{newest}") from None


def _nothing(state: State, info: Info) -> tuple:
    del state, info
    return ()
