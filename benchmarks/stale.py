"""List the kept results whose code has changed since, and those kept without a digest of it.

    python benchmarks/stale.py

A result in `benchmarks/results/` has the digest of the code that made it (`sources.py`). "stale"
are those of other code than today's, "unknown" those without a digest, from before there was one or
from a run during which files changed. Those of a GPU that are stale or unknown are listed apart,
unless this machine has such a one, since only there can they be run again. Each has the commit and
the command that made it. The exit status is 1 if others than those of GPUs are listed.

A result whose code has changed may have today's digest all the same, if a shorter run of both codes
gave the same bits, or if its run does not reach what changed; it then says which in "confirmed".
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import kept
import sources

ELSEWHERE = "of another machine, to run again there"


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    files = sorted(kept.RESULTS.rglob("*.json"))
    listed = listing(files, here=jax.devices()[0].device_kind)
    for state, names in listed.items():
        if names:
            print(f"{state}, {len(names)} of {len(files)}:")
            print(*(f"  {name}" for name in names.values()), sep="\n")
    sys.exit(1 if listed["stale"] or listed["unknown"] else 0)


def listing(
    files: Sequence[Path], roots: Sequence[Path] = sources.ROOTS, here: str = "cpu"
) -> dict[str, dict[Path, str]]:
    """Return the results that are stale, unknown or of another GPU, with commits and commands."""
    found: dict[str, dict[Path, str]] = {"stale": {}, "unknown": {}, ELSEWHERE: {}}
    for file in files:
        result = kept.read(file)
        about = result.get("about", {})
        if not about.get("digest"):
            state = "unknown"
        elif not is_of_today(about, roots):
            state = "stale"
        else:
            continue
        told = f"{file.name}, commit {about.get('commit')}: {about['command']}"
        device = result.get("device", "cpu")
        if device != "cpu" and device != here:
            found[ELSEWHERE][file] = f"{state}, {device}: {told}"
        else:
            found[state][file] = told
    return found


def is_of_today(about: Mapping[str, Any], roots: Sequence[Path]) -> bool:
    """Return whether the script of a result is still there, and all its code as it was."""
    script = roots[0] / about["script"]
    return script.is_file() and sources.digest(script, roots) == about["digest"]


if __name__ == "__main__":
    main()
