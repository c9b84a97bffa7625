"""Ctrl-C and SIGTERM end a program with one line and their exit status at any time.

This imports only the standard library, since it runs before the import of JAX, which takes seconds.
"""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
_AGAIN = 0.02
"""Seconds before a lost exception is raised again, after the callback that lost it has ended."""


class Ending:
    """End the program with status 130 on SIGINT and 143 on SIGTERM, within a `with` block.

    It raises `SystemExit`, so that half-written files are removed. Within an import, where an
    exception may turn into another one, crash compiled code or get lost, it exits at once; the next
    run cleans up leftovers such as a directory. Python drops exceptions raised within a callback,
    such as JAX's callback for the garbage collector; the exception is then raised again. A second
    signal ends the program at once. After the block, when all is done, signals are ignored. A
    signal that the process ignores, or that has another handler, is left alone.
    """

    def __init__(self) -> None:
        self._raised, self._said = False, False
        self._status = 0
        self._hook: Callable[[Any], Any] = sys.unraisablehook
        self._handled: list[signal.Signals] = []

    def __enter__(self) -> Self:
        """Install the signal handlers."""
        for number, default in _DEFAULTS.items():
            if signal.getsignal(number) == default:
                signal.signal(number, self._handle)
                self._handled.append(number)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        atexit.register(self._leave)  # before those of JAX are, and so run after them
        return self

    def __exit__(self, *error: Any) -> None:
        """Ignore signals from now on, unless one is ending the program."""
        if not self._raised:
            for number in self._handled:
                signal.signal(number, signal.SIG_IGN)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._said:
            self._said = True
            name = signal.Signals(number).name
            # Not print: the signal may have interrupted one.
            with suppress(OSError):
                text = f"simplex-jax: interrupted by {name} before the results were written\n"
                os.write(2, text.encode())
        if self._raised or _is_importing(frame):
            os._exit(128 + number)
        self._raised, self._status = True, 128 + number
        raise SystemExit(self._status)

    def _leave(self) -> None:
        """Exit without finalising the interpreter, where JAX's pending compilation may crash."""
        if self._raised:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(self._status)

    def _unraisable(self, unraisable: Any) -> None:
        lost = unraisable.exc_value
        if not (self._raised and isinstance(lost, SystemExit)):
            self._hook(unraisable)
            return
        self._raised = False
        threading.Timer(_AGAIN, signal.raise_signal, [self._status - 128]).start()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False
