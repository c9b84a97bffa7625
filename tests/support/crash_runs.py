"""Processes that save checkpoints until they are killed; a program run by the tests.

`python -m tests.support.crash_runs KIND DIRECTORY...` starts one child after another, by a fork
before JAX has any threads (so that imports are paid once), and prints a line of JSON for each.
KIND is

- `saves:SEED`: the child saves one tree after another, and is killed at a random time;
- `inside:FIRST:STRIDE`: it kills itself in the second save, at the n-th call that makes, renames,
  flushes or removes a file;
- `run:SEED`: it samples, saving at every chunk, and is killed at a random time;
- `term:SEED`: the same with SIGTERM, and the child exits by itself.
"""

import json
import os
import random
import signal
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src import batches, estimators
from simplex_jax._src.runtime import checkpoint, driver
from simplex_jax._src.runtime.interrupt import Interrupt
from simplex_jax._src.samplers import smld

ABOUT = {"alpha": 0.1, "size": 500}
STEPS, CHUNK = 800, 40
CALLS = ("fsync", "rename", "replace", "mkdir", "rmdir", "unlink")
SAVE = 19  # calls of a save that removes an older checkpoint
SECONDS = 0.8


def tree(step):
    x = np.random.default_rng(step).random((20, 50), np.float32)
    return {"x": x, "labels": x[0].astype(np.uint8), "note": f"step {step}"}


class Mean:
    """A hook that accumulates the sum of the positions and a record of each event."""

    def __init__(self):
        self.sum, self.seen = np.zeros(6, np.float32), []

    def __call__(self, event):
        self.sum = self.sum + np.asarray(event.state.position)
        self.seen.append({"step": event.step, "largest": float(event.state.position.max())})

    def save(self):
        return {"sum": self.sum, "seen": self.seen}

    def load(self, saved):
        self.sum, self.seen = saved["sum"], saved["seen"]


def sample(directory, every=0.0, hooks=()):
    """Sample from the newest checkpoint on; return the last state and the hook's results."""
    data = np.random.default_rng(0).integers(0, 6, 500)
    kernel = smld.build(estimators.categorical(size=500), 0.5, 0.02)
    fresh = kernel.init(jax.random.key(0), jnp.full(6, 1 / 6))
    mean = Mean()
    saver = checkpoint.Saver(checkpoint.Store(directory), {"mean": mean}, ABOUT, every)
    state, first_step, seconds = saver.restore(fresh) or (fresh, 0, 0.0)
    state, _ = driver.run(
        jax.random.key(1),
        kernel,
        state,
        batches.uniform(data, 20),
        STEPS - int(state.step),
        collect=lambda state, info: (),
        hooks=[saver, *hooks, mean],
        chunk=CHUNK,
        first_step=first_step,
        seconds=seconds,
    )
    return state, mean


def count_calls(fatal=None):
    """Count the calls that change files; die at one of them."""
    made = []

    def counted(call):
        def replacement(*args, **named):
            made.append(call.__name__)
            if len(made) == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **named)

        return replacement

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    return made


def child(kind, number, directory, report):
    if kind in ("run", "term"):
        with Interrupt() as interrupt:
            sample(directory, hooks=[lambda event: report(event.step) < 0, interrupt])
        return 0 if interrupt.signal else 3
    store = checkpoint.Store(directory, keep=1)
    step = 0
    made = []
    while kind == "saves" or step < 2:
        step += 1
        if kind == "inside" and step == 2:
            made = count_calls(number)
        store.save(step, tree(step), {})
        report(step)
    report(len(made))
    return 0


def watch(kind, number, directory):
    """Start a child, kill it, and return what it had reported."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.close(reader)
        code = 1
        try:
            code = child(
                kind, number, directory, lambda step: os.write(writer, step.to_bytes(4, "little"))
            )
        finally:
            os._exit(code)
    os.close(writer)
    reported = os.read(reader, 4)
    if kind != "inside":
        time.sleep(random.Random(number).random() * SECONDS)
        os.kill(process, signal.SIGTERM if kind == "term" else signal.SIGKILL)
    while piece := os.read(reader, 4096):
        reported += piece
    os.close(reader)
    _, status = os.waitpid(process, 0)
    steps = np.frombuffer(reported, "<i4").tolist()
    print(
        json.dumps(
            {"directory": directory, "steps": steps, "code": os.waitstatus_to_exitcode(status)}
        ),
        flush=True,
    )


def main():
    kind, *numbers = sys.argv[1].split(":")
    first, stride = int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 1
    for turn, directory in enumerate(sys.argv[2:]):
        watch(kind, first + stride * turn, directory)


if __name__ == "__main__":
    main()
