"""Shared by the runs of the LDA comparison: the clock, and the marks at which topics are kept."""

import contextlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

SHARED = Path(__file__).resolve().parents[2] / "shared"


def load_common(peers: Path) -> ModuleType:
    """Import `common.py`, with the evaluation and the clock used for all tools."""
    sys.dont_write_bytecode = True  # the folder may be read-only
    spec = importlib.util.spec_from_file_location("common", peers / "common.py")
    if spec is None or spec.loader is None or not (peers / "common.py").is_file():
        raise SystemExit(f"{peers}: no common.py there; name its folder with --peers")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Stopped(Exception):
    """The time is up."""


class Recorder:
    """Times the training and keeps topics at marks, whose distance grows at first.

    Args:
        clock: A `common.Clock`: wall and CPU seconds, threads and children included.
        folder: Where topics go.
        limit: Passes or sweeps after which the run ends.
        first: The first mark.
        seconds: Training time after which the run ends early.
        points: Approximate number of marks.
    """

    def __init__(
        self,
        clock: Any,
        folder: Path,
        limit: float,
        first: float,
        seconds: float,
        points: float = 30.0,
    ):
        self._clock, self._new_clock, self._folder = clock, type(clock), folder
        self.limit, self.seconds = limit, seconds
        self.marks = [first]
        while self.marks[-1] < limit:
            last = self.marks[-1]
            step = max(first, min(last * 7.5 / points, limit / points))
            self.marks.append(min(limit, last + step))
        self.points: list[dict[str, Any]] = []
        self.compilation = {"seconds": 0.0, "cpu_seconds": 0.0}

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """Run the clock."""
        self._clock.start()
        yield
        self._clock.stop()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop it, inside `training`."""
        self._clock.stop()
        yield
        self._clock.start()

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Time compilation separately."""
        clock = self._new_clock()
        clock.start()
        yield
        clock.stop()
        self.compilation = {"seconds": clock.t, "cpu_seconds": clock.c}

    def restart(self) -> None:
        """Reset to zero seconds, for a tool that runs once per point."""
        self._clock = self._new_clock()

    def due(self, work: float) -> bool:
        """Return whether a mark has been reached since the last point."""
        last = self.points[-1]["work"] if self.points else 0
        return any(last < mark - 1e-9 <= work for mark in self.marks)

    def add(
        self,
        work: float,
        topics: np.ndarray,
        averaged: bool = False,
        alpha: np.ndarray | None = None,
    ) -> None:
        """Keep topics [K, V], and a tool's own alpha; end the run when due."""
        name = f"{len(self.points):04d}.npy"
        np.save(self._folder / name, np.asarray(topics, np.float32))
        seconds = {"seconds": self._clock.t, "cpu_seconds": self._clock.c}
        point = {"work": work, **seconds, "averaged": averaged, "file": name}
        if alpha is not None:
            point["alpha"] = np.broadcast_to(alpha, len(topics)).tolist()
        self.points.append(point)
        if self._clock.t >= self.seconds:
            raise Stopped


def peak_memory() -> int:
    """Peak resident memory in bytes. `ru_maxrss` would start at the parent's."""
    status = Path("/proc/self/status").read_text("ascii")
    return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", status).group(1))
