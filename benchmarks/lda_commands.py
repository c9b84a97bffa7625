"""Whole commands, as the shell sees them: seconds, and how far the run got.

    python benchmarks/lda_commands.py [--only readme ap news20 wikipedia] [--keep FILE]

From the start of `simplex-jax lda` to its end, with reading, compiling, the shares of all documents
and the report. For a run without a length, "ess_prevalence" is the effective sample size that nine
in ten topics reach for their share of the tokens, over the chains, and "ess_within_log_predictive"
that of the held-out predictive density within each chain, added; "shared" counts the topics that
all chains have.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kept
import numpy as np
from lda_recorder import SHARED

COMMANDS = {
    "readme": "",
    "readme, larger priors": "--alpha 0.5 --beta 0.2",
    "ap": "data/ap/ap.dat --vocab data/ap/vocab.txt --topics 30 --time-limit 240",
    "news20": "peers/news20_train.npz --vocab peers/news20_vocab.txt --topics 30 --time-limit 240",
    "wikipedia": "data/wikipedia/docword.wikipedia.train.txt.gz --topics 500 --seconds 60",
}


def measure(options: Sequence[str], out: Path) -> dict[str, Any]:
    """Run the command in the shared folder, and return its seconds and summary."""
    command = [sys.executable, "-m", "simplex_jax", "lda", *options, "--out", str(out), "--quiet"]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, cwd=SHARED, stdout=subprocess.DEVNULL, env=os.environ)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    summary = json.loads((out / "summary.json").read_text())
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    shared = summary.get("shared")
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "passes": metrics[-1]["passes"],
        **{name: size for name, size in metrics[-1].items() if name.startswith("ess_")},
        "shared": int(np.all(shared, axis=0).sum()) if shared else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    rows = []
    for name in given.only:
        with tempfile.TemporaryDirectory() as place:
            options = COMMANDS[name].split()
            row = {"name": name, "command": " ".join(["simplex-jax lda", *options])}
            row |= measure(options, Path(place, "run"))
        rows.append(row)
        print(json.dumps(row), flush=True)
        if given.keep:
            kept.write(given.keep, rows)


if __name__ == "__main__":
    main()
