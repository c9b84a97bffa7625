"""A Dirichlet-process mixture of rows in a file that is larger than memory.

    python benchmarks/dpm_on_disk.py --gigabytes 30 --columns 2048 --keep FILE

Rows from Gaussian clusters, whose means differ by a few deviations, are written to an .npy file in
the temporary folder, and `dpm.fit` gets its memory map. The result has the seconds per pass, the
peak memory apart from the file's, and the clusters found.
"""

import argparse
import json
import re
import tempfile
import threading
import time
from pathlib import Path

import kept
import numpy as np

from simplex_jax._src.models import dpm
from simplex_jax._src.runtime import devices

CLUSTERS, BLOCK = 12, 2**14


def write(path: Path, rows: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLUSTERS, columns)).astype(np.float32)
    table = np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns))
    for first in range(0, rows, BLOCK):
        clusters = rng.integers(0, CLUSTERS, min(BLOCK, rows - first))
        noise = rng.standard_normal((len(clusters), columns), np.float32)
        table[first : first + BLOCK] = centres[clusters] + noise
    table.flush()


def own_memory() -> int:
    """Return the bytes of memory that no file backs."""
    status = Path("/proc/self/status").read_text()
    result = re.search(r"RssAnon:\s+(\d+)", status)
    assert result is not None
    return 1024 * int(result[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=30)
    parser.add_argument("--columns", type=int, default=2048)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    rows = int(given.gigabytes * 1e9 / (4 * given.columns))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.npy")
        write(path, rows, given.columns)
        table = np.load(path, mmap_mode="r")
        family = dpm.families.diagonal_gaussian_of(np.array(table[:10_000]))
        most = [own_memory()]

        def watch() -> None:
            while True:
                most[0] = max(most[0], own_memory())
                time.sleep(0.1)

        threading.Thread(target=watch, daemon=True).start()
        started = time.perf_counter()
        fitted = dpm.fit(table, family, passes=given.passes, holdout=1000, split_merge=0, seed=0)
        row = {
            "rows": rows,
            "columns": given.columns,
            "file": path.stat().st_size,
            "memory": devices.memory(),
            "own_memory": most[0],
            "seconds": round(time.perf_counter() - started),
            "seconds_per_pass": round(fitted.metrics[-1]["seconds"] / given.passes, 1),
            "true_clusters": CLUSTERS,
            "clusters": len(fitted.clusters.sizes),
            "smallest_of_true": round(fitted.clusters.sizes[:CLUSTERS].min()),
            "beyond_true": round(fitted.clusters.sizes[CLUSTERS:].sum()),
        }
    print(json.dumps(row, indent=1))
    if given.keep:
        kept.write(given.keep, [row])


if __name__ == "__main__":
    main()
