"""The hook that saves a run from time to time, and brings it back."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import jax

from simplex_jax.base import PyTree, State
from simplex_jax.runtime.checkpoint import leaves
from simplex_jax.runtime.checkpoint.store import Store
from simplex_jax.runtime.hooks import Event


class Resumable(Protocol):
    """A hook that accumulates something, which has to go on where it was."""

    def save(self) -> PyTree:
        """Return what it has: dicts and lists of arrays and of what JSON can hold."""

    def load(self, saved: PyTree) -> None:
        """Take back what `save` returned; the arrays are NumPy arrays, tuples are lists."""


class Restored(NamedTuple):
    """Where a run goes on.

    Attributes:
        state: Its state.
        first_step: For `driver.run`: the step that it began at.
        seconds: For `driver.run`: the seconds that it has trained for.
    """

    state: State
    first_step: int
    seconds: float


class Saver:
    """Save a run: its state, what its other hooks have, and its seconds.

    It saves when a time has passed, also within a chunk, and at the end of the run. What the run
    samples does not depend on when it was saved, nor on where it was cut.

    Args:
        store: Where to.
        resumables: The hooks that accumulate something, by name.
        about: What the run is about; see `Store.save`.
        every: Seconds between checkpoints; 0 saves at the end of every chunk.

    Raises:
        ValueError: `every` is negative.

    Example:
        >>> import tempfile
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, estimators
        >>> from simplex_jax.runtime import checkpoint, driver
        >>> from simplex_jax.samplers import scir
        >>> stream = batches.uniform(jnp.array([0, 0, 0, 1]), 2)
        >>> kernel = scir.build(estimators.categorical(size=4), alpha=0.1, step_size=0.5)
        >>> state = kernel.init(jax.random.key(0), jnp.full(3, 1 / 3))
        >>> key = jax.random.key(1)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     saver = checkpoint.Saver(checkpoint.Store(directory), {}, {"alpha": 0.1})
        ...     half, _ = driver.run(key, kernel, state, stream, 10, hooks=[saver])
        ...     back = saver.restore(state)
        >>> end, _ = driver.run(key, kernel, back.state, stream, 10,
        ...     first_step=back.first_step, seconds=back.seconds)
        >>> whole, _ = driver.run(key, kernel, state, stream, 20)
        >>> bool((end.position == whole.position).all())
        True
    """

    def __init__(
        self,
        store: Store,
        resumables: Mapping[str, Resumable],
        about: Mapping[str, Any],
        every: float = 60.0,
    ) -> None:
        if not every >= 0:
            raise ValueError(f"every must be at least 0 seconds; it is {every}")
        self._store = store
        self._resumables = dict(resumables)
        self._about = about
        self._every = every
        self._last = time.monotonic()
        self._saved_step: int | None = None
        self._chunk_ended = False

    def restore(self, like: State, *, resized: bool = False) -> Restored | None:
        """Bring back the newest checkpoint, and what the other hooks had.

        Args:
            like: A state of the same structure, shapes and dtypes, for instance a new one.
            resized: Take arrays of other sizes, of a state that has grown.

        Returns:
            Where the run goes on; None where there is no checkpoint.

        Raises:
            CheckpointError: See `Store.latest`.
        """
        if resized:
            like = jax.tree.map(leaves.AnySize, like)
        hooks = dict.fromkeys(self._resumables, leaves.ANY)
        wanted = {"state": like, "hooks": hooks, "first_step": 0, "seconds": 0.0}
        saved = self._store.latest(wanted, self._about)
        if saved is None:
            return None
        for name, resumable in self._resumables.items():
            resumable.load(saved.tree["hooks"][name])
        return Restored(*(saved.tree[name] for name in Restored._fields))

    def __call__(self, event: Event) -> None:
        """See the end of a chunk; `pulse` saves, when all hooks have seen it."""
        del event
        self._chunk_ended = True

    def pulse(self, event: Event) -> None:
        """Save if it is time to."""
        due = self._chunk_ended if not self._every else time.monotonic() - self._last >= self._every
        if due:
            self._save(event)

    def finish(self, event: Event) -> None:
        """Save the end of the run."""
        if event.step != self._saved_step:
            self._save(event)

    def _save(self, event: Event) -> None:
        hooks = {name: resumable.save() for name, resumable in self._resumables.items()}
        tree = {
            "state": event.state,
            "hooks": hooks,
            "first_step": event.first_step,
            "seconds": event.seconds,
        }
        self._store.save(event.step, tree, self._about)
        self._last, self._saved_step, self._chunk_ended = time.monotonic(), event.step, False
