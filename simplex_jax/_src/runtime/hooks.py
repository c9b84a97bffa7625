"""Hooks: functions called on the host between the chunks of a run."""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeAlias

import jax
import numpy as np

from simplex_jax._src.base import Info, State
from simplex_jax._src.extras import needed
from simplex_jax._src.runtime import equilibrium, output
from simplex_jax._src.warn import warn_caller


class Event(NamedTuple):
    """The end of a chunk.

    Attributes:
        step: Number of updates done, `state.step`.
        first_step: `state.step` at the start of the run.
        last_step: The step at which the run should end.
        seconds: Time spent in the updates of this run, without compilation and hooks.
        compile_seconds: Time spent on compilation since the run began.
        state: The state.
        info: The Info of the last update.
        metrics: Numbers that a hook passes to later ones: an evaluation writes them, `Progress`
            shows, `MetricsLog` records and `EarlyStop` watches them.
        sample_every: Updates between samples.
        due: Whether an evaluation is due at this step; if not, the run has ended between two.
    """

    step: int
    first_step: int
    last_step: int
    seconds: float
    compile_seconds: float
    state: State
    info: Info
    metrics: dict[str, float]
    sample_every: int = 1
    due: bool = True


Callback: TypeAlias = Callable[[Event], bool | None]
"""A function called with an event at the end of a chunk; returning True ends the run."""


class Hook:
    """Base class of callbacks that are also called at other times.

    A derived class defines the methods that it needs; those that are None are not called.

    Attributes:
        begin: `()`, called after compilation, before the first update.
        sample: `(event)`, called every `sample_every` updates, before the callbacks at the end of a
            chunk.
        over: `(event)`; True ends the run at once, after all hooks have been called. It must depend
            on the event alone: the processes of a run do not ask each other.
        pulse: `(event)`, called about every second, even within a chunk, after the updates of the
            batches that were read together, and after the callbacks at the end of a chunk. True
            ends the run, even in the middle of a chunk.
        finish: `(event)`, called after the last update, unless there was an error.
        close: `()`, called at the end, even after an error.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, estimators, run, runtime
        >>> from simplex_jax.samplers import scir
        >>> class Steps(runtime.Hook):
        ...     def begin(self):
        ...         self.seen = []
        ...     def sample(self, event):
        ...         self.seen.append(event.step)
        >>> labels, steps = jnp.array([0, 1, 1, 2]), Steps()
        >>> kernel = scir.build(estimators.categorical(size=4), alpha=0.1, step_size=0.5)
        >>> state = kernel.init(jax.random.key(0), jnp.ones(3))
        >>> _ = run(jax.random.key(1), kernel, state, batches.full(labels), 4, hooks=[steps],
        ...     sample_every=2)
        >>> steps.seen
        [2, 4]
    """

    begin: Callable[[], None] | None = None
    sample: Callable[[Event], None] | None = None
    over: Callable[[Event], bool] | None = None
    pulse: Callable[[Event], bool | None] | None = None
    finish: Callable[[Event], None] | None = None
    close: Callable[[], None] | None = None

    def __call__(self, event: Event, /) -> bool | None:
        """Handle the end of a chunk; by default do nothing."""


class Calls(NamedTuple):
    """Functions to call in a run: those of all its hooks, in order."""

    callbacks: Sequence[Callback]
    begin: Sequence[Callable[[], None]]
    sample: Sequence[Callable[[Event], None]]
    over: Sequence[Callable[[Event], bool]]
    pulse: Sequence[Callable[[Event], bool | None]]
    finish: Sequence[Callable[[Event], None]]
    close: Sequence[Callable[[], None]]


def calls_of(callbacks: Sequence[Callback]) -> Calls:
    """Return the functions to call for callbacks, some of which may be a `Hook`.

    Raises:
        TypeError: `callbacks` is a callback instead of a list; a callback is a class, or cannot be
            called; or one that is not a `Hook` has a method of hooks, which would never be called.
    """
    if callable(callbacks):
        raise TypeError(f"hooks must be a list of callbacks; it is {callbacks!r}")
    callbacks = tuple(callbacks)
    for callback in callbacks:
        if isinstance(callback, type):
            raise TypeError(f"a hook is a class: give an instance of it, {callback.__name__}(...)")
        if not callable(callback):
            raise TypeError(f"a hook must be a callback; it is {callback!r}")
        for name in Calls._fields[1:]:
            if not isinstance(callback, Hook) and callable(getattr(callback, name, None)):
                kind = type(callback).__name__
                raise TypeError(
                    f"the hook {kind} has a method {name!r}: derive it from runtime.Hook"
                )
    hooks = [callback for callback in callbacks if isinstance(callback, Hook)]
    return Calls(
        callbacks,
        [hook.begin for hook in hooks if hook.begin],
        [hook.sample for hook in hooks if hook.sample],
        [hook.over for hook in hooks if hook.over],
        [hook.pulse for hook in hooks if hook.pulse],
        [hook.finish for hook in hooks if hook.finish],
        [hook.close for hook in hooks if hook.close],
    )


