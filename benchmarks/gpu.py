"""Everything that this folder measures on a GPU, in one run of at most 15 minutes.

    python benchmarks/gpu.py                    # on one card, into build/gpu
    python benchmarks/gpu.py --parts sam dpm    # some of it; --list says what there is
    python benchmarks/gpu.py --quick            # all of it, small and on the CPU: does it run?

Parts run one after the other, the most valuable first, each in its own process and with its own
limit; what the time does not suffice for is named at the end. The output and the kept results of
each part are in --out, with `summary.json` over all of them. Copy the results that documentation
quotes to `results/`: their names are the ones used there.

"on one core" is the same work on one core of the host, with the library's code for CPUs. Profiles
are sums over the events that XLA recorded on the device, or in its threads on a CPU.
"""

import argparse
import collections
import contextlib
import json
import os
import runpy
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import sources

BENCHMARKS = Path(__file__).resolve().parent
MOST = 880
"""Seconds in all: a quarter of an hour, less the time to say what was measured."""


class Part(NamedTuple):
    """A part of the run."""

    name: str
    about: str
    script: str  # in this folder, "pytest", or "simplex_jax" for the command
    arguments: str
    quick: str  # arguments in place of those, small enough for a CPU
    seconds: int  # its limit
    keep: str | None = None  # the name of its kept result, without .json
    profile: bool = False
    one_core: bool = False  # on one core of the host, and not on the GPU


_ON_GPU = "-q -n 0 -m 'slow or not slow' -k gpu"
_TOPICS = "--topics 100 1000 5000 10000"
_SAM = "--topics 50 --words 3000 --updates 20 --repeats 3"
_SMALL_SAM = "--topics 5 --words 200 --batch 10 --documents 200 --updates 2 --repeats 1"
_DPM = "--rows 100000 --passes 6"
_SMALL_DPM = "--rows 2000 --passes 2 --categories 50"
PARTS = (
    Part(
        *("tests", "the native code for GPUs draws what that for CPUs does", "pytest"),
        f"{_ON_GPU} tests/draws/test_draws_cuda.py tests/models/topics/test_cuda.py",
        f"{_ON_GPU} --collect-only tests/draws/test_draws_cuda.py tests/models/topics/test_cuda.py",
        120,
    ),
    Part(
        *("throughput", "tokens a second of LDA with its topics", "lda_throughput.py"),
        f"{_TOPICS} --methods collapsed --tokens 20000000",
        "--topics 20 --methods collapsed --tokens 50000 --vocabulary 500 --repeats 1",
        180,
        "lda_throughput_gpu",
    ),
    Part(
        *("sweeps", "sweeps alone, rows of words and draws, by topics", "lda_parts_gpu.py"),
        "--topics 20 50 100 191 250 500 1000 2000 5000 10000 --tokens 20000000",
        "--topics 20 --tokens 50000",
        150,
        "lda_parts_gpu",
    ),
    Part("sam", "an update of SAM", "sam_step.py", _SAM, _SMALL_SAM, 60, "sam_step_gpu"),
    Part(
        *("sam-core", "an update of SAM on one core", "sam_step.py", _SAM, _SMALL_SAM, 60),
        "sam_step_core",
        one_core=True,
    ),
    Part(
        *("sam-profile", "where an update of SAM spends its time", "sam_step.py"),
        *(f"{_SAM} --repeats 1 --updates 5", _SMALL_SAM, 60),
        profile=True,
    ),
    Part(
        *("sam-batch", "an update of SAM with 2,000 documents", "sam_step.py"),
        *(f"{_SAM} --batch 2000 --repeats 1 --updates 5", _SMALL_SAM, 60, "sam_step_batch_gpu"),
    ),
    Part("dpm", "a pass of a mixture", "dpm_mixture.py", _DPM, _SMALL_DPM, 90, "dpm_mixture_gpu"),
    Part(
        *("dpm-core", "a pass of a mixture on one core", "dpm_mixture.py", _DPM, _SMALL_DPM, 120),
        "dpm_mixture_core",
        one_core=True,
    ),
    Part(
        *("dpm-profile", "where a pass of a mixture spends its time", "dpm_mixture.py"),
        *("--rows 100000 --passes 3", _SMALL_DPM, 60),
        profile=True,
    ),
    Part(
        *("draws", "gamma, Poisson and CIR variates", "draws.py"),
        *("--repeats 9", "--repeats 1", 90, "draws_gpu"),
    ),
    Part(
        *("paths", "an update of paths of topics", "dirichlet_paths.py"),
        "--seconds 2",
        "--paths 2 --times 4 --words 50 --tokens 200 --seconds 0.1",
        60,
        "dirichlet_paths_gpu",
    ),
    Part(
        *("dtm", "a pass over topics in slices", "simplex_jax"),
        "dtm --passes 200 --topics 30 --out run --overwrite --quiet",
        "dtm --passes 3 --topics 5 --out run --overwrite --quiet",
        90,
    ),
    Part(
        *("xla", "tokens a second without native code", "lda_throughput.py"),
        "--topics 100 1000 --engine xla --methods blocked --tokens 20000000 --repeats 2",
        "--topics 20 --engine xla --methods blocked --tokens 50000 --vocabulary 500 --repeats 1",
        90,
        "lda_throughput_gpu_xla",
    ),
)


