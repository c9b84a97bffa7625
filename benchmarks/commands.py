"""Small whole commands from the shell to the report, without and with compiled programs on disk.

    python benchmarks/commands.py [--only NAME ...] [--keep FILE]

Each runs in a new process: "first" with an empty folder of compiled programs, "second" with what
the first has left there. "seconds" is by the clock, "processor_seconds" that of all threads, and
"training" the time in updates, which the other two contain. Needs ../shared/data for the last, and
ten to twenty minutes on two quiet cores.
"""

import argparse
import compileall
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import kept
import numpy as np
from lda_recorder import SHARED

import simplex_jax

ROWS, CLUSTERS, COLUMNS = 5000, 6, 5
COMMANDS = {
    "help": "lda --help",
    "lda": "lda",
    "lda, 200 passes": "lda --passes 200",
    "hdp": "hdp --passes 50",
    "dpm": "dpm ROWS",
    "sam": "sam --topics 10 --passes 2",
    "dtm": "dtm",
    "dpm.fit": "",
    "wikipedia": "lda WIKIPEDIA --topics 500 --seconds 60",
}
WIKIPEDIA = SHARED / "data" / "wikipedia" / "docword.wikipedia.train.txt.gz"
FIT = """
import sys
import numpy as np
from simplex_jax import dpm
rows = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1)
dpm.fit(rows, dpm.families.gaussian_of(rows), passes=1)
"""


def write_rows(path: Path) -> None:
    """Write a table of rows around a few centres."""
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(CLUSTERS, COLUMNS))
    rows = centres[rng.integers(CLUSTERS, size=ROWS)] + rng.normal(size=(ROWS, COLUMNS))
    np.savetxt(path, rows, "%.4f", delimiter=",", header="a,b,c,d,e", comments="")


def measure(command: list[str], out: Path, caches: Path) -> dict[str, float]:
    """Run a command, and return its seconds."""
    environment = {name: x for name, x in os.environ.items() if not name.startswith("JAX_")}
    environment |= {"XDG_CACHE_HOME": str(caches)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row = {"seconds": round(seconds, 1), "processor_seconds": round(processor, 1)}
    if (metrics := out / "metrics.jsonl").exists():
        last = json.loads(metrics.read_text().splitlines()[-1])
        row["training"] = round(last["seconds"], 1)
    return row


def both(name: str, place: Path) -> dict[str, Any]:
    """Measure a command twice."""
    row: dict[str, Any] = {"name": name, "command": f"simplex-jax {COMMANDS[name]}"}
    write_rows(place / "rows.csv")
    for run in ("first", "second"):
        out = place / run
        if name == "dpm.fit":
            row["command"] = "dpm.fit(rows, families.gaussian_of(rows), passes=1)"
            command = [sys.executable, "-c", FIT, str(place / "rows.csv")]
        else:
            places = {"ROWS": place / "rows.csv", "WIKIPEDIA": WIKIPEDIA}
            options = [str(places.get(word, word)) for word in COMMANDS[name].split()]
            command = [sys.executable, "-m", "simplex_jax", *options]
            if "--help" not in options:
                command += ["--out", str(out), "--quiet"]
        measured = measure(command, out, place / "caches")
        row |= {f"{run}_{what}": value for what, value in measured.items()}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    # As after an installation, which compiles the modules: it takes a second otherwise.
    compileall.compile_dir(Path(simplex_jax.__file__).parent, quiet=1)
    rows = []
    for name in given.only:
        with tempfile.TemporaryDirectory() as place:
            rows.append(both(name, Path(place)))
        print(json.dumps(rows[-1]), flush=True)
        if given.keep:
            kept.write(given.keep, rows)


if __name__ == "__main__":
    main()