def info_metrics(info: Info) -> dict[str, float]:
    """Return the numbers of an Info by name, such as `atoms.accepted`, averaged over chains."""
    return {
        # By NumPy: the mean of an array of JAX would be a program.
        jax.tree_util.keystr(path, simple=True, separator="."): float(np.asarray(leaf).mean())
        for path, leaf in jax.tree.leaves_with_path(info)
    }


MAX_STEPS = 2**31 - 1
"""The most updates a run can number; as the last step of an event, the run has no length."""

EXPECTED = "expected_steps"
"""Name of a metric: the estimated last step of a run that ends at a goal."""


class Progress(Hook):
    """Show steps, rate, time left and the latest metrics: a bar on a terminal, else plain lines.

    Args:
        show: Names of metrics to show, from `Event.metrics` or the Info.
        file: Output file; standard error by default.
        interval: Minimum seconds between plain lines; the last step is always shown.
        max_seconds: The length of a run that ends by time; progress is then shown in seconds.

    Of a run that ends at a goal, the time left is estimated, from the metric `expected_steps`.
    """

    def __init__(
        self,
        show: Sequence[str] = (),
        *,
        file: TextIO | None = None,
        interval: float = 10.0,
        max_seconds: float | None = None,
    ) -> None:
        with needed("Progress"):
            from tqdm import tqdm

        self._tqdm = tqdm
        self._show = tuple(show)
        self._given = file
        self._interval = interval
        self._max_seconds = max_seconds
        self._bar: Any = None
        Progress.begin(self)

    @property
    def _file(self) -> TextIO:
        # Looked up on use: scikit-learn copies hooks, and files cannot be copied.
        return self._given or sys.stderr

    def begin(self) -> None:
        """Forget what another run with the same hook has shown."""
        self._latest: dict[str, float] = {}
        self._expected, self._printed, self._last = math.inf, -math.inf, -1

    def __call__(self, event: Event) -> None:
        """Show the event."""
        metrics = info_metrics(event.info) | event.metrics
        self._latest.update({name: metrics[name] for name in self._show if name in metrics})
        self._expected = max(event.metrics.get(EXPECTED, self._expected), event.step)
        if self._file.isatty():
            self._draw(event)
        elif time.monotonic() - self._printed >= self._interval:
            self._printed, self._last = time.monotonic(), event.step
            print(self._line(event), file=self._file, flush=True)

    def finish(self, event: Event) -> None:
        """Show the last step."""
        if not self._file.isatty() and event.step != self._last:
            print(self._line(event), file=self._file, flush=True)

    def close(self) -> None:
        """Close the bar, leaving it on the screen."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _shown(self) -> Iterator[tuple[str, float]]:
        return ((name.replace("_", " "), value) for name, value in self._latest.items())

    def _total(self, event: Event) -> float:
        """Return the last step of a run, the expected one if it ends at a goal."""
        return event.last_step if event.last_step < MAX_STEPS else self._expected

    def _draw(self, event: Event) -> None:
        done, total, unit = float(event.step), self._total(event), "steps"
        if self._max_seconds is not None:
            done, total, unit = event.seconds, self._max_seconds, "s"
        if self._bar is None:
            self._bar = self._tqdm(total=total, initial=min(done, total), file=self._file)
        known = total < MAX_STEPS
        bar, ending = "{n:.0f}", ""
        if known:
            about = "about " if event.last_step >= MAX_STEPS and unit == "steps" else ""
            bar, ending = "{l_bar}{bar}| {n:.0f}/{total:.0f}", f", {about}{{remaining}} left"
        self._bar.bar_format = f"{bar} {unit} [{{elapsed}}{ending}]{{postfix}}"
        self._bar.total = total if known else None
        postfix = {name: f"{value:.5g}" for name, value in self._shown()}
        if unit != "steps":
            postfix = {"step": str(event.step)} | postfix
        self._bar.set_postfix(postfix, refresh=False)
        self._bar.n = min(done, total)
        self._bar.refresh()

    def _line(self, event: Event) -> str:
        rate = (event.step - event.first_step) / max(event.seconds, 1e-9)
        total, left = "", ""
        if self._max_seconds is not None:
            left = f", {self._tqdm.format_interval(max(self._max_seconds - event.seconds, 0))} left"
        elif (last := self._total(event)) < MAX_STEPS:
            left = self._tqdm.format_interval((last - event.step) / rate)
            if event.last_step < MAX_STEPS:
                total, left = f"/{event.last_step}", f", {left} left"
            else:
                left = f", about {left} left"
        line = f"step {event.step}{total}, {rate:.4g} steps/s{left}"
        return line + "".join(f", {name} {value:.5g}" for name, value in self._shown())


class MetricsLog(Hook):
    """Append one JSON object per line: step, seconds, the numbers of the Info, and the metrics.

    A number that is not finite is written as null. The folder of the file must exist. The file is
    closed between lines, so that they survive a crash. Before its first line, the log drops lines
    from that step on, which an interrupted run left and whose steps are repeated, and a line torn
    by a crash.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._last = -1

    def __call__(self, event: Event) -> None:
        """Append the event."""
        if self._last < 0 or event.step <= self._last:  # first event of a run
            self._keep_before(event.step)
        self._last = event.step
        seconds = {"step": event.step, "seconds": event.seconds}
        record = seconds | info_metrics(event.info) | event.metrics
        output.append_json_line(self._path, record)

    def finish(self, event: Event) -> None:
        """Create an empty file if the run ended before its first evaluation."""
        self._path.touch()

    def _keep_before(self, step: int) -> None:
        lines = self._path.read_bytes().splitlines(keepends=True) if self._path.exists() else []
        earlier = [line for line in lines if line.endswith(b"\n") and _step_of(line) < step]
        if len(earlier) < len(lines):
            with output.replacing(self._path) as file:
                file.writelines(earlier)


