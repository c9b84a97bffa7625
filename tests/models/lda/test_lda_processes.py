"""LDA in several processes on this machine, with gloo between them, as on many machines."""

import contextlib
import json
import random
import re
import shutil
import signal
import socket
import subprocess
import time

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from support import several
from support.marks import slow_but

from simplex_jax._src.cli import main
from simplex_jax._src.corpus import from_counts, store
from simplex_jax._src.models import lda
from simplex_jax._src.runtime import processes

PLAIN = ["--topics", 5, "--passes", 12, "--batch-size", 64]
# The concentrations are learned; and documents do not share out evenly.
RUN = [*PLAIN, "--alpha", "learn-asymmetric", "--beta", "learn"]
DOCUMENTS = 1003


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    rng = np.random.default_rng(0)
    topics, shares = rng.dirichlet(np.full(60, 0.1), 5), rng.dirichlet(np.full(5, 0.2), DOCUMENTS)
    counts = sp.csr_array(rng.poisson(30 * shares @ topics).astype(np.int32))
    path = tmp_path_factory.mktemp("corpora") / "store"
    store.write(path, from_counts(counts))
    return path


def run(count, *arguments, devices=1):
    ends = several.finish(several.start(count, "lda", *arguments, devices=devices))
    assert all(status == 0 for status, _ in ends), ends
    return ends


def run_alone(stored, out, options):
    done = CliRunner().invoke(main, list(map(str, ["lda", stored, "--out", out, *options])))
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def alone(stored, tmp_path_factory):
    """The run of one process."""
    return run_alone(stored, tmp_path_factory.mktemp("runs") / "alone", RUN)


def assert_same(out, alone):
    assert (out / "topics.npz").read_bytes() == (alone / "topics.npz").read_bytes()
    assert (out / "topics.csv").read_bytes() == (alone / "topics.csv").read_bytes()
    with contextlib.ExitStack() as stack:
        parts = [
            stack.enter_context(np.load(path, allow_pickle=False)) for path in several.shares(out)
        ]
        whole = stack.enter_context(np.load(alone / "doc_topics.npz", allow_pickle=False))
        for name in whole:
            together = np.concatenate([part[name] for part in parts])
            np.testing.assert_array_equal(together, whole[name])


@pytest.mark.slow
@pytest.mark.parametrize("options", slow_but([PLAIN, RUN], PLAIN), ids=["plain", "learned"])
def test_two_processes_give_the_bits_of_one(options, stored, tmp_path):
    (_, first), (_, second) = run(2, stored, "--out", tmp_path / "two", *options)
    assert_same(tmp_path / "two", run_alone(stored, tmp_path / "alone", options))
    assert "report.html" in first
    assert "simplex-jax" not in second, "process 0 speaks for all"
    assert lda.load(tmp_path / "two").proportions.shape == (0, 5)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "devices"), [(4, 1), (8, 1), (1, 4), (2, 4), (4, 2)])
def test_processes_and_devices_change_no_bit(count, devices, stored, alone, tmp_path):
    out = tmp_path / "several"
    run(count, stored, "--out", out, "--devices", devices, *RUN, devices=devices)
    assert (out / "topics.npz").read_bytes() == (alone / "topics.npz").read_bytes()


def test_memory_is_that_of_a_process(stored, monkeypatch):
    """Which has a part of the documents and, of topics and counts, every other row."""
    corpus, result = store.open(stored), []
    for count in (1, 2):
        monkeypatch.setattr(processes, "count", lambda count=count: count)
        settings = lda.resolve(corpus, 50, counts="memoised", batch_size=64, passes=2)
        result.append(lda.memory.estimate(corpus, settings))
    alone, two = result
    assert 0.45 * alone["corpus"] < two["corpus"] < 0.6 * alone["corpus"]
    assert 0.45 * alone["state"] < two["state"] < 0.6 * alone["state"]


@pytest.mark.slow
@pytest.mark.parametrize("start", [several.start_by_slurm, several.start_by_open_mpi])
def test_a_launcher_tells_processes_of_each_other(start, stored, alone, tmp_path):
    ends = several.finish(start(2, "lda", stored, "--out", tmp_path / "run", *RUN))
    assert [status for status, _ in ends] == [0, 0], ends
    assert_same(tmp_path / "run", alone)


@pytest.mark.slow
def test_mpirun_starts_processes_that_find_each_other(stored, alone, tmp_path):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=True)
    if " 4." not in said.stdout.partition("\n")[0]:
        pytest.skip("JAX detects Open MPI 4 only")
    status, errors = several.run_by_mpirun(2, "lda", stored, "--out", tmp_path / "run", *RUN)
    assert status == 0, errors
    assert_same(tmp_path / "run", alone)


@pytest.fixture(scope="module", params=[1, 2])
def long_run(request, stored, tmp_path_factory):
    """The options of a run of one or two chains, and what it finds where nothing interrupts it."""
    options = ["--topics", 5, "--batch-size", 48, "--eval-every", 5, "--chains", request.param]
    options += ["--alpha", "learn-asymmetric"]
    out = tmp_path_factory.mktemp("runs") / "long"
    return options, perplexities(run_alone(stored, out, [*options, "--steps", 40]))


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (4, 2), (3, 2)])
def test_another_number_of_processes_goes_on(before, after, long_run, stored, tmp_path):
    """In the middle of the first pass, when some labels have not been drawn yet."""
    options, whole = long_run
    run(before, stored, "--out", tmp_path / "run", *options, "--steps", 10)
    run(after, "--resume", tmp_path / "run", "--steps", 40)
    assert perplexities(tmp_path / "run") == whole


