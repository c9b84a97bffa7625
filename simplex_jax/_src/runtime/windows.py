"""Windows of a run: the samples after the burn-in, by the number of updates alone.

What a run keeps depends neither on its planned length nor on a clock. So a run that a clock has
ended can be repeated by its number of updates, and one that is made longer gives what a run of that
length would have given.
"""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from simplex_jax._src.runtime.hooks import Event

PARTS = 3
"""Half segments that are kept."""


class Place(NamedTuple):
    """Position of an update in the window of a run."""

    segment: int  # number of the segment
    progress: float  # the completed share of the segment, in (0, 1]


Window: TypeAlias = Callable[[int], Place | None]
"""`updates done -> place`, None during the first burn-in."""


def done(event: Event) -> int:
    """Return the number of updates of a run at an event."""
    return event.step - event.first_step


def doubling(first: int) -> Window:
    """Return a window of segments that double in length, after `first` updates.

    The updates before a segment are as many as its own.
    """

    def place(updates: int) -> Place | None:
        if updates <= first:
            return None
        segment = ((updates - 1) // first).bit_length() - 1
        return Place(segment, updates / (first << segment) - 1)

    return place


def window_of(settings: Any) -> Window:
    """Return the window of a run with settled options."""
    return doubling(settings.sample_every)


def most_parts(settings: Any) -> int:
    """Return the most half segments that a run with settled options keeps at once, at least 1."""
    if settings.steps is None:
        return PARTS
    last = window_of(settings)(settings.steps)
    return 1 if last is None else min(PARTS, _half(last) + 1)


def _half(place: Place) -> int:
    """Return the number of the half segment of a place."""
    return 2 * place.segment + (place.progress > 0.5)


class Accumulator(Protocol):
    """An accumulator that can be merged with others of its kind."""

    def merge(self, other: Self) -> None:
        """Add the quantities of another."""

    def save(self) -> Any:
        """Return its contents."""

    def load(self, saved: Any) -> None:
        """Restore its contents."""


A = TypeVar("A", bound=Accumulator)


class Latest(Generic[A]):
    """Quantities gathered in the last half to two thirds of a run.

    They are gathered in halves of a window's doubling segments, of which the last three are kept.
    """

    def __init__(self, make: Callable[[], A], window: Window) -> None:
        self._make, self._window = make, window
        self._parts: dict[int, A] = {}

    def accumulator_for(self, event: Event) -> A | None:
        """Return the accumulator of an event, None during burn-in, and drop old ones."""
        if (place := self._window(done(event))) is None:
            return None
        now = _half(place)
        self._parts = {n: part for n, part in self._parts.items() if n > now - PARTS}
        if now not in self._parts:
            self._parts[now] = self._make()
        return self._parts[now]

    def whole(self) -> A:
        """Return the quantities of all parts, merged."""
        if len(self._parts) == 1:
            return next(iter(self._parts.values()))
        merged = self._make()
        for part in self._parts.values():
            merged.merge(part)
        return merged

    def taken(self) -> A:
        """Return what `whole` does, in the memory of the first part: nothing is left."""
        parts, self._parts = list(self._parts.values()), {}
        merged = parts.pop(0) if parts else self._make()
        while parts:
            merged.merge(parts.pop(0))
        return merged

    def save(self) -> list[Any]:
        """Return the parts."""
        return [[number, part.save()] for number, part in self._parts.items()]

    def load(self, saved: list[Any]) -> None:
        """Restore the parts."""
        self._parts = {}
        for number, contents in saved:
            self._parts[number] = self._make()
            self._parts[number].load(contents)
