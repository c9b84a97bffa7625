"""Posterior summaries accumulated during a run: moments, traces and thinned samples.

These hooks are saved in checkpoints: an interrupted run gathers the same as an uninterrupted one.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.runtime import output, processes
from simplex_jax._src.runtime.checkpoint import CheckpointWarning
from simplex_jax._src.runtime.hooks import Event, Hook
from simplex_jax._src.runtime.moments import Moments
from simplex_jax._src.runtime.sample_files import Folder, name_of
from simplex_jax._src.runtime.windows import Latest, Place, Window, done
from simplex_jax._src.warn import warn_caller


class Sample(NamedTuple):
    """Quantities of one sample, by name; the first axis of every array is the chain."""

    moments: Mapping[str, ArrayLike]  # draws, or conditional means, for the moments
    variances: Mapping[str, ArrayLike]  # conditional variances, if any
    traces: Mapping[str, ArrayLike]  # quantities to trace


class Gathered:
    """Moments and traces of samples, by name.

    Attributes:
        moments: Moments by name.
        shapes: Shapes of the traced quantities by name, chains first.
    """

    def __init__(self, moments: dict[str, Moments], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.moments, self.shapes = moments, shapes
        self._traces: dict[str, list[np.ndarray]] = {name: [] for name in shapes}

    @property
    def samples(self) -> int:
        """Number of samples of each chain so far."""
        return next(iter(self.moments.values())).samples

    def add(self, sample: Sample) -> None:
        """Add a sample of every chain."""
        for name, moments in self.moments.items():
            moments.add(sample.moments[name], sample.variances.get(name, 0.0))
        self.trace(sample.traces)

    def trace(self, values: Mapping[str, ArrayLike]) -> None:
        """Add values to traces."""
        for name, value in values.items():
            self._traces[name].append(np.asarray(value, np.float64))

    def traces(self) -> dict[str, np.ndarray]:
        """Return the traces by name, [samples or evaluations, chains, ...]."""
        return {
            name: np.array(self._traces[name]).reshape(-1, *shape)
            for name, shape in self.shapes.items()
        }

    def merge(self, other: "Gathered") -> None:
        """Add the samples of another, which came before or after."""
        for name, moments in self.moments.items():
            moments.merge(other.moments[name])
        for name, trace in self._traces.items():
            trace.extend(other._traces[name])

    def save(self) -> dict[str, Any]:
        """Return moments and traces."""
        moments = {name: moments.save() for name, moments in self.moments.items()}
        # One array for each name: hundreds of small ones take seconds to write and check.
        return {"moments": moments, "traces": self.traces()}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore moments and traces."""
        for name, moments in self.moments.items():
            moments.load(saved["moments"][name])
        self._traces = {name: list(trace) for name, trace in saved["traces"].items()}


class Posterior(Hook):
    """Moments and traces of the samples in the window of a run.

    Args:
        read: Returns the sample of an event.
        make: Returns empty moments and traces.
        window: The window.
        evaluated: Returns quantities to trace at evaluations, which may be fewer than the samples.
    """

    def __init__(
        self,
        read: Callable[[Event], Sample],
        make: Callable[[], Gathered],
        window: Window,
        evaluated: Callable[[Event], Mapping[str, ArrayLike]] = lambda event: {},
    ) -> None:
        self._read, self._make, self._evaluated = read, make, evaluated
        self._latest = Latest(make, window)

    def sample(self, event: Event) -> None:
        """Add a sample, in the window."""
        if (gathered := self._latest.accumulator_for(event)) is not None:
            gathered.add(self._read(event))

    def __call__(self, event: Event) -> None:
        """Trace an evaluation that is due, in the window."""
        if event.due and (gathered := self._latest.accumulator_for(event)) is not None:
            gathered.trace(self._evaluated(event))

    def gathered(self) -> Gathered:
        """Return moments and traces so far."""
        return self._latest.whole()

    def result(self, last: Event | None) -> Gathered:
        """Return moments and traces at the end of a run, once; without a sample, its last event's.

        A resumed run may have nothing left to do, and no sample: that is a ValueError.
        """
        gathered = self._latest.taken()
        if not gathered.samples and last is not None:
            gathered.add(self._read(last))
        if not gathered.samples:
            raise ValueError(
                "the run has already reached its length, and it was too short for a sample: go on "
                "with more passes or steps (with --resume RUN --passes NUMBER on the command line)"
            )
        return gathered

    def save(self) -> list[Any]:
        """Return moments and traces."""
        return self._latest.save()

    def load(self, saved: list[Any]) -> None:
        """Restore moments and traces."""
        self._latest.load(saved)


_ROUNDING = 1e-12  # above the rounding error of a segment's progress, below the share of an update


class _Held(NamedTuple):
    """A kept sample."""

    step: int  # its step
    segment: int  # its segment
    arrays: dict[str, np.ndarray]  # empty if they are in a file


