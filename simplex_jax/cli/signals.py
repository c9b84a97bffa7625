"""Which signal came."""

import os
import signal
import threading
from typing import Any, Self


class Heard:
    """Remembers the first signal that a handler of Python's has taken, within a `with` block.

    It leaves the handling to whoever does it, such as `topics.fit`, which ends a run early and
    does not say why. Outside of the main thread, where there are no handlers, nothing is heard.

    Example:
        >>> import signal
        >>> earlier = signal.signal(signal.SIGTERM, lambda *_: None)
        >>> with Heard() as heard:
        ...     signal.raise_signal(signal.SIGTERM)
        >>> _ = signal.signal(signal.SIGTERM, earlier)
        >>> heard.first.name
        'SIGTERM'
    """

    first: signal.Signals | None = None

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._main = threading.current_thread() is threading.main_thread()
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        if self._main:
            self._earlier = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(self, *error: Any) -> None:
        """Look at what has come."""
        if self._main:
            signal.set_wakeup_fd(self._earlier)
        os.close(self._write)
        if number := os.read(self._read, 1):
            self.first = signal.Signals(number[0])
        os.close(self._read)
