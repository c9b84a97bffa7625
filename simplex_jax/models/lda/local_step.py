"""The local step of LDA: which sweeps draw the topics of tokens, and what goes together."""

from typing import NamedTuple

from simplex_jax import arguments
from simplex_jax.models.topics import engine, integrated

METHODS = (*engine.METHODS, "integrated")
IN_ONE_PLACE = (
    "the local step 'integrated' takes documents in memory, of one device and process: take "
    "'collapsed'"
)


class Local(NamedTuple):
    """The local step: draws of the topics of the tokens of a batch.

    Attributes:
        method: "collapsed" or "blocked", see `models.topics.collapsed` and `models.topics.blocked`;
            or "integrated", see `models.topics.integrated`, with memoised counts.
        sweeps: Gibbs sweeps over a batch.
        burn_in: Of these, the first whose counts are not used.
        expected: Use the probabilities that the labels were drawn from in place of the labels:
            less noise, at the price of K updates a token. For blocked sweeps with estimated counts
            only; memoised counts are exact with labels only.
        engine: "native" or "xla", see `engine`; by default what works here.
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
            "the local step 'integrated' is native code for CPUs in float32, which does not work "
            "here or was not asked for: take 'collapsed'"
        )


def check_memoised(shape: tuple[int, int], local_step: Local) -> None:
    """Raise a ValueError unless the local step makes sense and leaves labels to remember."""
    check(shape, local_step)
    if local_step.expected or local_step.burn_in:
        raise ValueError("memoised counts are those of the last labels: no burn_in, no expected")
