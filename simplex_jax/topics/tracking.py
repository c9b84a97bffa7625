"""Hooks of a fit: the record of its evaluations, and its latest event."""

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


class Latest:
    """A hook that remembers the latest event.

    Attributes:
        event: It, without its state; None before the first.
    """

    def __init__(self) -> None:
        self.event: Event | None = None

    def __call__(self, event: Event) -> None:
        """Do nothing: `pulse` is called at the end of a chunk as well."""

    def pulse(self, event: Event) -> None:
        """Remember the event."""
        self.event = event._replace(state=None)
