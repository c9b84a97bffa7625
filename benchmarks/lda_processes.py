"""Tokens per second of LDA in one process, and in several on the same cores.

    python benchmarks/lda_processes.py [--processes 2 4] [--topics 50 200] [--keep FILE]

A single process has all cores; several communicate by gloo, each with one core, its own if there
are enough. Runs alternate, over the synthetic store of `lda_growth.py`. The rate is that of
training after its first third, by the times in metrics.jsonl: those of updates, with their waiting
for other processes, but without evaluations and samples. `with_hooks` is the rate by the clock,
with these.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import kept
import numpy as np
from lda_growth import blocks

from simplex_jax._src.corpus import store


def rates(
    path: Path,
    topics: int,
    passes: int,
    processes: int,
    place: Path,
    program: Sequence[str] = ("-m", "simplex_jax"),
) -> tuple[float, float]:
    """Return the tokens per second of a run of the program, given as Python arguments.

    The first is that of updates alone, the second by the clock.
    """
    cores = sorted(os.sched_getaffinity(0))
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    out = place / f"run-{processes}"
    command = [sys.executable, *program, "lda", str(path), "--out", str(out)]
    command += ["--topics", str(topics), "--passes", str(passes), "--overwrite", "--quiet"]
    command += ["--checkpoint-every", "100000", "--holdout", "200"]
    running, lines, seen = [], out / "metrics.jsonl", []
    lines.unlink(missing_ok=True)
    for number in range(processes):
        own = [] if processes == 1 else ["--coordinator", coordinator]
        own += [] if processes == 1 else ["--processes", str(processes), "--process", str(number)]
        pinned = cores if processes == 1 else [cores[number % len(cores)]]
        running.append(
            subprocess.Popen(
                [*command, *own],
                env=os.environ | {"JAX_PLATFORMS": "cpu"},
                stdout=subprocess.DEVNULL,
                preexec_fn=lambda pinned=pinned: os.sched_setaffinity(0, pinned),
            )
        )
    while any(process.poll() is None for process in running):
        number = len(lines.read_bytes().splitlines()) if lines.exists() else 0
        seen += [time.perf_counter()] * (number - len(seen))
        time.sleep(0.05)
    if any(process.returncode for process in running):
        raise SystemExit("a run failed")
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    third = len(rows) // 3
    tokens = store.open(path).tokens * (rows[-1]["passes"] - rows[third]["passes"])
    return tokens / (rows[-1]["seconds"] - rows[third]["seconds"]), tokens / (
        seen[-1] - seen[third]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=10_000_000)
    parser.add_argument("--words", type=int, default=10_000)
    parser.add_argument("--topics", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--passes", type=int, default=60)
    parser.add_argument("--processes", type=int, nargs="+", default=[len(os.sched_getaffinity(0))])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        words = [f"w{number}" for number in range(options.words)]
        store.write_blocks(path, blocks(options.tokens, options.words), words)
        for topics in options.topics:
            measured: dict[int, list] = {number: [] for number in (1, *options.processes)}
            for _ in range(options.repeats):
                for processes, result in measured.items():
                    result.append(rates(path, topics, options.passes, processes, Path(folder)))
            medians = {number: np.median(result, axis=0) for number, result in measured.items()}
            corpus = {"topics": topics, "tokens": options.tokens, "words": options.words}
            for processes, median in medians.items():
                speed = {"tokens_per_second": median[0], "share": median[0] / medians[1][0]}
                speed |= {"with_hooks": median[1], "share_with_hooks": median[1] / medians[1][1]}
                rows.append(corpus | {"processes": processes} | speed)
                print(json.dumps(rows[-1]), flush=True)
    if options.keep:
        kept.write(options.keep, rows)


if __name__ == "__main__":
    main()
