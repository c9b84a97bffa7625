"""Kept results in `results/`: figures for the documentation, and how they were made."""

import datetime
import json
import math
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sources

RESULTS = Path(__file__).resolve().parent / "results"
PLACES = ("--data", "--draws", "--keep", "--out", "--peers")
"""Options that name a file or a folder."""
_BEGUN = time.time()


def about() -> dict[str, Any]:
    """Return versions, date, machine, command, commit and code of the current run."""
    from simplex_jax._src.models.records import versions  # not needed to read results

    return {
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "cores": cores(),
        "command": shlex.join(["python", os.path.relpath(sys.argv[0]), *_without_places(sys.argv)]),
        "commit": _commit(),
        **_code(Path(sys.argv[0]).resolve()),
    }


def _commit() -> str | None:
    """Return the commit that is checked out, "-dirty" if files differ; None without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=sources.ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _code(script: Path) -> dict[str, str | None]:
    """Return a script of this repository and the digest of the code that ran.

    The digest is None if a file was written after the run had begun: that code may not have run.
    """
    if not script.is_relative_to(sources.ROOT / "benchmarks"):
        return {"script": None, "digest": None}
    digest = None
    if max(path.stat().st_mtime for path in sources.dependencies(script)) < _BEGUN:
        digest = sources.digest(script)
    else:
        print("code changed during the run: the result is kept without its digest", file=sys.stderr)
    return {"script": str(script.relative_to(sources.ROOT)), "digest": digest}


def machine() -> str:
    """Return the processor model and the operating system."""
    return f"{_processor()}, {platform.system()}"


def cores() -> int:
    """Return the cores that this process may use, which `taskset` limits."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _without_places(arguments: Sequence[str]) -> list[str]:
    """Return a command's arguments without its files."""
    told = iter(arguments[1:])
    kept = []
    for argument in told:
        if argument in PLACES:
            next(told, None)
        else:
            kept.append(argument)
    return kept


def _processor() -> str:
    """Return the processor model, which `platform` does not know on Linux.

    In a virtual machine it may be the maker's name alone: then with family and model numbers.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    facts = {name.strip(): value.strip() for name, _, value in (s.partition(":") for s in lines)}
    name = facts.get("model name", "")
    if name and not any(map(str.isdigit, name)) and "cpu family" in facts:
        name += f", family {facts['cpu family']}, model {facts['model']}"
    return name or platform.processor() or platform.machine()


def write(path: Path, rows: Sequence[Mapping[str, Any]], **facts: Any) -> None:
    """Write the rows of a table, one per line with six digits a number, and how they were made.

    NaN becomes null.
    """
    told = {"about": about(), **facts}
    head = [f' "{name}": {json.dumps(value, default=str)}' for name, value in told.items()]
    lines = [json.dumps({name: _short(value) for name, value in row.items()}) for row in rows]
    table = ' "rows": [\n  ' + ",\n  ".join(lines) + "\n ]"
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_suffix(".part")
    begun.write_text("{\n" + ",\n".join([*head, table]) + "\n}\n", encoding="utf-8")
    begun.replace(path)


def _short(value: Any) -> Any:
    if isinstance(value, str | int) or value is None:  # a bool is an int
        return value
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else None


def read(path: Path) -> dict[str, Any]:
    """Return what `write` has written."""
    return json.loads(path.read_text(encoding="utf-8"))


def earlier(path: Path | None) -> list[dict[str, Any]]:
    """Return the rows of a run that was ended, for this one to go on; none without a file.

    Raises:
        ValueError: Other code made them, so that they cannot be counted with those of today.
    """
    if path is None or not path.exists():
        return []
    found = read(path)
    if found["about"]["digest"] != sources.digest(Path(sys.argv[0])):
        raise ValueError(f"other code has made {path}: give another file, or remove it")
    return found["rows"]
