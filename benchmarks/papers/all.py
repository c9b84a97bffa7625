"""Run every experiment, each in its own process.

    python benchmarks/papers/all.py --quick [--out FOLDER]

With `--quick` all of them are small, and as many run at once as there are cores: that takes some
minutes, shows that they work, and says nothing about the papers. Otherwise they have the papers'
sizes and run one at a time, since they measure time, which takes a day. Other options are passed on
to every experiment. If one fails, the exit status is 1 and its last output is printed.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1]))
from compiling import QUICK_FLAGS

HERE = Path(__file__).resolve().parent
EXPERIMENTS = (
    *("scir_figure1", "scir_figure2", "scir_variates", "scir_vocabulary", "sgrld_figure1", "bias"),
    *("scir_rates", "scir_lognormal", "scir_networks", "scir_hmm"),
    *("mld_figure1", "mld_theorem4", "mld_variants"),
    *("lda_nips", "lda_wikipedia", "lda_variates"),
    *("dpm_synthetic", "dpm_msweb", "dpm_directions"),
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
        environment.setdefault("XLA_FLAGS", QUICK_FLAGS)
    started = time.perf_counter()
    scripts = [HERE / f"{name}.py" for name in EXPERIMENTS]
    at_once = os.cpu_count() or 1 if options.quick else 1
    failed, busy = run(scripts, out, others, environment, at_once)
    wall = time.perf_counter() - started
    print(f"{len(scripts)} experiments, {wall:.0f} s, {busy:.0f} s of processors")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


class Done(NamedTuple):
    """How an experiment ended, how long it took, and its output."""

    status: int
    wall: float
    busy: float  # processor time, which other work does not lengthen
    said: str


def run(
    scripts: Sequence[Path],
    out: Path,
    options: Sequence[str],
    environment: Mapping[str, str],
    at_once: int = 1,
) -> tuple[list[str], float]:
    """Run scripts, each into a folder of its own.

    Returns:
        The names of those that failed, and the total processor time.
    """

    def one(script: Path) -> Done:
        return _run([str(script), *options, "--out", str(out / script.stem)], environment)

    failed, busy = [], 0.0
    with ThreadPoolExecutor(at_once) as threads:
        for script, done in zip(scripts, threads.map(one, scripts), strict=True):
            busy += done.busy
            verdict = f"exit status {done.status}" if done.status else "ok"
            times = f"{done.wall:.0f} s, {done.busy:.0f} s of processors"
            print(f"{script.stem}: {times}, {verdict}", flush=True)
            if done.status:
                failed.append(script.stem)
                print("\n".join(done.said.splitlines()[-LAST_LINES:]), flush=True)
    return failed, busy


def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> Done:
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        said = "".join(process.stdout or ())
        _, status, used = os.wait4(process.pid, 0)  # `wait` does not report this one's time
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    return Done(process.returncode, wall, used.ru_utime + used.ru_stime, said)


if __name__ == "__main__":
    main()
