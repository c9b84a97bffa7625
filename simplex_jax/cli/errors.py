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

from simplex_jax.corpus import CorpusError
from simplex_jax.runtime import output, processes
from simplex_jax.runtime.saved import RunError


def one_line_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn errors and warnings into one line each, and errors into exit status 1.

    Errors of `usage` are left to click, which shows them with exit status 2.

    --debug shows the traceback of an error, and the place of a warning.
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
            # Gloo's errors come as JAX's own from a computation, as a ValueError from a transfer.
            lost = isinstance(error, JaxRuntimeError) or "Gloo" in message
            if lost and not message.startswith("out of memory"):
                message = (
                    "another process of the run has ended: see its messages, and go on with "
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
    """Turn a ValueError of the block, which checks only options, into a UsageError.

    An invalid file named by an option counts as bad data.
    """
    try:
        yield
    except (CorpusError, RunError):
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _message(error: BaseException) -> str:
    """Return the message of an error, with the file name for system errors."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    if not isinstance(error.filename, str):
        return error.strerror
    path = Path(error.filename)
    if name := output.final_name(path):  # the name once it is complete
        return f"{path.with_name(name)} cannot be written ({error.strerror})"
    return f"{path}: {error.strerror}"


def _show_warning(message: Warning | str, *place: Any, **source: Any) -> None:
    """Replace `warnings.showwarning`, which adds a line of source."""
    click.echo(f"simplex-jax: warning: {' '.join(str(message).split())}", err=True)
