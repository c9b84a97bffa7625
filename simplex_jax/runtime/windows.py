"""The part of a run that counts: which samples come after the burn-in."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from simplex_jax.runtime.hooks import Event


class Place(NamedTuple):
    """Where in what counts an event is."""

    segment: int  # number of the segment
    progress: float  # the part of the segment that is over, in [0, 1]


Window: TypeAlias = Callable[[Event], Place | None]
"""`event -> place`, None in the burn-in."""


def second_half(seconds: float | None = None) -> Window:
    """Return the window of a run of known length: the second half, by steps or by seconds."""

    def place(event: Event) -> Place | None:
        over = (event.step - event.first_step) / (event.last_step - event.first_step)
        if seconds is not None:
            over = max(over, event.seconds / seconds)
        return Place(0, min(2 * over - 1, 1.0)) if over >= 0.5 else None

    return place


def doubling(first: int) -> Window:
    """Return the window of a run of unknown length: segments that double, after `first` updates.

    Each begins after as many updates as it has. At any time the last segment and the one before are
    the last half to three quarters of the run.
    """

    def place(event: Event) -> Place | None:
        done = event.step - event.first_step
        if done <= first:
            return None
        segment = ((done - 1) // first).bit_length() - 1
        return Place(segment, done / (first << segment) - 1)

    return place


class Accumulator(Protocol):
    """Something that grows, and can be merged with others of its kind."""

    def merge(self, other: Self) -> None:
        """Add all that the other one has gathered."""

    def save(self) -> Any:
        """Return its contents."""

    def load(self, saved: Any) -> None:
        """Restore its contents."""


A = TypeVar("A", bound=Accumulator)


class Latest(Generic[A]):
    """What was gathered in the segment at hand, and in the one before."""

    def __init__(self, make: Callable[[], A]) -> None:
        self._make = make
        self._segments: dict[int, A] = {}

    def at(self, place: Place) -> A:
        """Return what the segment of a place gathers; those before the last one are forgotten."""
        if place.segment not in self._segments:
            before = self._segments.get(place.segment - 1)
            self._segments = {} if before is None else {place.segment - 1: before}
            self._segments[place.segment] = self._make()
        return self._segments[place.segment]

    def whole(self) -> A:
        """Return what both have gathered."""
        if len(self._segments) == 1:
            return next(iter(self._segments.values()))
        merged = self._make()
        for segment in self._segments.values():
            merged.merge(segment)
        return merged

    def save(self) -> list[Any]:
        """Return the segments."""
        return [[number, segment.save()] for number, segment in self._segments.items()]

    def load(self, saved: list[Any]) -> None:
        """Restore the segments."""
        self._segments = {}
        for number, contents in saved:
            self._segments[number] = self._make()
            self._segments[number].load(contents)
