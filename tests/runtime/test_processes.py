"""What processes agree upon; with several of them in tests/models/lda/test_lda_processes.py."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import pytest

from simplex_jax._src.runtime import processes


def test_one_process_agrees_with_itself():
    assert not processes.joined()
    assert (processes.count(), processes.number(), processes.is_first()) == (1, 0, True)
    assert processes.broadcast(0.1) == processes.highest(0.1) == 0.1
    assert processes.any_of([None, 1])
    assert not processes.any_of([None, 0])
    assert processes.broadcast_text("héllo") == "héllo"
    assert processes.share(7) == range(7)
    with pytest.raises(OSError, match="full"), processes.raise_together(OSError):
        raise OSError("full")


@pytest.mark.parametrize("count", [1, 2, 3, 8, 11])
def test_shares_are_all_of_it(count, monkeypatch):
    monkeypatch.setattr(processes, "count", lambda: count)
    parts = []
    for number in range(count):
        monkeypatch.setattr(processes, "number", lambda number=number: number)
        parts += processes.share(10)
    assert parts == list(range(10))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("localhost:1", None, None), "go together"),
        ((None, 2, None), "go together"),
        (("localhost:1", 2, 2), r"process .* 0 to 1; it is 2"),
        (("localhost", 2, 1), "coordinator must be HOST:PORT; it is 'localhost'"),
    ],
)
def test_arguments_that_do_not_go_together(arguments, message):
    with pytest.raises(ValueError, match=message):
        processes.join(*arguments)


def test_without_a_cluster_it_is_said_what_to_give(monkeypatch):
    def nothing(*given, **options):
        raise ValueError("coordinator_address should be defined.")

    monkeypatch.setattr(jax.distributed, "initialize", nothing)
    with pytest.raises(ValueError, match=r"no cluster .*SLURM"):
        processes.join()


@pytest.mark.skipif(sys.platform != "linux", reason="a scheduling policy of Linux")
def test_threads_of_a_process_that_has_joined_wait_for_the_one_that_runs(monkeypatch):
    monkeypatch.setattr(jax.distributed, "initialize", lambda *given, **options: None)
    monkeypatch.setattr(processes, "_joined", False)
    before = os.sched_getscheduler(0)
    try:
        processes.join("localhost:0", 1, 0)
        with ThreadPoolExecutor() as pool:
            assert pool.submit(os.sched_getscheduler, 0).result() == os.SCHED_BATCH
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))
