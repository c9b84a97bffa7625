"""A kernel and what it needs to run, for the tests of what every kernel promises."""

from collections.abc import Callable
from typing import NamedTuple

from simplex_jax import base, batches


class Case(NamedTuple):
    """A small problem for a kernel.

    Attributes:
        kernel: The kernel, at a step size that is stable for thousands of updates.
        position: What its `init` takes.
        stream: A stream of batches.
        rebuild: `(step_size) -> kernel`, the kernel once more, of a step size or a schedule of it.
    """

    kernel: base.Kernel
    position: base.Position
    stream: batches.Stream
    rebuild: Callable[..., base.Kernel]
