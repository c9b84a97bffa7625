"""LDA of single-cell ATAC: from a matrix of cells by regions to what the next tools read.

    python benchmarks/lda_atac.py --peer --keep FILE                        # 20,000 x 80,000
    python benchmarks/lda_atac.py --cells 200000 --passes 1 --no-sweep --keep FILE

The matrix is synthetic and binary: regions differ in how often they are open by two orders of
magnitude, each topic opens a fifth of them, a cell has the topics of its type, and the number of
open regions of a cell is log-normal, 5,000 on average. Cells beyond the first 20,480 repeat these.
It is written to an AnnData file in blocks. Then come `simplex-jax lda store`, a run with 20 topics,
a sweep over --topics in one command, and `lda export` of 100 and of 2,000 of the cells, which
infers their proportions; each with its seconds, those of its threads, and the peak of its own
memory. The runs write no proportions. With --peer, tomotopy trains on the 2,000 cells, and ours
too. Files are removed afterwards.

The projection is of the job that users of pycisTopic report: 200,000 cells, 17 numbers of topics,
500 iterations. It takes the cost of a token and core from the sweep, linear in the number of
topics, and that of the proportions from the exports, for all cells and numbers; both are shared by
all cores. The store, and the rest of a run, are taken to need one core. All but passes is linear
in tokens. It is arithmetic, not a measurement.
"""

import argparse
import contextlib
import json
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import kept
import numpy as np
from lda_growth import predicted, program, resident

TRUE_TOPICS, TYPES = 24, 16
BLOCK, PIECE, DISTINCT = 1_024, 64, 20
"""Cells that are written, and drawn, at a time, and blocks that differ."""
FEW = (100, 2_000)
"""Cells of two exports, the second of which those of the peer."""
JOB_TOPICS = (2, *range(5, 50, 5), *range(50, 101, 10), 120)
JOB_TOKENS, JOB_PASSES, JOB_CORES = 10**9, 500, (2, 16, 64)
# M tokens a second of sweeps on one NVIDIA H200 by topics, for V = 7,702 (lda_parts_gpu.json).
GPU = {20: 7275, 50: 6009, 100: 5303, 191: 4270}


