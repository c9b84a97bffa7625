"""The local step of LDA: the sweeps that draw the topics of tokens, and checks of its options."""

from typing import NamedTuple

from simplex_jax._src import arguments
from simplex_jax._src.models.topics import engine, integrated

METHODS = (*engine.METHODS, "integrated")
IN_ONE_PLACE = (
    "the local step 'integrated' needs documents in memory, on one device and in one process: use "
    "'collapsed'"
)


class Local(NamedTuple):
    """The local step: draws of the topics of the tokens of a batch.

    Attributes:
        method: "collapsed" or "blocked", see `models.topics.collapsed` and `models.topics.blocked`;
            or "integrated", see `models.topics.integrated`, with memoised counts.
        sweeps: Gibbs sweeps over a batch.
        burn_in: Number of first sweeps whose counts are discarded.
        expected: Count the probabilities of the labels in place of the labels: less noise, at the
            cost of K updates a token. Only for blocked sweeps with estimated counts; memoised
            counts are exact only with labels.
        engine: "native" or "xla", see `engine`; by default the one that works here.
    """

    method: str = "collapsed"
    sweeps: int = 1
    burn_in: int = 0
    expected: bool = False
    engine: str | None = None


def check(shape: tuple[int, int], local_step: Local) -> None:
    """Raise a ValueError unless there are topics and words and the local step makes sense."""
    if shape[0] < 1 or shape[1] < 1:
        raise ValueError(f"there must be at least one topic and one word; the shape is {shape}")
    arguments.choice("method", local_step.method, METHODS)
    engine.resolve(local_step.engine, shape[0])
    whole = isinstance(local_step.sweeps, int) and isinstance(local_step.burn_in, int)
    if not whole or not 0 <= local_step.burn_in < local_step.sweeps:
        raise ValueError(
            "sweeps must be a positive integer and burn_in a smaller one, from 0 on; they are "
            f"{local_step.sweeps!r}, {local_step.burn_in!r}"
        )
    if local_step.expected and local_step.method != "blocked":
        raise ValueError("expected counts need the blocked local step")
    if local_step.method == "integrated" and not integrated.works(local_step.engine):
        raise ValueError(
            "the local step 'integrated' is native code for CPUs in float32, which is unavailable "
            "here or was not selected: use 'collapsed'"
        )


def check_memoised(shape: tuple[int, int], local_step: Local) -> None:
    """Raise a ValueError unless the local step makes sense and fits memoised counts."""
    check(shape, local_step)
    if local_step.expected or local_step.burn_in:
        raise ValueError("memoised counts use the last labels: leave out burn_in and expected")
