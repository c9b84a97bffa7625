"""A run from its start or newest checkpoint to its end or an interruption."""

import contextlib
import math
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax

from simplex_jax._src.base import Batch, Kernel, PyTree, State, current_step
from simplex_jax._src.batches import Stream
from simplex_jax._src.runtime import devices, processes
from simplex_jax._src.runtime.checkpoint import Restored, Saver, Store
from simplex_jax._src.runtime.driver import Grow, nothing, run
from simplex_jax._src.runtime.hooks import MAX_STEPS, Callback, Event, Hook
from simplex_jax._src.runtime.interrupt import Interrupt

_IN_A_PASS = 16  # most evaluations, or samples, in a pass
_EVALUATIONS = 0.05  # most of the time of a run that evaluations take by default


class Length(NamedTuple):
    """Length of a run, and the intervals of its evaluations and samples."""

    steps: int | None  # updates, or
    seconds: float | None  # seconds of training; neither if a measure ends the run
    eval_every: int  # updates between evaluations
    sample_every: int  # updates between posterior samples


Progress: TypeAlias = Callable[[str, int, int], None]
"""`(task, done, total)`: reports the progress of a task."""


class Portable(NamedTuple):
    """Restores a checkpoint onto a different set of devices.

    `like` replaces leaves of a state by `checkpoint.ANY` or `checkpoint.MAPPED`. `place` takes the
    restored state, with NumPy arrays or their parts in these places, and puts them on the devices.
    `whole` returns the state to save if part of it is stored elsewhere.
    """

    like: Callable[[State], PyTree]
    place: Callable[[PyTree], State]
    whole: Callable[[State], PyTree] = lambda state: state


class Run(NamedTuple):
    """A run that is ready to be trained."""

    key: jax.Array  # key of the driver
    kernel: Kernel  # the kernel for all chains
    state: State | None  # its first state; None once it has begun
    feed: Callable[[int], Stream | Iterable[Batch]]  # `first step -> batches`
    # Hooks with contents to save and restore, by name, in the order in which they are called
    measures: dict[str, Any]
    # Hooks that are called before these, with nothing to save
    hooks: Sequence[Callback] = ()
    # Enlarges a state, see `driver.run`, so that a run can resume from a checkpoint of a larger
    # one; None for models of a fixed size
    grow: Grow | None = None
    # Restores a state saved by another number of devices; None if that is impossible
    portable: Portable | None = None
    # Options of XLA for the program of the updates
    compiler_options: Mapping[str, Any] | None = None
    # Returns whether a restored run without a length has ended, given its seconds
    ended: Callable[[float], bool] = lambda seconds: False
    # Reports the progress of the tasks after the training
    progress: Progress = lambda task, done, total: None


class Trained(NamedTuple):
    """The end of a run."""

    state: State  # the last state
    event: Event | None  # the last event, with that state; None if there was nothing to do
    interrupted: signal.Signals | None  # the signal that ended the run early, or None


class LengthOptions(Protocol):
    """Options of the length of a run."""

    @property
    def passes(self) -> float | None:
        """Passes over the data."""

    @property
    def steps(self) -> int | None:
        """Updates."""

    @property
    def seconds(self) -> float | None:
        """Seconds of training."""

    @property
    def eval_every(self) -> int | None:
        """Updates between evaluations."""

    @property
    def sample_every(self) -> int | None:
        """Updates between posterior samples."""


def length(
    per_pass: int,
    options: LengthOptions,
    *,
    default_passes: float | None,
    eval_every: int,
    sample_every: int,
) -> Length:
    """Return the length of a run with `per_pass` updates in a pass over the data.

    The options have passes, steps and seconds, at most one of them given, `eval_every` and
    `sample_every`. With none of the three and no `default_passes` the run has no length. The
    default intervals are arguments, which must not depend on the length, see `windows`.
    """
    passes = options.passes
    lengths = sum(value is not None for value in (passes, options.steps, options.seconds))
    if lengths > 1:
        raise ValueError("give at most one of passes, steps and seconds")
    if not lengths:
        passes = default_passes
    total = options.steps if passes is None else passes * per_pass
    if total is not None:
        if total > MAX_STEPS:
            raise ValueError(
                f"{total:g} steps exceed the maximum, {MAX_STEPS:,}: give fewer passes or steps"
            )
        total = max(1, round(total))
    intervals = options.eval_every or eval_every, options.sample_every or sample_every
    return Length(total, options.seconds, *intervals)


