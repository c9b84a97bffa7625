"""Standard streams that outlast their readers: `... | head` does not end a run.

This imports only the standard library, like `ending`.
"""

import io
import os
import sys
from typing import Any


class _Lasting(io.FileIO):
    """A stream whose writes go nowhere once its reader has gone or, for progress, its disk is full.

    Results, on standard output, are errors where they cannot be written.
    """

    def write(self, data: Any, /) -> int:
        """Write some bytes."""
        try:
            return super().write(data) or 0
        except OSError as error:
            if not isinstance(error, BrokenPipeError) and self.fileno() != 2:
                raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        return len(data)


def outlast() -> None:
    """Replace both streams of the program, if they are files."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None or not hasattr(stream, "reconfigure"):
            continue
        stream.flush()
        lasting = io.TextIOWrapper(
            io.BufferedWriter(_Lasting(number, "w", closefd=False)),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=number == 2 or stream.isatty(),
        )
        setattr(sys, name, lasting)
