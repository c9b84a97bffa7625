"""List the kept results whose code has changed since, and those kept without a digest of it.

    python benchmarks/stale.py

A result in `benchmarks/results/` has the digest of the code that made it (`sources.py`). "stale"
are those of other code than today's, "unknown" those without a digest, from before there was one or
from a run during which files changed. The exit status is 1 if any are listed.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import kept
import sources


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    files = sorted(kept.RESULTS.rglob("*.json"))
    listed = listing(files)
    for state, names in listed.items():
        if names:
            print(f"{state}, {len(names)} of {len(files)}:")
            print(*(f"  {name}" for name in names), sep="\n")
    sys.exit(1 if any(listed.values()) else 0)


def listing(files: Sequence[Path], roots: Sequence[Path] = sources.ROOTS) -> dict[str, list[str]]:
    """Return the results that are stale, with their commits and scripts, and the unknown ones."""
    found: dict[str, list[str]] = {"stale": [], "unknown": []}
    for file in files:
        about = kept.read(file).get("about", {})
        if not about.get("digest"):
            found["unknown"].append(file.name)
            continue
        script = roots[0] / about["script"]
        if not script.is_file() or sources.digest(script, roots) != about["digest"]:
            found["stale"].append(f"{file.name} (commit {about['commit']}, {about['script']})")
    return found


if __name__ == "__main__":
    main()
