"""What is gathered of the posterior while a run goes on: moments, traces and thinned samples.

These hooks can be saved in a checkpoint and loaded again: a run that was interrupted gathers what
an uninterrupted one would have.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from simplex_jax.evaluate.moments import Moments
from simplex_jax.runtime import output
from simplex_jax.runtime.hooks import Event, second_half


class Sample(NamedTuple):
    """What one sample says, chains along the first axis of every array.

    Attributes:
        moments: What enters the moments: draws, or conditional means, by name.
        variances: Conditional variances of those that have one, by name.
        traces: What is traced, by name.
    """

    moments: Mapping[str, ArrayLike]
    variances: Mapping[str, ArrayLike]
    traces: Mapping[str, ArrayLike]


class Posterior:
    """Moments and traces of the samples of the second half of a run.

    Args:
        read: `event -> Sample`.
        moments: What `read` gives to them, by name.
        traces: Shapes of what is traced, chains first, by name; others are passed over.
        seconds: Training time that ends the run, or None.

    Attributes:
        moments: The moments so far.
    """

    def __init__(
        self,
        read: Callable[[Event], Sample],
        moments: dict[str, Moments],
        traces: Mapping[str, tuple[int, ...]],
        seconds: float | None,
    ) -> None:
        self._read, self._shapes, self._seconds = read, traces, seconds
        self.moments = moments
        self._traces: dict[str, list[np.ndarray]] = {name: [] for name in traces}

    @property
    def samples(self) -> int:
        """Samples of each chain so far."""
        return next(iter(self.moments.values())).samples

    def __call__(self, event: Event) -> None:
        """Add the state at hand, if it is time."""
        if second_half(event, self._seconds):
            self.add(event)

    def add(self, event: Event) -> None:
        """Add a sample of every chain."""
        sample = self._read(event)
        for name, moments in self.moments.items():
            moments.add(sample.moments[name], sample.variances.get(name, 0.0))
        for name, trace in self._traces.items():
            trace.append(np.asarray(sample.traces[name], np.float64))

    def traces(self) -> dict[str, np.ndarray]:
        """Return what was traced, by name: [samples, chains, ...]."""
        return {
            name: np.array(self._traces[name]).reshape(-1, *shape)
            for name, shape in self._shapes.items()
        }

    def save(self) -> dict[str, Any]:
        """Return what a continued run needs."""
        moments = {name: moments.save() for name, moments in self.moments.items()}
        return {"moments": moments, "traces": self._traces}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        for name, moments in self.moments.items():
            moments.load(saved["moments"][name])
        self._traces = saved["traces"]


class Kept:
    """Thinned samples, evenly spaced over the second half of a run.

    With a directory each is written as it is drawn, to `sample-00000.npz` and so on; else they stay
    in memory. Topics are numbered as in each chain.

    Args:
        read: `event -> arrays by name`.
        wanted: How many samples to keep, at most.
        seconds: Training time that ends the run, or None.
        directory: Where to, made if it is missing.
    """

    def __init__(
        self,
        read: Callable[[Event], dict[str, np.ndarray]],
        wanted: int,
        seconds: float | None,
        directory: Path | None,
    ) -> None:
        self._read, self._wanted = read, wanted
        self._seconds, self._directory = seconds, directory
        self._count = 0
        self._samples: list[dict[str, np.ndarray]] = []
        if directory is not None and wanted:
            directory.mkdir(parents=True, exist_ok=True)

    def __call__(self, event: Event) -> None:
        """Keep the state at hand, if it is time."""
        due = second_half(event, self._seconds) and self._count < self._wanted
        if not due or self._progress(event) * self._wanted < self._count + 1:
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
        """Return what a continued run needs."""
        return {"count": self._count, "samples": self._samples}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        self._count, self._samples = saved["count"], saved["samples"]