def _step_of(line: bytes) -> float:
    """Return the step of a log line; infinity for an invalid line."""
    try:
        return json.loads(line)["step"]
    except (ValueError, TypeError, LookupError):
        return math.inf


class EarlyStop(Hook):
    """End the run when a metric from `Event.metrics` or the Info has stopped falling.

    It ends after `patience` values in a row without an improvement, which is a value below the best
    so far by more than `least`. Chunks without the metric are skipped. A run whose first step is
    not after the last one of the run before is judged on its own.
    """

    def __init__(self, metric: str, *, patience: int, least: float = 0.0) -> None:
        if patience < 1:
            raise ValueError(f"patience must be at least 1; it is {patience}")
        if not least >= 0:
            raise ValueError(f"least must be at least 0; it is {least}")
        self._metric = metric
        self._patience = patience
        self._least = least
        self._best = math.inf
        self._stale = self._last = 0

    def __call__(self, event: Event) -> bool:
        """Return whether the metric has been stale for too long."""
        if event.step <= self._last:  # another run with the same hook
            self._best, self._stale = math.inf, 0
        self._last = event.step
        value = (info_metrics(event.info) | event.metrics).get(self._metric)
        if value is None:
            return False
        if value < self._best - self._least:
            self._best, self._stale = value, 0
        else:
            self._stale += 1
        return self._stale >= self._patience

    def save(self) -> dict[str, float]:
        """Return the best value and the number of values since."""
        return {"best": self._best, "stale": self._stale}

    def load(self, saved: dict[str, float]) -> None:
        """Restore both."""
        self._best, self._stale, self._last = saved["best"], int(saved["stale"]), 0


class EquilibriumWarning(UserWarning):
    """A chain with velocities is not at equilibrium."""


class Equilibrium(Hook):
    """Warn at the end of a run if its chain, with velocities, was not at equilibrium.

    The kinetic energy per dimension of an exact chain, `kinetic` in the Info, is 1 on average; that
    of a chain heated by the noise of its gradient is larger. It warns if the energy is off by more
    than a tenth and chance, if a Metropolis test accepts less than a tenth of the moves, or if the
    gradient's noise is more than half of the noise to be injected. The numbers are those at the end
    of each chunk of `run`, separately for each site of a product. A chain that has not converged
    yet is hot for good reason, so only the second half counts.

    Args:
        damping: Friction times step size, which lowers the energy of a strongly damped chain; None
            if it is not a single number.

    Raises:
        ValueError: The damping is not positive and finite.
    """

    def __init__(self, damping: float | None = None) -> None:
        if damping is not None and not 0 < damping < math.inf:
            raise ValueError(f"damping must be finite and positive; it is {damping}")
        self._damping, self._last = damping, 0
        self._records: dict[str, list[dict[str, float]]] = {}

    def __call__(self, event: Event) -> None:
        """Record the numbers of the event."""
        if event.step <= self._last:  # of another run, with the same hook
            self._records = {}
        self._last = event.step
        sites: dict[str, dict[str, float]] = {}
        for name, value in info_metrics(event.info).items():
            site, _, number = name.rpartition(".")
            sites.setdefault(site, {})[number] = value
        for site, record in sites.items():
            self._records.setdefault(site, []).append(record)

    def finish(self, event: Event) -> None:
        """Warn about the run, if necessary."""
        for site, records in self._records.items():
            for warning in equilibrium.energy_warnings(records, self._damping):
                place = f"{site}: " if site else ""
                text = f"{place}{warning} (step {event.step})"
                warn_caller(text, EquilibriumWarning)

    def save(self) -> dict[str, list[dict[str, float]]]:
        """Return the records."""
        return self._records

    def load(self, saved: dict[str, list[dict[str, float]]]) -> None:
        """Restore the records."""
        self._records, self._last = saved, 0
