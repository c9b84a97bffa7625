"""Terminal output of the commands."""

import functools
import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import click
import jax
from tqdm import tqdm

from simplex_jax._src.runtime import devices

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
