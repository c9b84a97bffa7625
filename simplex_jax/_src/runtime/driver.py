"""The driver: runs a kernel in compiled chunks, and calls hooks on the host between them."""

import bisect
import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src import arguments
from simplex_jax._src.base import (
    Batch,
    Info,
    Kernel,
    Position,
    PyTree,
    State,
    Update,
    as_pytree,
    current_step,
)
from simplex_jax._src.batches import Stream
from simplex_jax._src.draws.keys import fold_in, split
from simplex_jax._src.runtime import feed, processes, programs
from simplex_jax._src.runtime.hooks import Callback, Calls, Event, calls_of

_MOST_STEPS = 2**31 - 2  # largest interval, since steps are int32

PULSE = 1.0
"""Approximate number of seconds between calls of `Hook.pulse`."""

Collect: TypeAlias = Callable[[State, Info], PyTree]
"""`(state, info) -> pytree` to collect at a step."""

Grow: TypeAlias = Callable[[State], State | None]
"""`(state) -> larger state` if the last update exceeded the capacity; else None."""


def position_of(state: State, info: Info) -> Position:
    """Return the position."""
    return state.position


def nothing(state: State, info: Info) -> tuple:
    """Return nothing: the `collect` of runs that need only the last state."""
    return ()


def run(
    key: jax.Array,
    kernel: Kernel,
    state: State,
    stream: Stream | Iterable[Batch],
    num_steps: int,
    *,
    collect: Collect = position_of,
    thin: int = 1,
    hooks: Sequence[Callback] = (),
    chunk: int = 100,
    sample_every: int | None = None,
    max_seconds: float | None = None,
    first_step: int | None = None,
    seconds: float = 0.0,
    grow: Grow | None = None,
    compiler_options: Mapping[str, Any] | None = None,
) -> tuple[State, PyTree]:
    """Do `num_steps` updates of a kernel.

    The update after step i uses `fold_in(key_update, i)` and the batch `stream(key_stream, i)`,
    where `key_update, key_stream = split(key)` and i is `state.step`. Therefore chunks, thinning
    and hooks do not change the samples, and a run continued from its last state with the same key
    gives the same samples as one long run.

    Device memory holds one chunk of collected values; the trace is gathered on the host. The loop
    is compiled once, for chunks of any length. The state passed in stays usable.

    Args:
        key: A PRNG key.
        kernel: A kernel; see `chains` for many chains.
        state: Its state, from `kernel.init` or from an earlier run.
        stream: A stream of `simplex_jax.batches` (`batches.none` for kernels that need none), or
            any iterable of batches, starting with the batch of the state's step. An iterable is
            read on the host, a few batches ahead of the updates (one batch, for its shapes, if
            there are no updates); the run ends when it ends.
        num_steps: Number of updates.
        collect: `(state, info) -> pytree` to collect at a step; by default the position.
        thin: Collect the steps after which `state.step` is a multiple of `thin`.
        hooks: Functions of an event, called after every chunk, in order; the run ends after a chunk
            if one of them returns True. `help(simplex_jax.runtime)` says what an event has. A
            `runtime.Hook` is also called at other times.
        chunk: Hooks are called when `state.step` is a multiple of `chunk`, and at the end.
        sample_every: The hooks' `sample` is called when `state.step` is a multiple of this; by
            default `chunk`.
        max_seconds: End when the time spent in updates, without compilation and hooks, reaches
            this. It is checked after a chunk or, if a hook has a `pulse`, about every second.
        first_step: For a continued run, the step at which its first part began; by default the step
            of the state.
        seconds: For a continued run, the time spent in earlier updates.
        grow: For states whose shapes are too small in rare cases. An update that exceeds them
            leaves the state unchanged, including its step, and so do those after it. `grow` then
            returns a larger state, a program is compiled for it, and the same update is done with
            its own key and batch. Collected values must not change their shapes.
        compiler_options: Options of XLA for the program, as those of `jax.jit`.

    Returns:
        The last state, and the trace: all collected values, as NumPy arrays stacked along a new
        first axis.

    Raises:
        ValueError: An argument is out of range.
        FloatingPointError: A number of the state became NaN; the message names it and the update.
            No hook sees such a state.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, estimators, run
        >>> from simplex_jax.samplers import scir
        >>> x = jnp.array([0, 0, 0, 1])
        >>> kernel = scir.build(estimators.categorical(size=4), alpha=0.1, step_size=0.5)
        >>> state = kernel.init(jax.random.key(0), jnp.full(3, 1 / 3))
        >>> state, trace = run(
        ...     jax.random.key(1), kernel, state, batches.uniform(x, 2), num_steps=50)
        >>> int(state.step), trace.shape
        (50, (50, 3))
    """
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((key, kernel, state))):
        raise ValueError(
            "run cannot be traced, as within jit, vmap or grad: use jax.lax.scan over kernel.update"
        )
    num_steps = arguments.at_least("num_steps", num_steps, 0)
    thin = arguments.within("thin", thin, 1, _MOST_STEPS)
    chunk = arguments.within("chunk", chunk, 1, _MOST_STEPS)
    every = chunk if sample_every is None else arguments.at_least("sample_every", sample_every, 1)
    if max_seconds is not None and not max_seconds >= 0:
        raise ValueError(f"max_seconds must be at least 0; it is {max_seconds}")
    if not 0 <= seconds < math.inf:
        raise ValueError(f"seconds must be finite and at least 0; it is {seconds}")
    # Weak types would make the second chunk differ from the first, and compile again.
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), state)
    step = int(current_step(state))
    first = step if first_step is None else arguments.at_least("first_step", first_step, 0)
    if first > step:
        raise ValueError(f"first_step must be at most the step of the state, {step}; it is {first}")
    last = step + num_steps
    if max_seconds is not None and 0 < max_seconds <= seconds:
        last = step  # a continued run that has reached its time limit
    program = _program(compiler_options)
    loop = _Loop(
        functools.partial(program, *_fixed(key, kernel, collect), **_sizes(thin, chunk)),
        feed.Reader(feed.blocks(stream, step, last, chunk)),
        _Times(first, last, chunk, every, thin, max_seconds),
        calls_of(hooks),
        grow,
        state,
        seconds,
    )
    del state  # its memory is free after the first updates
    with contextlib.ExitStack() as stack:
        for close in loop.calls.close:
            stack.callback(close)
        loop.begin()
        while loop.goes_on():
            loop.go_on()
        loop.finish()
    return loop.state, loop.trace()


