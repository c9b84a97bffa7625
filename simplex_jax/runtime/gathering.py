"""Summaries of the posterior that grow during a run: moments, traces and thinned samples.

These hooks are saved in checkpoints: an interrupted run gathers the same as an uninterrupted one.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from simplex_jax.runtime import output, processes
from simplex_jax.runtime.hooks import Event
from simplex_jax.runtime.moments import Moments
from simplex_jax.runtime.windows import Latest, Window


class Sample(NamedTuple):
    """Quantities of one sample, by name, chains along the first axis of every array."""

    moments: Mapping[str, ArrayLike]  # draws, or conditional means, for the moments
    variances: Mapping[str, ArrayLike]  # conditional variances of those that have one
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
        """Samples of each chain so far."""
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
        """Add the samples of another, which come before or after."""
        for name, moments in self.moments.items():
            moments.merge(other.moments[name])
        for name, trace in self._traces.items():
            trace.extend(other._traces[name])

    def save(self) -> dict[str, Any]:
        """Return moments and traces."""
        moments = {name: moments.save() for name, moments in self.moments.items()}
        return {"moments": moments, "traces": self._traces}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore moments and traces."""
        for name, moments in self.moments.items():
            moments.load(saved["moments"][name])
        self._traces = saved["traces"]


class Posterior:
    """Moments and traces of the samples in the window of a run.

    Args:
        read: Reads a sample off an event.
        make: Returns moments and traces of no samples.
        window: What counts.
        evaluated: Reads the quantities to trace that come with evaluations, which may be fewer
            than the samples.
    """

    def __init__(
        self,
        read: Callable[[Event], Sample],
        make: Callable[[], Gathered],
        window: Window,
        evaluated: Callable[[Event], Mapping[str, ArrayLike]] = lambda event: {},
    ) -> None:
        self._read, self._make, self._window, self._evaluated = read, make, window, evaluated
        self._latest = Latest(make)

    def sample(self, event: Event) -> None:
        """Add a sample, in the window."""
        if place := self._window(event):
            self._latest.at(place).add(self._read(event))

    def __call__(self, event: Event) -> None:
        """Trace an evaluation, in the window."""
        if place := self._window(event):
            self._latest.at(place).trace(self._evaluated(event))

    def gathered(self, last: Event | None = None) -> Gathered:
        """Return what was gathered; of a run that ended before the window, its last event."""
        gathered = self._latest.whole()
        if last is None or gathered.samples:
            return gathered
        gathered = self._make()
        gathered.add(self._read(last))
        return gathered

    def save(self) -> list[Any]:
        """Return what was gathered."""
        return self._latest.save()

    def load(self, saved: list[Any]) -> None:
        """Restore what was gathered."""
        self._latest.load(saved)


class Kept:
    """Thinned samples, evenly spaced over the window of a run.

    With a directory, made if it is missing, each is written as it is drawn, to `sample-00000.npz`
    and so on; else they stay in memory. Where the window has segments, those of the next take the
    places of those of the last, one by one: each has its step, and the files need not be in order
    of it. Topics are numbered as in each chain.
    """

    def __init__(
        self,
        read: Callable[[Event], dict[str, np.ndarray]],
        most: int,
        window: Window,
        directory: Path | None,
    ) -> None:
        self._read, self._most = read, most
        self._window, self._directory = window, directory
        self._segment, self._count = 0, 0
        self._samples: list[dict[str, np.ndarray]] = []
        if directory is not None and most and processes.is_first():
            directory.mkdir(parents=True, exist_ok=True)

    def __call__(self, event: Event) -> None:
        """Do nothing: samples come at their own pace."""

    def sample(self, event: Event) -> None:
        """Add a sample, if it is due."""
        place = self._window(event)
        if place is None:
            return
        if place.segment != self._segment:
            self._segment, self._count = place.segment, 0
        if self._count == self._most or place.progress * self._most < self._count + 1:
            return
        sample = self._read(event) | {"step": np.asarray(event.step)}
        if self._directory is None:
            self._samples[self._count : self._count + 1] = [sample]
        elif processes.is_first():
            output.write_npz(self._directory / f"sample-{self._count:05d}.npz", sample)
        self._count += 1

    def samples(self) -> dict[str, np.ndarray]:
        """Return the samples in memory by name, stacked by step; empty if there are none.

        Arrays of a state that has grown are filled up with zeros.
        """
        if not self._samples:
            return {}
        ordered = sorted(self._samples, key=lambda sample: int(sample["step"]))
        return {name: _stacked([sample[name] for sample in ordered]) for name in ordered[0]}

    def save(self) -> dict[str, Any]:
        """Return the samples in memory, and how many there are in which segment."""
        return {"segment": self._segment, "count": self._count, "samples": self._samples}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore both."""
        self._segment, self._count = saved["segment"], saved["count"]
        self._samples = saved["samples"]


def _stacked(arrays: list[np.ndarray]) -> np.ndarray:
    """Stack arrays along a new first axis, smaller ones filled up with zeros."""
    shape = np.max([array.shape for array in arrays], axis=0)
    stack = np.zeros((len(arrays), *shape), np.result_type(*arrays))
    for i, array in enumerate(arrays):
        place: tuple[Any, ...] = (i, *map(slice, array.shape))
        stack[place] = array
    return stack
