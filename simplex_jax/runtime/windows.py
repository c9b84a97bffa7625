"""Windows of a run: the samples after the burn-in."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from simplex_jax.runtime.hooks import Event


class Place(NamedTuple):
    """Position of an event in the window of a run."""

    segment: int  # number of the segment
    progress: float  # the completed share of the segment, in [0, 1]


Window: TypeAlias = Callable[[Event], Place | None]
"""`event -> place`, None during burn-in."""


class When(NamedTuple):
    """Time of an event."""

    step: int
    seconds: float


def when(event: Event) -> When:
    """Return the time of an event."""
    return When(event.step, event.seconds)


def back(event: Event, then: When) -> Event:
    """Return an event moved to an earlier time of its run, for use with a window."""
    return event._replace(step=then.step, seconds=then.seconds)


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

    The updates before a segment are as many as its own. At any time the last two segments are the
    last half to three quarters of the run.
    """

    def place(event: Event) -> Place | None:
        done = event.step - event.first_step
        if done <= first:
            return None
        segment = ((done - 1) // first).bit_length() - 1
        return Place(segment, done / (first << segment) - 1)

    return place


class Accumulator(Protocol):
    """An accumulator that can be merged with others of its kind."""

    def merge(self, other: Self) -> None:
        """Add the quantities of another."""

    def save(self) -> Any:
        """Return its contents."""

    def load(self, saved: Any) -> None:
        """Restore its contents."""


A = TypeVar("A", bound=Accumulator)


class _Segment(Generic[A]):
    """Quantities gathered in a segment, and the times of its first and last events."""

    def __init__(self, gathered: A, first: When, last: When) -> None:
        self.gathered, self.first, self.last = gathered, first, last

    def merge(self, later: Self) -> None:
        """Add a later segment."""
        self.gathered.merge(later.gathered)
        self.last = later.last

    def middle(self) -> When:
        """Return the time in the middle."""
        return When(
            (self.first.step + self.last.step) // 2, (self.first.seconds + self.last.seconds) / 2
        )


class Latest(Generic[A]):
    """Quantities gathered in the current segment of a window and in the previous one.

    A run continued to another length has another window, with other segments. A segment cannot be
    split: it joins the new one in which its middle lies, and is dropped if that is none.
    """

    def __init__(self, make: Callable[[], A], window: Window) -> None:
        self._make, self._window = make, window
        self._segments: dict[int, _Segment[A]] = {}

    def at(self, event: Event) -> A | None:
        """Return the accumulator of an event, None during burn-in, and drop old segments."""
        place, now = self._window(event), when(event)
        segments, self._segments = self._segments, {}
        for earlier in segments.values():
            middle = self._window(back(event, earlier.middle()))
            if middle is None or (place and middle.segment < place.segment - 1):
                continue
            joined = self._segments.setdefault(middle.segment, earlier)
            if joined is not earlier:
                joined.merge(earlier)
        if place is None:
            return None
        segment = self._segments.setdefault(place.segment, _Segment(self._make(), now, now))
        segment.last = now
        return segment.gathered

    def whole(self) -> A:
        """Return the quantities of both segments, merged."""
        segments = [segment.gathered for segment in self._segments.values()]
        if len(segments) == 1:
            return segments[0]
        merged = self._make()
        for gathered in segments:
            merged.merge(gathered)
        return merged

    def save(self) -> list[Any]:
        """Return the segments."""
        return [
            [number, list(segment.first), list(segment.last), segment.gathered.save()]
            for number, segment in self._segments.items()
        ]

    def load(self, saved: list[Any]) -> None:
        """Restore the segments."""
        self._segments = {}
        for number, first, last, contents in saved:
            self._segments[number] = _Segment(self._make(), When(*first), When(*last))
            self._segments[number].gathered.load(contents)