def interval(per_pass: int, cost: float, share: float = _EVALUATIONS) -> int:
    """Return an interval between evaluations or samples that take a share of the time at most.

    An evaluation or sample takes as long as `cost` updates. There are at most 16 in a pass.
    """
    return max(-(-per_pass // _IN_A_PASS), math.ceil(min(cost / share, MAX_STEPS)))


def start(init: Callable[..., State], *values: Any, remedy: str) -> State:
    """Return `init(*values)`, or raise a ValueError if two such states do not fit on the device.

    They are the states before and after an update. The message ends with the remedy.
    """
    leaves = jax.tree.leaves(jax.eval_shape(init, *values))
    devices.check_memory(2 * sum(leaf.size * leaf.dtype.itemsize for leaf in leaves), remedy)
    return init(*values)


class _Latest(Hook):
    """A hook that stores the latest event, without its state."""

    event: Event | None = None

    def pulse(self, event: Event) -> None:
        """Store the event."""
        self.event = event._replace(state=None)


class Records(Hook):
    """Metrics of each evaluation, with the number of documents visited.

    A pass visits `documents` documents and a step `per_step` on average; `measure` returns further
    metrics.
    """

    def __init__(
        self,
        documents: int,
        per_step: float,
        measure: Callable[[Event, float], Mapping[str, float]],
    ) -> None:
        self.records: list[dict[str, float]] = []
        self.documents, self._per_step, self._measure = documents, per_step, measure

    def __call__(self, event: Event) -> None:
        """Complete and record the metrics of an event."""
        visited = event.step * self._per_step
        passes = visited / self.documents
        event.metrics.update(documents=round(visited), passes=round(passes, 3))
        event.metrics.update(self._measure(event, passes))
        self.records.append({"step": event.step, "seconds": event.seconds} | event.metrics)

    def save(self) -> list[dict[str, float]]:
        """Return the records."""
        return self.records

    def load(self, saved: list[dict[str, float]]) -> None:
        """Restore the records."""
        self.records = saved


def train(
    prepared: Run,
    length: Length,
    about: Mapping[str, Any],
    *,
    hooks: Sequence[Callback],
    checkpoint: Path | None,
    checkpoint_every: float,
    resume: bool,
) -> tuple[Run, Trained]:
    """Run a kernel to its end; SIGINT and SIGTERM end it early, with a checkpoint.

    During compilation, before the first update, the signals have their usual effect. Hooks are
    called after the measures. `about` is everything that a run must share with this one to resume
    from its checkpoints; see `pipeline.Session` for the other arguments. The run is returned
    without its first state, whose memory is free after the first updates.
    """
    assert checkpoint is not None or not resume  # see `pipeline.train`
    measures = prepared.measures
    saver, latest = None, _Latest()
    restored = Restored(prepared.state, first_step=0, seconds=0.0)
    if checkpoint is not None:
        whole = prepared.portable.whole if prepared.portable else lambda state: state
        saver = Saver(Store(checkpoint), measures, about, checkpoint_every, whole)
        if resume:
            restored = _restored(saver, prepared) or restored
    states = [restored.state]
    prepared, restored = prepared._replace(state=None), restored._replace(state=None)
    begin = int(current_step(states[0]))
    last = MAX_STEPS if length.steps is None else length.steps
    if prepared.ended(restored.seconds):
        last = begin
    if begin > last:
        raise ValueError(
            f"the run has already done {begin} steps, and its length is {last}: make it longer"
        )
    interrupt = Interrupt()
    with _naming_the_newest(checkpoint):
        state, _ = run(
            prepared.key,
            prepared.kernel,
            states.pop(),
            prepared.feed(begin),
            last - begin,
            collect=nothing,
            hooks=[
                latest,
                *prepared.hooks,
                *measures.values(),
                *hooks,
                interrupt,
                *([saver] if saver else []),
            ],
            chunk=length.eval_every,
            sample_every=length.sample_every,
            max_seconds=length.seconds,
            first_step=restored.first_step,
            seconds=restored.seconds,
            grow=prepared.grow,
            compiler_options=prepared.compiler_options,
        )
    event = latest.event and latest.event._replace(state=state)
    number = int(processes.highest(interrupt.signal or 0))
    return prepared, Trained(state, event, signal.Signals(number) if number else None)


def _restored(saver: Saver, prepared: Run) -> Restored | None:
    """Restore the newest checkpoint, if there is one."""
    like, portable = prepared.state, prepared.portable
    if portable is None:
        return saver.restore(like, resized=prepared.grow is not None)
    restored = saver.restore(portable.like(like))
    return restored and restored._replace(state=portable.place(restored.state))


@contextlib.contextmanager
def _naming_the_newest(checkpoints: Path | None) -> Iterator[None]:
    """Add the newest checkpoint to the error message of a run that became NaN."""
    try:
        yield
    except FloatingPointError as error:
        path = None if checkpoints is None else Store(checkpoints).newest()
        if path is None:
            raise
        newest = f"; the last checkpoint, {str(path)!r}, is from before"
        raise FloatingPointError(f"{error}{newest}") from None
