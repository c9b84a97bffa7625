"""The hook that saves a run periodically, and restores it."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from simplex_jax._src.base import PyTree, State
from simplex_jax._src.runtime import processes
from simplex_jax._src.runtime.checkpoint import leaves
from simplex_jax._src.runtime.checkpoint.store import Store
from simplex_jax._src.runtime.hooks import Event, Hook

_FIRST = 5.0  # seconds before the first checkpoint


class Resumable(Protocol):
    """A hook with contents to save and restore."""

    def save(self) -> PyTree:
        """Return its contents: dicts and lists of arrays and of JSON values."""

    def load(self, saved: PyTree) -> None:
        """Restore the contents of `save`; arrays are NumPy arrays, and tuples are lists."""


class Restored(NamedTuple):
    """Arguments of `driver.run` that continue a run."""

    state: State  # its state
    first_step: int  # the step at which it began
    seconds: float  # its seconds of training so far


class Saver(Hook):
    """Save a run: its state, the contents of its other hooks by name, and its seconds.

    It saves whenever `every` seconds have passed, first after 5 if these are fewer, even within a
    chunk, and at the end of the run; if `every` is 0, at the end of every chunk. The samples of a
    run do not depend on when it was saved or interrupted. `about` is as for `Store.save`, and
    `whole` returns the state to save.
    """

    def __init__(
        self,
        store: Store,
        resumables: Mapping[str, Resumable],
        about: Mapping[str, Any],
        every: float = 60.0,
        whole: Callable[[State], PyTree] = lambda state: state,
    ) -> None:
        if not every >= 0:
            raise ValueError(f"every must be at least 0 seconds; it is {every}")
        self._store = store
        self._resumables = dict(resumables)
        self._about = about
        self._every = every
        self._whole = whole
        self._last = time.monotonic()
        self._saved_step: int | None = None
        self._chunk_ended = False

    def restore(self, like: State, *, resized: bool = False) -> Restored | None:
        """Restore the newest checkpoint and the contents of the other hooks, or return None.

        `like` is a state of the same structure, shapes and dtypes, such as a new one; `resized`
        allows arrays of other sizes, if a state has grown. Errors are those of `Store.latest`.
        """
        hooks = dict.fromkeys(self._resumables, leaves.ANY)
        tree = {"state": like, "hooks": hooks, "first_step": 0, "seconds": 0.0}
        saved = self._store.latest(tree, self._about, resized=resized)
        if saved is None:
            return None
        for name, resumable in self._resumables.items():
            resumable.load(saved.tree["hooks"][name])
        return Restored(*(saved.tree[name] for name in Restored._fields))

    def begin(self) -> None:
        """Start the clock: preparing a large run takes longer than the time between checkpoints."""
        self._last = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Note the end of a chunk; `pulse` saves after all hooks have been called."""
        self._chunk_ended = True

    def pulse(self, event: Event) -> None:
        """Save if a checkpoint is due."""
        wait = self._every if self._saved_step is not None else min(self._every, _FIRST)
        due = self._chunk_ended if not self._every else time.monotonic() - self._last >= wait
        if processes.any_of([due]):
            self._save(event)

    def finish(self, event: Event) -> None:
        """Save the end of the run."""
        if event.step != self._saved_step:
            self._save(event)

    def _save(self, event: Event) -> None:
        hooks = {name: _lists(resumable.save()) for name, resumable in self._resumables.items()}
        length = {"first_step": event.first_step, "seconds": event.seconds}
        tree = {"state": self._whole(event.state), "hooks": hooks} | length
        self._store.save(event.step, tree, self._about)
        self._last, self._saved_step, self._chunk_ended = time.monotonic(), event.step, False


def _lists(contents: PyTree) -> PyTree:
    """Return contents with lists for tuples: an empty tuple has no leaves, and would be lost."""
    if isinstance(contents, dict):
        return {name: _lists(value) for name, value in contents.items()}
    if isinstance(contents, list) or type(contents) is tuple:
        return [_lists(value) for value in contents]
    return contents
