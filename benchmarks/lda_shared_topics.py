"""Tokens per second of LDA in processes that share the topics, and where each draws them all.

    python benchmarks/lda_shared_topics.py [--tokens 50000 200000] [--topics 100] [--keep FILE]

Runs alternate, as in `lda_processes.py`: each process has its own core, with gloo between them.
Those that do not share are the same program without `sharding.shared_topics`, and have the same
samples. With few tokens for the number of topics, drawing topics takes most of the time.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

import kept
import numpy as np
from lda_growth import blocks
from lda_processes import rates

from simplex_jax._src.corpus import store

_PROGRAM = "import sys; sys.argv[0] = 'simplex-jax'; from simplex_jax._src.cli import main; main()"
_APART = (
    "from simplex_jax._src.models.lda import sharding; sharding.shared_topics = lambda *_: None; "
)
PROGRAMS = {"shared": _PROGRAM, "each all": _APART + _PROGRAM}


def compared(tokens: int, options: argparse.Namespace) -> dict[str, float]:
    """Return the median rates over a store with this many tokens."""
    found: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    samples = set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        words = [f"w{number}" for number in range(options.words)]
        store.write_blocks(path, blocks(tokens, options.words), words)
        for _ in range(options.repeats):
            for name, code in PROGRAMS.items():
                arguments = (path, options.topics, options.passes, options.processes)
                found[name].append(rates(*arguments, Path(folder), ("-c", code))[0])
                samples.add(Path(folder, f"run-{options.processes}", "topics.npz").read_bytes())
    shared, each_all = (float(np.median(found[name])) for name in PROGRAMS)
    return {
        "processes": options.processes,
        "topics": options.topics,
        "words": options.words,
        "tokens": tokens,
        "shared": shared,
        "each_all": each_all,
        "times_as_fast": shared / each_all,
        "same_samples": len(samples) == 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=[50_000, 200_000])
    parser.add_argument("--words", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--passes", type=int, default=150)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    rows = []
    for tokens in options.tokens:
        rows.append(compared(tokens, options))
        print(json.dumps(rows[-1]), flush=True)
    if options.keep:
        kept.write(options.keep, rows)


if __name__ == "__main__":
    main()
