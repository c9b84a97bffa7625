"""Terminal output of the commands: progress, errors and warnings."""

import contextlib
import functools
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import jax
from jax.errors import JaxRuntimeError
from tqdm import tqdm

from simplex_jax._src.corpus import CorpusError
from simplex_jax._src.runtime import devices, output, processes, programs
from simplex_jax._src.runtime.saved import RunError

# Errors of commands: one line and an exit status, or the traceback on request.


def one_line_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Print errors and warnings in one line each; after an error, exit with status 1.

    click shows errors of `usage`, with exit status 2. --debug shows the traceback of an error and
    the location of a warning.
    """

    @functools.wraps(command)
    def guarded(*args: Any, debug: bool, **options: Any) -> None:
        try:
            with warnings.catch_warnings():
                if not debug:
                    warnings.showwarning = _show_warning
                programs.keep()
                command(*args, **options)
        except (
            ValueError,
            OSError,
            ImportError,
            ArithmeticError,
            MemoryError,
            JaxRuntimeError,
        ) as error:
            if debug:
                raise
            message = " ".join(_message(error).split()) or type(error).__name__
            if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in message:
                message = (
                    "out of memory: give a smaller model or, where there is one, a smaller "
                    f"--batch-size ({message[:200]})"
                )
            if not processes.joined():
                click.echo(f"simplex-jax: error: {message}", err=True)
                sys.exit(1)
            # Gloo's errors are a JaxRuntimeError in a computation and a ValueError in a transfer.
            lost = isinstance(error, JaxRuntimeError) or "Gloo" in message
            lost &= not message.startswith("out of memory")
            if lost:
                message = (
                    "another process of the run has ended: see its messages, and continue with "
                    f"--resume ({message[:200]})"
                )
            click.echo(f"simplex-jax: process {processes.number()}: error: {message}", err=True)
            processes.leave(1, lost=lost)
        except KeyboardInterrupt:
            click.echo("simplex-jax: interrupted before the results were written", err=True)
            sys.exit(130)

    return guarded


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """Turn a ValueError in the block, which checks options, into a UsageError.

    Errors in files that options name are bad data, not bad usage.
    """
    try:
        yield
    except (CorpusError, RunError):
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _message(error: BaseException) -> str:
    """Return the message of an error; those of the system name the file."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    if not isinstance(error.filename, str):
        return error.strerror
    path = Path(error.filename)
    if name := output.final_name(path):  # It gets that name only when complete.
        return f"{path.with_name(name)} cannot be written ({error.strerror})"
    return f"{path}: {error.strerror}"


def _show_warning(message: Warning | str, *place: Any, **source: Any) -> None:
    """Replace `warnings.showwarning`, which adds a source line."""
    click.echo(f"simplex-jax: warning: {' '.join(str(message).split())}", err=True)


_INTERVAL = 5.0  # seconds between lines


def speaker(quiet: bool, *, results: bool = False) -> Callable[[str], None]:
    """Return a function that prints lines, or does nothing if `quiet`.

    Progress goes to standard error, and results to standard output.
    """
    return (lambda line: None) if quiet else functools.partial(click.echo, err=not results)


class Stages:
    """Progress of tasks: a bar on a terminal, otherwise a line every few seconds.

    Args:
        quiet: Show nothing.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._task, self._shown = "", -math.inf
        self._bar: Any = None

    def __call__(self, task: str, done: int, total: int) -> None:
        """Show that `done` of the `total` units of a task are done."""
        if self._quiet:
            return
        if task != self._task:
            self._task, self._shown = task, time.monotonic()
            self._bar = tqdm(desc=task, total=total, leave=False) if sys.stderr.isatty() else None
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
            if done >= total:
                self._bar.close()
        elif time.monotonic() - self._shown >= _INTERVAL:
            self._shown = time.monotonic()
            click.echo(f"{task}: {done:,} of {total:,}", err=True)


def machine(count: int = 1) -> str:
    """Return the version of JAX and the devices of a run, as text."""
    several = f"{count} devices of " if count > 1 else ""
    return f"jax {jax.__version__} on {several}{jax.devices()[0].device_kind}"


def memory(needed: Mapping[str, int], remedy: str) -> str:
    """Return lines on the device memory that each part of a run needs, and the total.

    "samples" are on disk. The remedy is added if this is more than the device has.
    """
    total, available = needed["total"], devices.memory()
    where = {"samples": "  on disk, kept (--keep-samples)"}
    lines = [
        f"{name:10} {devices.size(size):>12}{where.get(name, '')}"
        for name, size in needed.items()
        if name != "total"
    ]
    lines.append(
        f"{'in all':10} {devices.size(total):>12}  of {devices.size(available)} on this device"
    )
    if total > available:
        lines.append(f"it does not fit: {remedy}")
    return "\n".join(lines)
