"""Ctrl-C and termination requests end a run in good order."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from simplex_jax.runtime.hooks import Event, Hook

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt(Hook):
    """A hook that ends the run once SIGINT or SIGTERM has come, and remembers which in `signal`.

    The first signal lets the updates under way finish, about a second's worth; `driver.run` then
    returns as it does at its end, and a `Saver` saves. A second one has its usual effect at once.
    It listens from the first update to the end of the run: while a program is still being compiled
    there is nothing to save, and a signal has its usual effect. Within a `with` block it listens
    from its beginning. The earlier handlers are restored at the end. Outside of the main thread,
    where Python handles no signals, this does nothing; and a signal that the process ignores stays
    ignored.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._earlier: dict[signal.Signals, Callable | int] = {}

    def __enter__(self) -> Self:
        """Begin to listen, and forget an earlier signal."""
        self.signal = None
        self.begin()
        return self

    def __exit__(self, *error: Any) -> None:
        """Restore the earlier handlers."""
        self.close()

    def begin(self) -> None:
        """Begin to listen, if that has not begun."""
        if not self._earlier and threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                earlier = signal.getsignal(number)
                # None: a handler that is not Python's, which could not be restored.
                if earlier not in (signal.SIG_IGN, None):
                    self._earlier[number] = earlier
                    signal.signal(number, self._handle)

    def close(self) -> None:
        """Restore the earlier handlers, unless others have replaced this one meanwhile."""
        for number, earlier in self._earlier.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, earlier)
        self._earlier.clear()

    def __call__(self, event: Event) -> bool:
        """Tell whether a signal has come."""
        del event
        return self.signal is not None

    def pulse(self, event: Event) -> bool:
        """Tell whether a signal has come, within a chunk."""
        return self(event)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.signal is not None:
            self.close()
            signal.raise_signal(number)
            return
        self.signal = signal.Signals(number)
        # Not by print: the signal may have come in the middle of one.
        with suppress(OSError):
            text = f"\n{self.signal.name}: finishing the step; once more to stop at once\n"
            os.write(2, text.encode())
