"""Ctrl-C and termination requests end a run cleanly."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from simplex_jax._src.runtime.hooks import Event, Hook

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt(Hook):
    """A hook that ends the run on SIGINT or SIGTERM, and stores the signal in `signal`.

    After the first signal, the updates in progress finish, about a second's worth; `driver.run`
    then returns normally, and a `Saver` saves. A second signal has its usual effect at once. The
    hook listens from the first update to the end of the run: during compilation there is nothing to
    save, and a signal has its usual effect. In a `with` block it listens from the beginning. The
    earlier handlers are restored at the end. Outside the main thread, where Python handles no
    signals, this does nothing. Signals that the process ignores stay ignored.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._earlier: dict[signal.Signals, Callable | int] = {}

    def __enter__(self) -> Self:
        """Start listening, and forget an earlier signal."""
        self.signal = None
        self.begin()
        return self

    def __exit__(self, *error: Any) -> None:
        """Restore the earlier handlers."""
        self.close()

    def begin(self) -> None:
        """Start listening, unless already started."""
        if not self._earlier and threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                earlier = signal.getsignal(number)
                # None is a handler from outside Python, which could not be restored.
                if earlier not in (signal.SIG_IGN, None):
                    self._earlier[number] = earlier
                    signal.signal(number, self._handle)

    def close(self) -> None:
        """Restore the earlier handlers, unless others have replaced this one."""
        for number, earlier in self._earlier.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, earlier)
        self._earlier.clear()

    def __call__(self, event: Event) -> bool:
        """Return whether a signal has arrived."""
        return self.signal is not None

    def pulse(self, event: Event) -> bool:
        """Return whether a signal has arrived, within a chunk."""
        return self(event)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            self.close()
            signal.raise_signal(number)
            return
        self.signal = signal.Signals(number)
        # Not print: the signal may have interrupted one.
        with suppress(OSError):
            text = f"\n{self.signal.name}: finishing the step; once more to stop at once\n"
            os.write(2, text.encode())
