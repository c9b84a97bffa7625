"""Summaries of the posterior that grow during a run: moments, traces and thinned samples.

These hooks are saved in checkpoints: an interrupted run gathers the same as an uninterrupted one.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from simplex_jax.runtime import output
from simplex_jax.runtime.hooks import Event, second_half
from simplex_jax.runtime.moments import Moments


class Sample(NamedTuple):
    """Quantities of one sample, by name, chains along the first axis of every array."""

    moments: Mapping[str, ArrayLike]  # draws, or conditional means, for the moments
    variances: Mapping[str, ArrayLike]  # conditional variances of those that have one
    traces: Mapping[str, ArrayLike]  # quantities to trace


class Posterior:
    """Moments and traces, by name, of the samples of the second half of a run.

    The traces are given by the shapes of their quantities, chains first, and the length of a run
    that ends by time by its seconds. `evaluated` reads those that come with evaluations, which may
    be fewer than the samples.
    """

    def __init__(
        self,
        read: Callable[[Event], Sample],
        moments: dict[str, Moments],
        traces: Mapping[str, tuple[int, ...]],
        seconds: float | None,
        evaluated: Callable[[Event], Mapping[str, ArrayLike]] = lambda event: {},
    ) -> None:
        self._read, self._shapes, self._seconds = read, traces, seconds
        self._evaluated = evaluated
        self.moments = moments
        self._traces: dict[str, list[np.ndarray]] = {name: [] for name in traces}

    @property
    def samples(self) -> int:
        """Samples of each chain so far."""
        return next(iter(self.moments.values())).samples

    def sample(self, event: Event) -> None:
        """Add a sample, in the second half of the run."""
        if second_half(event, self._seconds):
            self.add(event)

    def __call__(self, event: Event) -> None:
        """Trace an evaluation, in the second half of the run."""
        if second_half(event, self._seconds):
            self._trace(self._evaluated(event))

    def add(self, event: Event) -> None:
        """Add a sample of every chain."""
        sample = self._read(event)
        for name, moments in self.moments.items():
            moments.add(sample.moments[name], sample.variances.get(name, 0.0))
        self._trace(sample.traces)

    def _trace(self, values: Mapping[str, ArrayLike]) -> None:
        for name, value in values.items():
            self._traces[name].append(np.asarray(value, np.float64))

    def traces(self) -> dict[str, np.ndarray]:
        """Return the traces by name, [samples or evaluations, chains, ...]."""
        return {
            name: np.array(self._traces[name]).reshape(-1, *shape)
            for name, shape in self._shapes.items()
        }

    def save(self) -> dict[str, Any]:
        """Return moments and traces."""
        moments = {name: moments.save() for name, moments in self.moments.items()}
        return {"moments": moments, "traces": self._traces}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore moments and traces."""
        for name, moments in self.moments.items():
            moments.load(saved["moments"][name])
        self._traces = saved["traces"]


class Kept:
    """Thinned samples, evenly spaced over the second half of a run.

    With a directory, made if it is missing, each is written as it is drawn, to `sample-00000.npz`
    and so on; else they stay in memory. Topics are numbered as in each chain.
    """

    def __init__(
        self,
        read: Callable[[Event], dict[str, np.ndarray]],
        most: int,
        seconds: float | None,
        directory: Path | None,
    ) -> None:
        self._read, self._most = read, most
        self._seconds, self._directory = seconds, directory
        self._count = 0
        self._samples: list[dict[str, np.ndarray]] = []
        if directory is not None and most:
            directory.mkdir(parents=True, exist_ok=True)

    def __call__(self, event: Event) -> None:
        """Add a sample, if it is due."""
        due = second_half(event, self._seconds) and self._count < self._most
        if not due or self._progress(event) * self._most < self._count + 1:
            return
        sample = self._read(event) | {"step": np.asarray(event.step)}
        if self._directory is None:
            self._samples.append(sample)
        else:
            output.write_npz(self._directory / f"sample-{self._count:05d}.npz", sample)
        self._count += 1

    def _progress(self, event: Event) -> float:
        """Share of the second half that is over, in [0, 1]."""
        steps = (event.step - event.first_step) / (event.last_step - event.first_step)
        clock = 0.0 if self._seconds is None else event.seconds / self._seconds
        return min(2 * max(steps, clock) - 1, 1.0)

    def samples(self) -> dict[str, np.ndarray]:
        """Return the samples in memory by name, stacked; empty if there are none."""
        if not self._samples:
            return {}
        return {name: np.stack([s[name] for s in self._samples]) for name in self._samples[0]}

    def save(self) -> dict[str, Any]:
        """Return the samples in memory and the number of all."""
        return {"count": self._count, "samples": self._samples}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore both."""
        self._count, self._samples = saved["count"], saved["samples"]
