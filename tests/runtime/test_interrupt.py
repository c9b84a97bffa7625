"""Ctrl-C and SIGTERM end a run in good order; the second one at once."""

import signal
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import pytest
from support.cut_runs import look_after_every_step

from simplex_jax._src import batches, estimators
from simplex_jax._src.runtime import driver
from simplex_jax._src.runtime.hooks import Hook
from simplex_jax._src.runtime.interrupt import Interrupt
from simplex_jax._src.samplers import smld

BOTH = [signal.SIGINT, signal.SIGTERM]
KERNEL = smld.build(estimators.categorical(10), 0.5, 0.02)
STREAM = batches.uniform(jnp.arange(10) % 4, 3)


def handlers():
    return [signal.getsignal(number) for number in BOTH]


@pytest.mark.parametrize("number", BOTH)
def test_a_signal_is_remembered_and_the_handlers_come_back(number, capfd):
    before = handlers()
    with Interrupt() as interrupt:
        assert interrupt.signal is None
        assert not interrupt(None)
        signal.raise_signal(number)
        assert interrupt.signal is number
        assert interrupt(None)
        assert interrupt.pulse(None)
    assert handlers() == before
    blank, line = capfd.readouterr().err.splitlines()
    assert (blank, line.partition(":")[0]) == ("", number.name)


def test_the_second_signal_stops_at_once():
    before = handlers()
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGTERM)
        assert interrupt.signal is signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert handlers() == before
    program = (
        "import os, signal, time\n"
        "from simplex_jax._src.runtime.interrupt import Interrupt\n"
        "with Interrupt():\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, stderr=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGTERM


def test_what_others_handle_is_left_alone():
    def other(number, frame):
        del number, frame

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            signal.raise_signal(signal.SIGTERM)
            signal.signal(signal.SIGINT, other)
        assert interrupt.signal is None
        assert handlers() == [other, signal.SIG_IGN]
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_it_does_nothing_in_another_thread():
    seen = []

    def enter():
        with Interrupt() as interrupt:
            seen.append((handlers(), interrupt(None)))

    before = handlers()
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [(before, False)]


@pytest.mark.parametrize("number", BOTH)
def test_a_run_ends_within_a_chunk(number, getkey, monkeypatch):
    look_after_every_step(monkeypatch)
    pulses, finished, ends = [], [], []

    class Watch(Hook):
        def __call__(self, event):
            ends.append(event)

        def pulse(self, event):
            pulses.append(event.step)
            if len(pulses) == 5:
                signal.raise_signal(number)

        def finish(self, event):
            finished.append(event.step)

    state = KERNEL.init(getkey(), jnp.ones(4))
    with Interrupt() as interrupt:
        hooks = [interrupt, Watch()]
        arguments = (jax.random.key(0), KERNEL, state, STREAM)
        cut, trace = driver.run(*arguments, 10**6, chunk=1000, thin=2, hooks=hooks)
    assert interrupt.signal is number
    # The signal came after the interrupt had been asked.
    assert pulses == [1, 2, 3, 4, 5, 6]
    assert finished == [int(cut.step)] == [6]
    assert ends == []
    whole, whole_trace = driver.run(*arguments, 6, chunk=1000, thin=2)
    assert whole.position.tolist() == cut.position.tolist()
    assert trace.tolist() == whole_trace.tolist()