class Kept(Hook):
    """Thinned samples of the last half to three quarters of a run: `most`, or all of them if fewer.

    They are evenly spaced over the current segment of a window of doubling segments, and over the
    rest of the one before: samples of a segment replace the oldest ones. Which are kept depends on
    the number of updates only.

    With a directory, created if missing, each is written when drawn, to `sample-00000.npz` and so
    on; otherwise they stay in memory. Each has its step, and files need not be in order of steps.
    Topics are numbered as in each chain.
    """

    def __init__(
        self,
        read: Callable[[Event], dict[str, np.ndarray]],
        most: int,
        window: Window,
        folder: Folder | None,
    ) -> None:
        self._read, self._most = read, most
        self._window, self._folder = window, folder
        self._held: dict[int, _Held] = {}  # by number
        self._segment, self._taken = -1, 0  # the current segment, and its samples so far
        if folder is not None and most and processes.is_first():
            folder.path.mkdir(parents=True, exist_ok=True)

    def sample(self, event: Event) -> None:
        """Add a sample, if it is due."""
        place = self._window(done(event))
        if place is None:
            return
        if place.segment != self._segment:
            self._enter(place.segment)
        if not self._due(event, place):
            return
        number = self._place()
        sample = self._read(event) | {"step": np.asarray(event.step)}
        if self._folder is not None:
            self._folder.write(number, sample)
            sample = {}
        self._held[number] = _Held(event.step, place.segment, sample)
        self._taken += 1

    def _enter(self, segment: int) -> None:
        self._segment = segment
        self._taken = sum(held.segment == segment for held in self._held.values())

    def _place(self) -> int:
        """Return the number of the next sample: that of an old one, a free one, or the oldest."""
        old = self._old()
        free = (number for number in range(self._most) if number not in self._held)
        if old or (number := next(free, None)) is None:
            others = [n for n, held in self._held.items() if held.segment < self._segment]
            number = min(others, key=lambda n: self._held[n].step)
        return number

    def _old(self) -> list[int]:
        """Return the numbers of samples from before the last two segments, which do not count.

        They stay until others take their places, since a checkpoint may still have them.
        """
        return [n for n, held in self._held.items() if held.segment < self._segment - 1]

    def _due(self, event: Event, place: Place) -> bool:
        """Return whether the sample of an event is due, given the samples of its segment so far."""
        missing = self._most - self._taken
        if not missing:
            return False
        even = (place.progress + _ROUNDING) * self._most >= self._taken + 1
        return even or not self._follow(missing, event, place)

    def _follow(self, count: int, event: Event, place: Place) -> bool:
        """Return whether `count` samples follow that of an event in its segment."""
        every = event.sample_every
        later = (event.step // every + count) * every
        then = self._window(later - event.first_step)
        return then is not None and then.segment == place.segment

    def finish(self, event: Event) -> None:
        """Remove the samples that do not count."""
        for number in self._old():
            del self._held[number]
            if self._folder is not None:
                self._folder.remove(number)

    def samples(self) -> dict[str, np.ndarray]:
        """Return the samples in memory by name, stacked by step; empty if there are none.

        Arrays of a state that has grown are padded with zeros.
        """
        held = sorted(self._held.values(), key=lambda sample: sample.step)
        ordered = [sample.arrays for sample in held if sample.arrays]
        if not ordered:
            return {}
        return {name: _stacked([arrays[name] for arrays in ordered]) for name in ordered[0]}

    def save(self) -> list[Any]:
        """Return the samples, without arrays if they are in files."""
        return [[number, *held] for number, held in self._held.items()]

    def load(self, saved: list[Any]) -> None:
        """Restore the samples.

        Samples in files stay there, and raise a ValueError without their directory. Samples in
        memory are written to files if there is a directory now.
        """
        self._held = {number: _Held(*held) for number, *held in saved}
        self._enter(max((held.segment for held in self._held.values()), default=-1))
        if self._folder is not None:
            self._find(self._folder)
        elif any(not held.arrays for held in self._held.values()):
            raise ValueError("the run kept samples in files: give their directory, samples_dir")

    def _find(self, folder: Folder) -> None:
        """Reconcile the files in a directory with the samples of a checkpoint."""
        folder.check()
        in_memory = {number: held for number, held in self._held.items() if held.arrays}
        in_files = [number for number in self._held if number not in in_memory]
        steps = {number: folder.step_of(number) for number in in_files}
        # Later samples of a run that was then killed have taken the places of some, as they will.
        for number in in_files:
            if steps[number] > self._held[number].step:
                del self._held[number]
        # A run that has ended may have removed those of the first segment after its checkpoint.
        in_files = [number for number in in_files if number in self._held]
        first = min((self._held[number].segment for number in in_files), default=0)
        of_first = [number for number in in_files if self._held[number].segment == first]
        if len(of_first) < len(in_files) and all(steps[number] < 0 for number in of_first):
            for number in of_first:
                del self._held[number]
            in_files = [number for number in in_files if number not in of_first]
        if lost := [number for number in in_files if steps[number] < 0]:
            warn_caller(
                f"{len(lost)} of {len(in_files)} samples that the run had kept are no longer in "
                f"{str(folder.path)!r}: it continues without them",
                CheckpointWarning,
            )
        for number in lost:
            del self._held[number]
        for number, held in in_memory.items():
            folder.write(number, held.arrays)
            self._held[number] = held._replace(arrays={})
        folder.keep(self._held)  # A killed run may have left samples after the checkpoint.


def write_samples(directory: Path, samples: Mapping[str, np.ndarray]) -> None:
    """Write the samples of `Kept.samples` to files, as a run with a directory does."""
    if not samples:
        return
    directory.mkdir(exist_ok=True)
    for number in range(len(samples["step"])):
        sample = {name: array[number] for name, array in samples.items()}
        output.write_npz(directory / name_of(number), sample)


def _stacked(arrays: list[np.ndarray]) -> np.ndarray:
    """Stack arrays along a new first axis, padding smaller ones with zeros."""
    shape = np.max([array.shape for array in arrays], axis=0)
    stack = np.zeros((len(arrays), *shape), np.result_type(*arrays))
    for i, array in enumerate(arrays):
        place: tuple[Any, ...] = (i, *map(slice, array.shape))
        stack[place] = array
    return stack
