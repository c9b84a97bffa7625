"""Cut a run at a known step, by a hook or by a signal."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from simplex_jax._src.runtime import driver
from simplex_jax._src.runtime.hooks import Event, Hook, MetricsLog


class Cut(Hook):
    """A hook that ends a run.

    Args:
        step: The first step after which it does, between evaluations too if the driver checks
            there; None for the first evaluation.
        number: The signal to send to this process then; None to end by the hook's return.

    Attributes:
        steps: The evaluations so far.
    """

    def __init__(self, step: int | None = None, number: int | None = None) -> None:
        self.steps: list[int] = []
        self._step, self._number, self._over = step, number, False

    def __call__(self, event: Event) -> bool:
        self.steps.append(event.step)
        return self._cut(self._step is None or event.step >= self._step)

    def pulse(self, event: Event) -> bool:
        return self._cut(self._step is not None and event.step >= self._step)

    def _cut(self, due: bool) -> bool:
        if not due or self._over:
            return False
        self._over = True
        if self._number is not None:
            os.kill(os.getpid(), self._number)
        return self._number is None

    def log(self, path: Path) -> MetricsLog:
        """Return a log of metrics, for `fit.MetricsLog`, followed by the cut."""
        cut = self

        class Log(MetricsLog):
            def __call__(self, event: Event) -> bool:
                super().__call__(event)
                return cut(event)

            def pulse(self, event: Event) -> bool:
                return cut.pulse(event)

        return Log(path)


def cut(number: int, step: int) -> Callable[[Path], MetricsLog]:
    """Return a replacement of `MetricsLog` that cuts a command."""
    return Cut(step, number).log


def look_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the driver call the pulse of hooks after every step, not about every second."""
    monkeypatch.setattr(driver, "PULSE", 0.0)