def regions(count: int) -> list[str]:
    """Return names of regions of 500 bases, as peak callers write them."""
    numbers = np.arange(count)
    chromosome, place = 1 + numbers % 22, 10_000 + 30_000 * (numbers // 22)
    return [f"chr{c}:{p}-{p + 500}" for c, p in zip(chromosome, place, strict=True)]


def truth(count: int) -> np.ndarray:
    """Return topics [TRUE_TOPICS, regions], each with a fifth of the regions open."""
    rng = np.random.default_rng(0)
    often = rng.lognormal(0, 1, count)
    weights = often * np.where(rng.random((TRUE_TOPICS, count)) < 0.2, 1, 0.05)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def block(topics: np.ndarray, number: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the open regions of a block of cells, one after another, and how many each has."""
    rng = np.random.default_rng([1, number])
    types = np.random.default_rng(2).dirichlet(np.full(TRUE_TOPICS, 0.2), TYPES)
    of_cell = types[rng.integers(TYPES, size=cells)]
    shares = rng.standard_gamma(0.05 + 6 * of_cell)
    shares /= shares.sum(axis=1, keepdims=True)
    depths = np.clip(rng.lognormal(np.log(5_600), 0.6, cells), 500, 40_000)
    mixed = (shares * depths[:, None]).astype(np.float32)
    places, lengths = [], []
    for first in range(0, cells, PIECE):
        rate = mixed[first : first + PIECE] @ topics
        noise = rng.random(rate.shape, np.float32)
        # Open with probability rate / (1 + rate), which a deep cell saturates.
        row, place = np.nonzero(noise * (1 + rate) < rate)
        places.append(place.astype(np.int32))
        lengths.append(np.bincount(row, minlength=len(rate)))
    return np.concatenate(places), np.concatenate(lengths)


def blocks(topics: np.ndarray, cells: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the blocks of all cells in order, drawn by a thread for each core."""
    with ThreadPoolExecutor(kept.cores()) as pool:
        distinct = min(DISTINCT, -(-cells // BLOCK))
        drawn = [pool.submit(block, topics, number, BLOCK) for number in range(distinct)]
        for number, first in enumerate(range(0, cells, BLOCK)):
            places, lengths = drawn[number % distinct].result()
            lengths = lengths[: cells - first]
            yield places[: lengths.sum()], lengths


def write(path: Path, cells: int, count: int) -> int:
    """Write the AnnData file, a few blocks in memory at a time; return the number of ones."""
    from simplex_jax._src.evaluate.single_cells import anndata_file, encoded

    obs = {"cell": [f"cell{number:06d}-1" for number in range(cells)]}
    total, lengths = 0, [np.zeros(1, np.int64)]
    with anndata_file(path, obs, {"region": regions(count)}) as file:
        matrix = encoded(file.create_group("X"), "csr_matrix", "0.1.0")
        matrix.attrs["shape"] = (cells, count)
        kind = {"shape": (0,), "maxshape": (None,), "chunks": (2**20,)}
        indices = matrix.create_dataset("indices", dtype=np.int32, **kind)
        data = matrix.create_dataset("data", dtype=np.uint8, **kind)
        for places, numbers in blocks(truth(count), cells):
            for array, values in ((indices, places), (data, np.ones(places.size, np.uint8))):
                array.resize((total + places.size,))
                array[total:] = values
            total += places.size
            lengths.append(numbers)
        matrix["indptr"] = np.cumsum(np.concatenate(lengths))
    return total


def run(*arguments: str) -> dict[str, float]:
    """Run `simplex-jax lda` with arguments: its seconds, those of its threads, and peak memory."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen([program(), "lda", *arguments, "--quiet"], stdout=subprocess.DEVNULL)
    peaks, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            with contextlib.suppress(OSError):  # it may just have ended
                peaks.append(resident(process.pid, "Anon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    process.wait()
    ended.set()
    watcher.join()
    if process.returncode:
        sys.exit(f"simplex-jax lda {' '.join(arguments)} ended with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": time.perf_counter() - begun,
        "processor_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "own_peak_gib": max(peaks),
    }


def trained(place: Path) -> dict[str, float]:
    """Return the passes of a run, its seconds of training, and ns a token and core."""
    record = json.loads((place / "metrics.jsonl").read_text().splitlines()[-1])
    return {
        "passes": record["passes"],
        "training_seconds": record["seconds"],
        "token_ns": 1e9 * kept.cores() / record["tokens_per_second"],
    }


def compare(few: Any, place: Path, topics: int, passes: int) -> list[dict[str, Any]]:
    """Return the training of tomotopy and of ours on a corpus, which is stored at a place, too."""
    import tomotopy

    options = ("--topics", str(topics), "--passes", str(passes), "--holdout", "0")
    run(str(place), *options, *STREAM, "--out", str(place.with_name("few_run")))
    ours = trained(place.with_name("few_run"))
    model = tomotopy.LDAModel(k=topics, alpha=0.1, eta=0.05, seed=0)
    model.optim_interval = 0
    for first, last in zip(few.counts.indptr[:-1], few.counts.indptr[1:], strict=True):
        model.add_doc([str(region) for region in few.counts.indices[first:last]])
    model.train(0)
    begun = time.perf_counter()
    model.train(passes, workers=kept.cores())
    seconds = time.perf_counter() - begun
    cost = 1e9 * seconds * kept.cores() / (few.counts.nnz * passes)
    theirs = {"passes": passes, "training_seconds": seconds, "token_ns": cost}
    facts = {"topics": topics, "cells": len(few.names), "tokens": few.counts.nnz}
    return [{"step": "ours"} | facts | ours, {"step": "tomotopy"} | facts | theirs]


def project(rows: list[dict[str, Any]], tokens: int) -> dict[str, float]:
    """Return the hours of the whole job by cores, and those of training alone on a GPU."""
    fits = [row for row in rows if row["step"] == "fit"]
    steps, scale = {row["step"]: row for row in rows}, JOB_TOKENS / tokens
    costs = [(row["topics"], row["token_ns"]) for row in fits]
    slope, least = np.polyfit(*zip(*costs, strict=True), 1)
    passes = sum((least + slope * topics) * JOB_PASSES * JOB_TOKENS for topics in JOB_TOPICS) / 1e9
    start, few = (row for row in rows if row["step"] == "export")
    rate = (few["seconds"] - start["seconds"]) / (few["tokens"] - start["tokens"])
    shares = kept.cores() * rate * JOB_TOKENS * len(JOB_TOPICS)
    training = sum(row["training_seconds"] for row in fits)
    rest = (steps["sweep"]["seconds"] - training) / len(fits)
    serial = scale * (steps["store"]["seconds"] + len(JOB_TOPICS) * rest)
    result = {f"{cores}_cores": (passes + shares) / cores + serial for cores in JOB_CORES}
    rates = np.interp(JOB_TOPICS, list(GPU), list(GPU.values()))
    result |= {"gpu_training": float((JOB_PASSES * JOB_TOKENS / 1e6 / rates).sum())}
    result |= {"core_training": passes, "core_proportions": shares, "serial": serial}
    return {name: seconds / 3600 for name, seconds in result.items()}


STREAM = ("--stream", "--counts", "memoised")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--regions", type=int, default=80_000)
    parser.add_argument("--topics", default="10,20,40", help="numbers of topics of the sweep")
    parser.add_argument("--no-sweep", action="store_true", help="nor a projection from it")
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/lda_atac"))
    parser.add_argument("--keep", type=Path, help="the JSON file, if not in --out")
    options = parser.parse_args()
    place: Path = options.out / "files"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        rows, facts = measure(place, options)
    finally:
        shutil.rmtree(place)
    if not options.no_sweep:
        hours = project(rows, facts["tokens"])
        facts["projected_hours"] = {name: round(x, 3) for name, x in hours.items()}
    keep = options.keep or options.out / "lda_atac.json"
    kept.write(keep, rows, **facts)
    print(keep.read_text())


def measure(
    place: Path, options: argparse.Namespace
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a row for each step, and the size of the matrix."""
    rows = list[dict[str, Any]]()

    def add(step: str, **facts: Any) -> None:
        rows.append({"step": step, **facts})
        print(json.dumps(rows[-1]), flush=True)

    matrix, stored, begun = place / "cells.h5ad", str(place / "store"), time.perf_counter()
    tokens = write(matrix, options.cells, options.regions)
    add("matrix", seconds=time.perf_counter() - begun)
    add("store", **run("store", str(matrix), stored))
    matrix.unlink()

    length = ("--passes", str(options.passes), "--checkpoint-every", "100000", *STREAM)
    arguments = (stored, "--topics", "20", *length)
    told = {"predicted": predicted(["lda", *arguments])}
    one = run(*arguments, "--out", str(place / "one"))
    add("one", topics=20, **one, **trained(place / "one"), **told)
    if not options.no_sweep:
        several = ("--topics", options.topics, "--repeats", "1", "--out", str(place / "sweep"))
        add("sweep", **run(stored, *several, *length))
        for topics in map(int, options.topics.split(",")):
            add("fit", topics=topics, **trained(place / "sweep" / f"topics-{topics}-seed-0"))

    from simplex_jax._src.corpus import Corpus, store

    opened = store.open(stored)
    for count in FEW:
        few = Corpus(opened.rows(0, count), opened.vocabulary, opened.names[:count])
        path, model = place / f"cells_{count}", str(place / "one")
        store.write(path, few)
        exported = run("export", str(path), "--model", model, "--out", f"{path}_export")
        add("export", topics=20, cells=len(few.names), tokens=few.counts.nnz, **exported)
    for row in compare(few, path, 20, options.passes) if options.peer else ():
        add(**row)
    return rows, {"cells": options.cells, "regions": options.regions, "tokens": tokens}


if __name__ == "__main__":
    main()
