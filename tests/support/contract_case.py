"""A kernel and its inputs, for the tests of the contract of every kernel."""

from collections.abc import Callable
from typing import NamedTuple

from simplex_jax._src import base, batches


class Case(NamedTuple):
    """A small problem for a kernel.

    Attributes:
        kernel: The kernel, at a step size that is stable for thousands of updates.
        position: The argument of its `init`.
        stream: A stream of batches.
        rebuild: `(step_size) -> kernel`, the same kernel with a step size or schedule; None if it
            has no step size.
    """

    kernel: base.Kernel
    position: base.Position
    stream: batches.Stream
    rebuild: Callable[..., base.Kernel] | None
