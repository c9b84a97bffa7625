"""Every experiment, in turn, each in a process of its own.

    python benchmarks/papers/all.py --quick [--out FOLDER]

With `--quick` all of them are small: that takes some minutes, shows that they work, and says
nothing about the papers. Without, they are as the papers have them, which takes a day. Options that
are not its own are passed on to every experiment. The exit status is 1 if one of them fails, of
which it prints what the experiment said last.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXPERIMENTS = (
    *("scir_figure1", "scir_figure2", "sgrld_figure1", "mld_figure1", "bias"),
    *("lda_nips", "lda_wikipedia", "dpm_synthetic", "dpm_msweb"),
    *("sggmc_order", "sggmc_circle", "sggmc_posterior", "sggmc_applications"),
    *("sam_20news", "sam_wikipedia"),
)
LAST_LINES = 20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, help="build/papers by default, with --quick apart")
    options, others = parser.parse_known_args()
    out = options.out or HERE.parents[1] / "build" / ("papers_quick" if options.quick else "papers")
    environment = dict(os.environ)
    if options.quick:
        others.insert(0, "--quick")
        # Most of a quick run is compilation.
        environment.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    started = time.perf_counter()
    scripts = [HERE / f"{name}.py" for name in EXPERIMENTS]
    failed = run(scripts, out, others, environment)
    wall, busy = time.perf_counter() - started, _processor_time()
    print(f"{len(scripts)} experiments, {wall:.0f} s, {busy:.0f} s of processors")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def run(
    scripts: Sequence[Path], out: Path, options: Sequence[str], environment: dict[str, str]
) -> list[str]:
    """Run scripts in turn, each into a folder of its own; return the names of those that fail."""
    failed = []
    for script in scripts:
        started, before = time.perf_counter(), _processor_time()
        command = [sys.executable, str(script), *options, "--out", str(out / script.stem)]
        done = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        verdict = "ok" if done.returncode == 0 else f"exit status {done.returncode}"
        wall, busy = time.perf_counter() - started, _processor_time() - before
        print(f"{script.stem}: {wall:.0f} s, {busy:.0f} s of processors, {verdict}", flush=True)
        if done.returncode:
            failed.append(script.stem)
            print("\n".join(done.stdout.splitlines()[-LAST_LINES:]), flush=True)
    return failed


def _processor_time() -> float:
    """Return the processor time of the experiments so far, which others' work does not lengthen."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