def command(part: Part, out: Path, *, quick: bool) -> list[str]:
    """Return the command of a part."""
    given = shlex.split(part.quick if quick else part.arguments)
    if part.script in ("pytest", "simplex_jax"):
        return [sys.executable, "-m", part.script, *given]
    keep = [] if part.keep is None else ["--keep", str(out / f"{part.keep}.json")]
    profiled = [__file__, "--profile", str(out / f"{part.name}.json")] if part.profile else []
    return [sys.executable, *profiled, str(BENCHMARKS / part.script), *given, *keep]


def measure(part: Part, out: Path, limit: float, *, quick: bool) -> dict[str, Any]:
    """Run a part, and return its exit status, its seconds and what it said last."""
    environment = os.environ | ({"JAX_PLATFORMS": "cpu"} if quick or part.one_core else {})
    core = {min(os.sched_getaffinity(0))} if part.one_core else os.sched_getaffinity(0)
    began, log = time.perf_counter(), out / f"{part.name}.log"
    # The command writes where it runs; the tests are found from the repository.
    with tempfile.TemporaryDirectory() as folder, log.open("w") as file:
        process = subprocess.Popen(
            command(part, out, quick=quick),
            cwd=folder if part.script == "simplex_jax" else sources.ROOT,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        with contextlib.suppress(ProcessLookupError):  # which has ended
            os.sched_setaffinity(process.pid, core)
        try:
            status: int | str = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = f"stopped after {limit:.0f} s"
    lines = log.read_text().strip().splitlines()
    return {
        "part": part.name,
        "status": status or "done",
        "seconds": round(time.perf_counter() - began, 1),
        "last line": lines[-1] if lines else "",
    }


def profile(result: Path, script: str, arguments: Sequence[str]) -> None:
    """Run a script, and print and write the operations of the device that took the most time."""
    import jax

    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(BENCHMARKS))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            runpy.run_path(script, run_name="__main__")
        (trace,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(trace))
    seconds: collections.Counter[str] = collections.Counter()
    calls: collections.Counter[str] = collections.Counter()
    for plane in data.planes:
        for line in plane.lines:
            # Of a GPU, its streams; lines of whole modules and steps would count twice.
            if not line.name.startswith(("Stream", "tf_XLAEigen", "XLAEigen")):
                continue
            for event in line.events:
                seconds[event.name] += event.duration_ns / 1e9
                calls[event.name] += 1
    rows = [
        {"operation": name[:100], "seconds": round(time_, 4), "calls": calls[name]}
        for name, time_ in seconds.most_common(25)
    ]
    total = {"operation": "all", "seconds": round(sum(seconds.values()), 4)}
    result.write_text(json.dumps([total | {"calls": sum(calls.values())}, *rows], indent=1) + "\n")
    print("".join(f"{row['seconds']:9.4f} s {row['calls']:7} {row['operation']}\n" for row in rows))


def device(*, quick: bool) -> str:
    """Return the name of the card, or end with a message."""
    code = "import jax; print(jax.default_backend(), jax.devices()[0].device_kind)"
    environment = os.environ | ({"JAX_PLATFORMS": "cpu"} if quick else {})
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    if done.returncode or not (quick or done.stdout.startswith("gpu ")):
        sys.exit(f"{done.stderr}JAX finds no GPU here: give --quick to run all of this on the CPU")
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [part.name for part in PARTS]
    parser.add_argument("--parts", nargs="+", choices=names, default=names, metavar="PART")
    parser.add_argument("--list", action="store_true", help="name the parts, and do not run them")
    parser.add_argument("--quick", action="store_true", help="small, and on the CPU")
    parser.add_argument("--seconds", type=float, default=MOST, help="of all parts together")
    parser.add_argument("--out", type=Path, default=Path("build/gpu"))
    parser.add_argument(
        "--profile",
        nargs=argparse.REMAINDER,
        metavar="ARGUMENT",
        help="RESULT SCRIPT ARGUMENT...: profile one script, and do nothing else",
    )
    options = parser.parse_args()
    if options.profile:
        profile(Path(options.profile[0]), options.profile[1], options.profile[2:])
        return
    if options.list:
        for part in PARTS:
            print(f"{part.name:12} {part.about}, at most {part.seconds} s")
        return
    began, out = time.perf_counter(), options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    card = device(quick=options.quick)
    print(card, flush=True)
    for part in PARTS:
        if part.name not in options.parts:
            continue
        left = options.seconds - (time.perf_counter() - began)
        if left < min(20, part.seconds):
            rows.append({"part": part.name, "status": "not run: no time left"})
        else:
            rows.append(measure(part, out, min(part.seconds, left), quick=options.quick))
        print("  ".join(f"{value}" for value in rows[-1].values()), flush=True)
        summary = {"device": card, "quick": options.quick, "parts": rows}
        (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    bad = [row["part"] for row in rows if row["status"] != "done"]
    if bad:
        sys.exit(f"not done: {', '.join(bad)}; see the logs in {out}")


if __name__ == "__main__":
    main()