def compile_ahead(
    key: jax.Array,
    kernel: Kernel,
    state: State,
    stream: Stream,
    *,
    collect: Collect,
    chunk: int,
    compiler_options: Mapping[str, Any],
) -> Callable[[], None]:
    """Start compiling the program of `run` in another thread, and return what waits for its end.

    Kernel, stream, `collect`, `chunk` and the options are those of the run, and the state has the
    shapes of its first state. Does nothing on an accelerator, where the compiler times kernels.
    """
    if jax.default_backend() != "cpu" or jax.config.jax_disable_jit:  # type: ignore[attr-defined]
        return lambda: None
    fixed, sizes = _fixed(key, kernel, collect), _sizes(1, chunk)
    # Lowered in this thread, which has the contexts of JAX that the run has.
    lowered = _program(compiler_options).lower(*fixed, as_pytree(stream), state, 0, **sizes)

    def compile_program() -> None:
        with contextlib.suppress(Exception):  # `run` compiles it again, and raises
            lowered.compile()

    thread = threading.Thread(target=compile_program, name="compile_ahead")
    thread.start()
    return thread.join


def _program(compiler_options: Mapping[str, Any] | None = None) -> Any:
    return programs.jit(_advance, "thin slots", **(compiler_options or {}))


def _fixed(key: jax.Array, kernel: Kernel, collect: Collect) -> tuple:
    """Return the first arguments of the program, which are the same in a run."""
    return split(key), as_pytree(kernel.update), as_pytree(collect)


