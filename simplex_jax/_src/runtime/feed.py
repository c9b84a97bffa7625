"""The batches of the driver's loop: a stream, or a few batches at a time from the host."""

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import jax
import numpy as np

from simplex_jax._src.base import Batch, as_pytree, bind
from simplex_jax._src.batches import Stream, on_device

_MOST = 8
"""Number of host batches on the device at once; the same number is prefetched."""


class Lagging:
    """Batches that are read one at a time, each while the previous update runs.

    A batch may depend on the results of updates before that one, and of their hooks.
    """

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Batch]:
        """Return the batches."""
        return self._batches


class Block(NamedTuple):
    """Batches of consecutive steps."""

    stream: Stream  # a stream of them, as a pytree
    end: int  # the step after its last batch


def blocks(stream: Stream | Iterable[Batch], step: int, last: int, chunk: int) -> Iterator[Block]:
    """Yield blocks of the batches of the steps from `step` to before `last`.

    A stream is one block. A block of an iterable has at most `chunk` batches and at most eight, or
    one if they are `Lagging`. The first block is read even if there is no step. All batches must
    have the same shapes, so that one program serves them all; a ValueError names one that differs.
    """
    if callable(stream):
        yield Block(as_pytree(stream), last)
        return
    try:
        source = iter(stream)
    except TypeError:
        raise ValueError(
            f"stream must be a stream of batches or an iterable of them; it is {stream!r}: for a "
            "kernel that needs no batches, give batches.none"
        ) from None
    size = 1 if isinstance(stream, Lagging) else min(chunk, _MOST)
    left = max(last - step, 1)  # one at least, for the shapes of a run without steps
    first = None
    while batches := list(itertools.islice(source, min(size, left))):
        end = step + len(batches)
        for place, batch in enumerate(batches):
            shapes = jax.tree.map(np.shape, batch)
            first = shapes if first is None else first
            if shapes != first:
                raise ValueError(
                    f"batches of a stream must have one shape, and update {step + place} was given "
                    f"{shapes} but the first one had {first}: leave out a shorter last batch, or "
                    "pad and weight it"
                )
        filled = batches + batches[-1:] * (size - len(batches))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *filled)
        yield Block(bind(_stacked, on_device(stacked), step), end)
        step, left = end, left - len(batches)


class Reader:
    """Reads one block after the other, and can prefetch the next.

    Attributes:
        block: The current block; None before the first and after the last.
    """

    block: Block | None = None

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks = blocks
        self._ahead: list[Block | None] = []

    def read_ahead(self) -> None:
        """Read the next block, unless it has been read."""
        if not self._ahead:
            self._ahead.append(next(self._blocks, None))

    def move_on(self) -> None:
        """Move to the next block."""
        self.read_ahead()
        self.block = self._ahead.pop()


def _stacked(batches: Batch, start: int, key: jax.Array, step: jax.Array) -> Batch:
    return jax.tree.map(lambda leaf: leaf[step - start], batches)
