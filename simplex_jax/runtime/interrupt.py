"""Ctrl-C and termination requests end a run in good order."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from simplex_jax.runtime.hooks import Event

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """A hook that ends the run once SIGINT or SIGTERM has come; within a `with` block.

    The first signal lets the updates under way finish, about a second's worth; `driver.run` then
    returns as it does at its end, and a `Saver` saves. A second one does at once what it would do
    without this hook. The earlier handlers come back at the end of the block. Outside of the main
    thread, where Python handles no signals, this does nothing; and a signal that the process
    ignores stays ignored.

    Attributes:
        signal: The signal that has come, or None.

    Example:
        >>> import signal
        >>> from simplex_jax.runtime.interrupt import Interrupt
        >>> with Interrupt() as interrupt:
        ...     signal.raise_signal(signal.SIGTERM)
        ...     # driver.run(..., hooks=[..., interrupt]) would end here
        >>> interrupt.signal.name
        'SIGTERM'
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._earlier: dict[signal.Signals, Callable | int] = {}

    def __enter__(self) -> Self:
        """Begin to listen."""
        self.signal = None
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                earlier = signal.getsignal(number)
                # None: a handler that is not Python's, which could not be put back.
                if earlier not in (signal.SIG_IGN, None):
                    self._earlier[number] = earlier
                    signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: Any) -> None:
        """Put the earlier handlers back, unless others have taken the place meanwhile."""
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
            self.__exit__()
            signal.raise_signal(number)
            return
        self.signal = signal.Signals(number)
        # Not by print: the signal may have come in the middle of one.
        with suppress(OSError):
            text = f"\n{self.signal.name}: finishing the step; once more to stop at once\n"
            os.write(2, text.encode())
