"""Results that are kept under `results/`: figures of the documentation, and how they were made."""

import datetime
import json
import math
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


def about() -> dict[str, Any]:
    """Return versions, date, machine and command of the run that is going on."""
    from simplex_jax.models.pipeline import versions  # not where results are only read

    return {
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{_processor()}, {platform.system()}",
        "cores": os.cpu_count(),
        "command": " ".join(["python", os.path.relpath(sys.argv[0]), *sys.argv[1:]]),
    }


def _processor() -> str:
    """Return the model of the processor, which `platform` does not know on Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write(path: Path, rows: Sequence[Mapping[str, Any]], **facts: Any) -> None:
    """Write the rows of a table, a line each with six digits of a number, and facts about them.

    NaN becomes null.
    """
    head = json.dumps({"about": about(), **facts}, indent=1, default=str)
    lines = [json.dumps({name: _short(value) for name, value in row.items()}) for row in rows]
    text = head.removesuffix("\n}") + ',\n "rows": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _short(value: Any) -> Any:
    if isinstance(value, str | int) or value is None:  # a bool is an int
        return value
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else None


def read(path: Path) -> dict[str, Any]:
    """Return what `write` has written."""
    return json.loads(path.read_text(encoding="utf-8"))
