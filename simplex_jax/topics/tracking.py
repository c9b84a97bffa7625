"""Hooks of a fit: the record of its evaluations, and the check that its numbers are numbers."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np

from simplex_jax.runtime.hooks import Event
from simplex_jax.topics.settings import Settings, Size


class Records:
    """What each evaluation measured, with the count of documents and the rate of tokens."""

    def __init__(self, settings: Settings, size: Size) -> None:
        self.records: list[dict[str, float]] = []
        per_pass = -(-size.documents // settings.batch_size)
        # Blocks of memoised counts cover the corpus exactly once a pass, the last one being short.
        memoised = settings.counts == "memoised"
        self._per_step = size.documents / per_pass if memoised else settings.batch_size
        self._size = size

    def __call__(self, event: Event) -> None:
        """Complete the metrics of an event and keep them."""
        visited = event.step * self._per_step
        passes = visited / self._size.documents
        event.metrics["documents"] = round(visited)
        event.metrics["passes"] = round(passes, 3)
        event.metrics["tokens_per_second"] = round(
            passes * self._size.tokens / max(event.seconds, 1e-9)
        )
        if hasattr(event.info.sampler, "stiffness"):
            event.metrics["stiffness"] = float(np.max(event.info.sampler.stiffness))
        record = {"step": event.step, "seconds": round(event.seconds, 4)} | event.metrics
        self.records.append(record)

    def save(self) -> list[dict[str, float]]:
        """Return what a continued run needs."""
        return self.records

    def load(self, saved: list[dict[str, float]]) -> None:
        """Go on from what was saved."""
        self.records = saved


class Watch:
    """Stops a run whose topics are no longer numbers, and remembers its latest Info.

    It must come before a `checkpoint.Saver`, which then never saves such a state.

    Args:
        checkpoints: Their directory, to name the newest in the error; None if there is none.

    Attributes:
        latest: The latest event, without its state; None before the first.
    """

    def __init__(self, checkpoints: Path | None) -> None:
        self._checkpoints = checkpoints
        self.latest: Event | None = None

    def __call__(self, event: Event) -> None:
        """Do nothing: `pulse` is called at the end of a chunk as well."""

    def pulse(self, event: Event) -> None:
        """Look at the state.

        Raises:
            FloatingPointError: A topic or a concentration is NaN; the message names the step.
        """
        state = event.state
        numbers = jnp.max(state.position) + jnp.sum(state.alpha) + jnp.sum(state.beta)
        if not bool(jnp.isfinite(numbers)):
            raise FloatingPointError(
                f"the topics are NaN at step {event.step}{self._since()}: try a smaller step size"
                f"{self._newest()}"
            )
        self.latest = event._replace(state=None)

    def _since(self) -> str:
        return "" if self.latest is None else f" and were not at step {self.latest.step}"

    def _newest(self) -> str:
        found = [] if self._checkpoints is None else sorted(self._checkpoints.glob("*-step-*"))
        return f"; the last checkpoint, {str(found[-1])!r}, is from before" if found else ""