def checkpoints(out):
    folder = out / "checkpoint"
    return [path.name for path in folder.glob("[0-9]*")] if folder.exists() else []


def killed(processes, out, number, victim, wait=0.0):
    """Kill one of the processes when there is one checkpoint more; return how all ended."""
    before, limit = checkpoints(out), time.monotonic() + 200
    while checkpoints(out) == before:
        assert time.monotonic() < limit
        assert all(process.poll() is None for process in processes)
        time.sleep(0.02)
    time.sleep(wait)
    processes[victim].send_signal(number)
    return several.finish(processes, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_lost_process_ends_the_others_and_another_number_goes_on(victim, stored, alone, tmp_path):
    out = tmp_path / "run"
    options = ["--checkpoint-every", 0, "--eval-every", 16]
    begun = several.start(4, "lda", stored, "--out", out, *RUN, *options)
    ends = killed(begun, out, signal.SIGKILL, victim)
    assert ends[victim][0] == -signal.SIGKILL
    for number, (status, errors) in enumerate(ends):
        if number != victim:
            assert status != 0
            assert "another process" in errors or "task died" in errors
    shutil.copytree(out, tmp_path / "alone")
    run(2, "--resume", out)
    whole = tmp_path / "whole"
    run(1, stored, "--out", whole, *RUN, "--eval-every", 16)
    assert_same(out, whole)
    run(1, "--resume", tmp_path / "alone")
    assert (out / "topics.npz").read_bytes() == (tmp_path / "alone/topics.npz").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_one_process_ends_all_in_good_order(number, stored, tmp_path):
    out = tmp_path / "run"
    options = [*RUN[:2], "--passes", 100_000, "--batch-size", 64, "--checkpoint-every", 0]
    begun = several.start(2, "lda", stored, "--out", out, *options, "--eval-every", 16)
    ends = killed(begun, out, number, 1)
    assert [status for status, _ in ends] == [128 + number] * 2
    assert "continue with: simplex-jax lda --resume" in ends[0][1]
    assert lda.load(out).topics.shape == (5, 60)


@pytest.mark.slow
def test_twenty_kills_lose_nothing(stored, tmp_path):
    """Killed at random times after a checkpoint, on 1 to 3 processes, and resumed each time."""
    rng, out = random.Random(0), tmp_path / "run"
    options = ["--topics", 5, "--passes", 3000, "--batch-size", 48, "--eval-every", 10]
    arguments = [stored, "--out", out, *options, "--checkpoint-every", 0]
    steps = []
    for _ in range(20):
        count = rng.choice([1, 2, 3])
        begun = several.start(count, "lda", *arguments)
        killed(begun, out, signal.SIGKILL, rng.randrange(count), wait=rng.random())
        steps.append(max(int(name.rpartition("-")[2]) for name in checkpoints(out)))
        arguments = ["--resume", out, "--checkpoint-every", 0]
    assert steps == sorted(steps)
    end = ["--steps", steps[-1] + 20]
    run(2, "--resume", out, *end)
    whole = tmp_path / "whole"
    run(1, stored, "--out", whole, *options[:2], *end, *options[4:])
    # The perplexity of single samples: averages begin where the length, which has changed, says.
    traces = [perplexities(out), perplexities(whole)]
    assert len(traces[0]) >= 20
    assert traces[0] == traces[1]


def perplexities(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return {record["step"]: record["perplexity"] for record in map(json.loads, lines)}


@pytest.mark.slow
def test_errors_name_the_option_or_the_process(stored, tmp_path):
    alone = CliRunner().invoke(main, ["lda", str(stored), "--process", "3"])
    assert alone.exit_code == 2
    assert "Error: coordinator, processes and" in alone.stderr
    out = tmp_path / "run"
    ends = several.finish(several.start(2, "lda", stored, "--out", out, "--batch-size", 33))
    assert [status for status, _ in ends] == [1, 1]
    assert "simplex-jax: process 1: error: batch_size must" in ends[1][1]
    assert not out.exists()


@pytest.mark.slow
def test_processes_with_other_options_or_data_are_told_apart(stored, tmp_path):
    """JAX would abort them, or they would wait for each other."""
    out = tmp_path / "run"
    first, second = several.commands(2, "lda", stored, "--out", out, *PLAIN)
    begun = [several.begin(first), several.begin([*second, "--topics", "4"])]
    for number, (status, said) in enumerate(several.finish(begun)):
        assert status == 1
        (line,) = said.splitlines()[-1:]
        assert line.startswith(f"simplex-jax: process {number}: error: ")
        assert "those of process 1" in line
    assert "num_topics is 4 here and 5 in process 0" in line
    assert not out.exists()


def test_a_port_in_use_and_a_missing_process_are_one_line_each(stored, tmp_path, monkeypatch):
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        place = ["--coordinator", f"localhost:{port}", "--processes", 2, "--process", 0]
        done = CliRunner().invoke(main, list(map(str, ["lda", stored, *place])))
    assert done.exit_code == 1
    assert done.stderr.startswith("simplex-jax: error: process 0 ")
    assert re.search(rf"port {port} .*\(Address", done.stderr)
    monkeypatch.setattr(processes, "_PATIENCE", 0.5)
    place[-1] = 1
    done = CliRunner().invoke(main, list(map(str, ["lda", stored, *place])))
    assert done.exit_code == 1
    assert done.stderr.startswith("simplex-jax: error: process 0 ")
    assert f"localhost:{port} for 0.5 s" in done.stderr
    assert len(done.stderr.splitlines()) == 1
