"""Arrays to and from a directory, by Orbax."""

import contextlib
import functools
import hashlib
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

_LATE = 0.2
"""Seconds in which the remains of a failed operation have ended."""


def write(directory: Path, arrays: Sequence[np.ndarray]) -> None:
    """Write arrays to a new directory; those without elements, which Orbax refuses, are left out.

    Args:
        directory: Where to; it must not exist.
        arrays: NumPy arrays of numbers.
    """
    tree = {str(number): array for number, array in enumerate(arrays) if array.size}
    if not tree:
        return
    with _orbax() as ocp, ocp.Checkpointer(_handler(ocp)) as checkpointer:
        checkpointer.save(directory.absolute(), args=ocp.args.PyTreeSave(tree))


def read(directory: Path, like: Sequence[tuple[tuple[int, ...], str]]) -> list[np.ndarray]:
    """Read what `write` has written.

    Args:
        directory: Where from.
        like: Shape and dtype of every array.

    Returns:
        NumPy arrays.
    """
    found: dict[str, np.ndarray] = {}
    numbers = [str(number) for number, (shape, _) in enumerate(like) if 0 not in shape]
    if numbers:
        with _orbax() as ocp, ocp.Checkpointer(_handler(ocp)) as checkpointer:
            plain = ocp.RestoreArgs(restore_type=np.ndarray)
            args = ocp.args.PyTreeRestore(restore_args=dict.fromkeys(numbers, plain))
            found = checkpointer.restore(directory.absolute(), args=args)
    return [
        np.zeros(shape, dtype) if 0 in shape else found[str(number)]
        for number, (shape, dtype) in enumerate(like)
    ]


def digest(array: np.ndarray) -> str:
    """Return the SHA-256 of the elements in C order."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _handler(ocp: ModuleType) -> Any:
    # Compression saves little on random floats and labels, and takes most of the time.
    return ocp.PyTreeCheckpointHandler(use_compression=False)


@contextlib.contextmanager
def _orbax() -> Iterator[ModuleType]:
    """Import Orbax, which takes half a second, and keep its noise to itself.

    It logs warnings that say nothing to the user of a run, and the first of them gives the root
    logger a handler, after which an application could no longer configure its own logging. When an
    operation fails, those that it started beside it end a little later and complain, one by one,
    that the event loop is closed.
    """
    root, noisy = logging.getLogger(), [logging.getLogger(name) for name in ("absl", "asyncio")]
    handlers, levels = list(root.handlers), [logger.level for logger in noisy]
    hook = sys.unraisablehook
    try:
        sys.unraisablehook = functools.partial(_unless_late, hook)
        for logger in noisy:
            logger.setLevel(logging.CRITICAL + 1)
        import orbax.checkpoint as ocp  # type: ignore[import-untyped]

        yield ocp
    except BaseException:
        time.sleep(_LATE)
        raise
    finally:
        sys.unraisablehook = hook
        root.handlers[:] = handlers
        for logger, level in zip(noisy, levels, strict=True):
            logger.setLevel(level)


def _unless_late(hook: Callable[[Any], Any], unraisable: Any) -> None:
    if "Event loop is closed" not in str(unraisable.exc_value):
        hook(unraisable)
