"""Make kept results again, by their own commands and the code of the last commit.

    python benchmarks/rerun.py lda_nips scir_hmm [--with "--seeds 5"] [--core 0]
    python benchmarks/rerun.py --stale [--most 600]

The names are those of files in `results/`; `--stale` takes what `stale.py` lists, of which --most
takes those only whose last run told its seconds, and no more. They run one after the other, in a
copy of the last commit with today's native code, so that files may be edited meanwhile. A result is
replaced when its run has ended well, and so is the figure of an experiment of the papers; run
`pages.py` then, which makes the tables of the pages. Options of --with come after those of the
command, and replace them unless they may be repeated, as `--methods`. Left to you, with a message,
are results that several commands have put together, and those whose command made a part of them
only: the new rows would be fewer.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kept
import sources
import stale

FIGURES = sources.ROOT / "docs" / "figures"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--stale", action="store_true", help="all that stale.py lists")
    parser.add_argument("--most", type=float, help="seconds that the last run took, at most")
    parser.add_argument("--with", dest="more", default="", help="more options of the commands")
    parser.add_argument("--core", type=int, help="the one core that the runs may use")
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    files = chosen(options.names, all_stale=options.stale, most=options.most)
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_of_commit(Path(folder))
        try:
            failed = [file.stem for file in files if not again(file, tree, options.more)]
        finally:
            git("worktree", "remove", "--force", str(tree))
    if failed:
        sys.exit(f"not made again: {', '.join(failed)}")


def chosen(names: Sequence[str], *, all_stale: bool, most: float | None) -> list[Path]:
    """Return the files of results to make again.

    Raises:
        SystemExit: There is no result of a name, or none was asked for.
    """
    files = {file.stem: file for file in sorted(kept.RESULTS.rglob("*.json"))}
    if unknown := [name for name in names if name not in files]:
        sys.exit(f"no kept result has the name {', '.join(unknown)}")
    if all_stale:
        listed = stale.listing(list(files.values()))
        due = [*listed["stale"], *listed["unknown"]]
        names = [*names, *(file.stem for file in due if most is None or seconds(file) <= most)]
    if not names:
        sys.exit("give the names of results, or --stale")
    return [files[name] for name in names]


def seconds(file: Path) -> float:
    """Return the seconds that a result says it took, inf if it does not say."""
    return kept.read(file).get("seconds", float("inf"))


def command_of(about: Mapping[str, Any]) -> list[str] | None:
    """Return the script of a result, relative to the repository, and its arguments.

    None if several commands made it, or one that is no script of this folder.
    """
    python, *words = about["command"].split(" ", 1)
    if python != "python" or ";" in about["command"]:
        return None
    script, *arguments = shlex.split(words[0])
    found = sorted((sources.ROOT / "benchmarks").rglob(Path(script).name))
    return [str(found[0].relative_to(sources.ROOT)), *arguments] if found else None


def copy_of_commit(folder: Path) -> Path:
    """Check the last commit out below a folder, with the native code that is built here."""
    tree = folder / "tree"
    git("worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
    for built in (sources.ROOT / "simplex_jax").rglob("*.so"):
        shutil.copy2(built, tree / built.relative_to(sources.ROOT))
    # Data and peers lie beside the repository.
    (folder / "shared").symlink_to(sources.ROOT.parent / "shared")
    return tree


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=sources.ROOT, check=True)


def again(file: Path, tree: Path, more: str = "") -> bool:
    """Run the command of a result, and replace the result; return whether that went well."""
    command = command_of(kept.read(file)["about"])
    if command is None:
        print(f"{file.stem}: {kept.read(file)['about']['command']}: to be run by hand", flush=True)
        return False
    new, out = tree / "build" / file.name, tree / "build" / file.stem
    command += [*shlex.split(more), "--keep", str(new)]
    if Path(command[0]).parent.name == "papers":
        command += ["--out", str(out)]
    new.parent.mkdir(exist_ok=True)
    paths = [str(tree), *filter(None, [os.environ.get("PYTHONPATH")])]
    begun = time.perf_counter()
    with open(out.with_suffix(".log"), "w", encoding="utf-8") as log:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    print(f"{file.stem}: {time.perf_counter() - begun:.0f} s, exit status {done.returncode}")
    if done.returncode or not new.exists():
        print("\n".join(Path(log.name).read_text().splitlines()[-20:]), flush=True)
        return False
    rows, before = (len(kept.read(path).get("rows", ())) for path in (new, file))
    if rows < before:
        print(f"{file.stem}: {rows} rows in place of {before}, so it stays as it was", flush=True)
        return False
    shutil.move(new, file)
    figure = FIGURES / f"{file.stem}.png"
    if figure.exists() and (out / "figure.png").exists():
        shutil.move(out / "figure.png", figure)
    return True


if __name__ == "__main__":
    main()