def _sizes(thin: int, chunk: int) -> dict[str, int]:
    """Return the static arguments of the program."""
    return {"thin": thin, "slots": (chunk - 1) // thin + 2}


class _Times(NamedTuple):
    """Steps at which a run does more than updates."""

    first: int  # the step at its beginning
    last: int  # the step at its end
    chunk: int  # hooks are called at its multiples
    every: int  # samples are taken at its multiples
    thin: int  # values are collected at its multiples
    max_seconds: float | None  # the time after which it ends


class _Loop:
    """A run on the host: state, collected values and time so far."""

    def __init__(
        self,
        advance: Callable[[Stream, State, int], tuple[State, Info, PyTree, jax.Array]],
        reader: feed.Reader,
        times: _Times,
        calls: Calls,
        grow: Grow | None,
        state: State,
        seconds: float,
    ) -> None:
        self._advance, self._reader, self._times = advance, reader, times
        self.calls, self._grow = calls, grow
        self.state, self._step = state, int(current_step(state))
        self._seconds, self._compile_seconds = seconds, 0.0
        self._pieces: list[PyTree] = []
        self._event: Event | None = None
        self._stop, self._pace = False, 1
        self._pulse, self._last_pulse = False, -math.inf

    def begin(self) -> None:
        """Compile the program, which also gives the structure of an empty trace."""
        self._reader.move_on()
        if self._reader.block is not None:
            collected = self._compile(self._reader.block.stream, self.state)
            self._pieces.append(_first(collected, 0))
            for begin in self.calls.begin:
                begin()

    def goes_on(self) -> bool:
        """Return whether there are updates left."""
        left = self._step < self._times.last and not self._stop
        return left and self._reader.block is not None

    def go_on(self) -> None:
        """Do the updates up to the next call of a hook, and call it."""
        assert self._reader.block is not None
        stream = self._reader.block.stream
        info = self._update(self._reader.block)
        larger = None if self._grow is None else self._grow(self.state)
        if larger is None:
            self._call(info)
        else:
            _check_shapes(self._pieces[0], self._compile(stream, larger))
            self.state = larger

    def finish(self) -> None:
        """Call the `finish` methods of hooks."""
        if self._event is not None:
            for finish in self.calls.finish:
                finish(self._event)

    def trace(self) -> PyTree:
        """Return all collected values."""
        if not self._pieces:
            raise ValueError("stream must have at least one batch; it is empty")
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *self._pieces)

    def _compile(self, stream: Stream, state: State) -> PyTree:
        """Compile the program by running zero updates, and return what it collects."""
        started = time.perf_counter()
        _, _, collected, _ = jax.block_until_ready(self._advance(stream, state, 0))
        self._compile_seconds += time.perf_counter() - started
        return collected

    def _length(self, end: int) -> int:
        """Return the number of updates up to the next call of a hook, at most to `end`."""
        step, times = self._step, self._times
        length = min(step - step % times.chunk + times.chunk, times.last, end) - step
        if self.calls.sample:
            length = min(length, times.every - step % times.every)
        if self.calls.pulse:  # without a pulse, the whole chunk runs at once
            length = min(length, self._pace)
        return length

    def _update(self, block: feed.Block) -> Info:
        """Do updates, fewer if the state needs to grow, and collect."""
        length = self._length(block.end)
        started, before = time.perf_counter(), self.state
        result = self._advance(block.stream, before, length)
        if self._step + length == block.end:
            self._reader.read_ahead()  # while the device works
        self.state, info, collected, has_nan = jax.block_until_ready(result)
        now = time.perf_counter()
        elapsed, waited = processes.broadcast_all([now - started, now - self._last_pulse])
        self._seconds += elapsed
        self._pulse = waited >= PULSE or self._step + length == block.end
        if self._pulse:
            self._last_pulse = now
        if self._grow is not None:
            length = int(current_step(self.state)) - self._step
        self._pace = max(1, min(8 * self._pace, int(length * PULSE / max(elapsed, 1e-9))))
        step, thin = self._step, self._times.thin
        if count := (step + length) // thin - step // thin:
            self._pieces.append(_first(collected, count))
        if has_nan:
            raise FloatingPointError(_describe(self._advance, block.stream, before, step, length))
        self._step += length
        if self._step == block.end:
            self._reader.move_on()
        return info

    def _call(self, info: Info) -> None:
        """Call the hooks that are due."""
        step, times, calls = self._step, self._times, self.calls
        self._event = event = Event(
            *(step, times.first, times.last, self._seconds, self._compile_seconds),
            *(self.state, info, {}, times.every, step % times.chunk == 0),
        )
        ended = step == times.last or self._reader.block is None
        late = times.max_seconds is not None and self._seconds >= times.max_seconds
        # Alike in all processes, without asking them: nothing here is their own.
        over = ended or late or any(limit(event) for limit in calls.over)
        if step % times.every == 0:
            for sample in calls.sample:
                sample(event)
        self._stop = over
        if not (event.due or over or self._pulse):
            return
        answers = [callback(event) for callback in calls.callbacks] if event.due or over else []
        pulses = [pulse(event) for pulse in calls.pulse]
        self._stop = processes.any_of([over, *answers, *pulses])


