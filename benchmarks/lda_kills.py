"""Processes of LDA killed at random times: how the others end, and what is lost.

    python benchmarks/lda_kills.py [--kills 20] [--passes 4000] [--out FOLDER] [--keep FILE]

A run of two processes on this machine starts over a store of 1,003 synthetic documents. At a random
time one process is killed (SIGKILL); the run continues with --resume and is killed again. One kill
in four comes within 20 seconds after the run opens its directory, while it reads and compiles, the
others within 5 seconds after it saves a checkpoint, while it trains or saves. After the last kill
the run continues to its end, which must match an undisturbed run of one process to the last bit:
topics, shares of documents and the trace of the perplexity. For each kill the result keeps its
time, the updates of the newest checkpoint, the seconds until the other process ended, that
process's lines that begin with "simplex-jax", and the number of its other lines. Compiled programs
are cached for the next start.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import kept
import numpy as np
import scipy.sparse as sp


def start(arguments: list[str], processes: int, place: Path) -> list[subprocess.Popen]:
    """Start the processes of a run, with errors written to files."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "simplex_jax", "lda", *arguments, "--quiet"]
    command += ["--coordinator", coordinator, "--processes", str(processes)]
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "1",
        "JAX_COMPILATION_CACHE_DIR": str(place / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    begun = []
    for number in range(processes):
        with (place / f"errors-{number}").open("w") as errors:
            begun.append(
                subprocess.Popen(
                    [*command, "--process", str(number)],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                )
            )
    return begun


def opened(run: Path) -> int:
    """Return when a run last started, 0 if never."""
    config = run / "config.json"
    return config.stat().st_mtime_ns if config.exists() else 0


def newest(run: Path) -> int:
    """Return the updates of the newest checkpoint, 0 without one."""
    names = [path.name for path in (run / "checkpoint").glob("[0-9]*")]
    return max((int(name.rpartition("-")[2]) for name in names), default=0)


def kill(arguments: list[str], run: Path, place: Path, rng: random.Random) -> dict[str, object]:
    """Start a run, kill one of its two processes, and return how the other ended."""
    if opened(run):
        arguments = ["--resume", str(run)]
    early, victim = rng.random() < 0.25, rng.randrange(2)
    sign = opened if early else newest
    before, begun = sign(run), start(arguments, 2, place)
    while sign(run) == before and all(process.poll() is None for process in begun):
        time.sleep(0.02)
    moment = rng.random() * (20 if early else 5)
    time.sleep(moment)
    if any(process.poll() is not None for process in begun):
        sys.exit(f"the run had ended before it was killed: {(place / 'errors-0').read_text()}")
    begun[victim].kill()
    killed = time.monotonic()
    status = begun[1 - victim].wait()
    ended = time.monotonic() - killed
    lines = (place / f"errors-{1 - victim}").read_text().splitlines()
    own = [line for line in lines if line.startswith("simplex-jax")]
    return {
        "killed": victim,
        "after opening, s" if early else "after saving, s": round(moment, 1),
        "updates": newest(run),
        "the other ended after, s": round(ended, 1),
        "status": status,
        "own lines": " | ".join(own),
        "lines of others": len(lines) - len(own),
    }


def results(run: Path) -> list[object]:
    """Return what two runs must share: arrays of files, and the perplexities."""
    result: list[object] = [(run / "topics.npz").read_bytes()]
    parts = sorted((run / "doc_topics").glob("*")) or [run / "doc_topics.npz"]
    result += [
        np.concatenate([np.load(part)[name] for part in parts]).tobytes()
        for name in ("proportions", "error")
    ]
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [*result, {line["step"]: line["perplexity"] for line in lines}]


def main() -> None:
    from simplex_jax._src.corpus import from_counts, store

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--passes", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=Path("build/lda_kills"))
    parser.add_argument("--keep", type=Path, help="the JSON file, if not in --out")
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    draw, rng = np.random.default_rng(0), random.Random(0)
    topics, shares = draw.dirichlet(np.full(60, 0.1), 5), draw.dirichlet(np.full(5, 0.2), 1003)
    counts = sp.csr_array(draw.poisson(30 * shares @ topics).astype(np.int32))
    path, run, whole = (options.out / name for name in ("store", "run", "undisturbed"))
    store.write(path, from_counts(counts))
    setting = [str(path), "--topics", "5", "--passes", str(options.passes), "--batch-size", "64"]
    setting += ["--eval-every", "100", "--checkpoint-every", "1"]
    rows = []
    for _ in range(options.kills):
        rows.append(kill([*setting, "--out", str(run)], run, options.out, rng))
        print(json.dumps(rows[-1]), flush=True)
    ends = [process.wait() for process in start(["--resume", str(run)], 2, options.out)]
    ends += [process.wait() for process in start([*setting, "--out", str(whole)], 1, options.out)]
    same = results(run) == results(whole)
    keep = options.keep or options.out / "lda_kills.json"
    kept.write(keep, rows, passes=options.passes, ends=ends, same=same)
    print(f"same results as undisturbed: {same}, statuses {ends}")


if __name__ == "__main__":
    main()
