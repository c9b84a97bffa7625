"""Errors of commands: one line and an exit status, or the traceback on request."""

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from jax.errors import JaxRuntimeError

from simplex_jax._src.corpus import CorpusError
from simplex_jax._src.runtime import output, processes
from simplex_jax._src.runtime.saved import RunError


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
                    "out of memory: give a smaller --batch-size or a smaller model "
                    f"({message[:200]})"
                )
            if not processes.joined():
                click.echo(f"simplex-jax: error: {message}", err=True)
                sys.exit(1)
            # Gloo's errors are a JaxRuntimeError in a computation and a ValueError in a transfer.
            lost = isinstance(error, JaxRuntimeError) or "Gloo" in message
            if lost and not message.startswith("out of memory"):
                message = (
                    "another process of the run has ended: see its messages, and continue with "
                    f"--resume ({message[:200]})"
                )
            click.echo(f"simplex-jax: process {processes.number()}: error: {message}", err=True)
            processes.leave(1)
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