def _has_nan(state: State) -> jax.Array:
    return jnp.stack([jnp.isnan(leaf).any() for _, leaf in _floats(state)] or [False]).any()


def _floats(state: State) -> list[tuple[str, jax.Array]]:
    """Return the floating point leaves of a state, by name."""
    named = jax.tree.leaves_with_path(state)
    return [
        (jax.tree_util.keystr(path).lstrip("."), leaf)
        for path, leaf in named
        if jnp.issubdtype(leaf.dtype, jnp.floating)
    ]


def _describe(advance: Callable, stream: Stream, state: State, step: int, length: int) -> str:
    """Name the leaves that became NaN and the first of `length` updates at fault, by bisection."""
    fewest = bisect.bisect_left(
        range(1, length + 1), True, key=lambda n: bool(advance(stream, state, n)[3])
    )
    end, *_ = advance(stream, state, fewest + 1)
    names = [name for name, leaf in _floats(end) if bool(jnp.isnan(leaf).any())]
    number = step + fewest + 1
    reason = (
        "the start has no finite density, the step size is far too large, or the data do not fit "
        "the estimator"
        if number == 1
        else "the step size is too large, the density is not finite everywhere, or something that "
        "changes from step to step (a schedule, the data) became invalid"
    )
    return f"{', '.join(names)} became NaN in update {number}: {reason}"


def _check_shapes(piece: PyTree, collected: PyTree) -> None:
    """Raise a ValueError if arrays collected from a grown state have another shape."""
    for leaf, new in zip(jax.tree.leaves(piece), jax.tree.leaves(collected), strict=True):
        if leaf.shape[1:] != new.shape[1:]:
            raise ValueError(
                f"the state has grown, and an array of `collect` changed its shape from "
                f"{leaf.shape[1:]} to {new.shape[1:]}: collect what does not depend on its capacity"
            )


def _first(collected: PyTree, count: int) -> PyTree:
    # Copies, since a view would keep the memory of a whole chunk.
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:count].copy(), collected)


def _advance(
    keys: tuple[jax.Array, jax.Array],
    update: Update,
    collect: Collect,
    stream: Stream,
    state: State,
    length: int,
    *,
    thin: int,
    slots: int,
) -> tuple[State, Info, PyTree, jax.Array]:
    """Do `length` updates; return the state, the last info, and up to `slots` collected values.

    Also return whether a number of the state is NaN. The length is not static: a while loop costs
    the same as a scan, and one program serves all.
    """
    state_shape, info_shape = jax.eval_shape(_update, keys, update, stream, state)
    shapes = jax.eval_shape(collect, state_shape, info_shape)
    start = current_step(state)

    def body(_: int, carry: tuple[State, Info, PyTree]) -> tuple[State, Info, PyTree]:
        state, _, collected = carry
        step = current_step(state)
        state, info = _update(keys, update, stream, state)
        # All steps within a block of `thin` write the same slot, and the last one fills it.
        value = jax.lax.cond(
            (step + 1) % thin == 0, collect, lambda *_: _zeros(shapes), state, info
        )
        slot = step // thin - start // thin
        collected = jax.tree.map(lambda rows, row: rows.at[slot].set(row), collected, value)
        return state, info, collected

    empty = jax.tree.map(lambda leaf: jnp.zeros((slots, *leaf.shape), leaf.dtype), shapes)
    start_of_loop = state, _zeros(info_shape), empty
    state, info, collected = jax.lax.fori_loop(0, length, body, start_of_loop)
    return state, info, collected, _has_nan(state)


@jax.jit
def _update(
    keys: tuple[jax.Array, jax.Array], update: Update, stream: Stream, state: State
) -> tuple[State, Info]:
    """Do one update. Jitted, so that finding its shapes and compiling it share one trace."""
    key_update, key_stream = keys
    step = current_step(state)
    return update(fold_in(key_update, step), state, stream(key_stream, step))


def _zeros(shapes: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
