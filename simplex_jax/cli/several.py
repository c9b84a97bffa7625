"""Runs of several numbers of topics, and the table and the picture that compare them."""

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from simplex_jax.cli import console, options
from simplex_jax.models import files
from simplex_jax.models.pipeline import Model
from simplex_jax.runtime import output

REPEATS = click.option(
    "--repeats",
    default=2,
    type=click.IntRange(1),
    show_default=True,
    help="Fits of each of several numbers of --topics, with seeds from --seed on.",
)
HEADER = (
    *("topics", "heldout", "heldout_error", "coherence", "coherence_error"),
    *("stability", "intervals"),
)
TABLE, PICTURE = "comparison.csv", "comparison.svg"


class Compared(NamedTuple):
    """Fits of one number of topics."""

    entry: Any  # a `compare.Entry`: held-out measure and coherence of each
    stability: float  # how alike topics are that the fits have in common; NaN for a single fit
    intervals: float  # share of topics with ten effective samples or more


def each_number(model: Model, measure: str, similarity: Callable) -> Callable[[Callable], Callable]:
    """Return what makes of a command that fits one number of topics one that may fit several."""

    def decorate(fit: Callable) -> Callable:
        @functools.wraps(fit)
        def each(
            out: Path | None, overwrite: bool, quiet: bool, repeats: int, **others: Any
        ) -> None:
            sizes = others["num_topics"]
            common = others | {"overwrite": overwrite, "quiet": quiet}
            if not isinstance(sizes, tuple):
                if options.typed(("repeats",)):
                    raise click.UsageError("--repeats is about several numbers of --topics")
                fit(out=out, **common)
                return
            alone = ("resume", "dry_run", "distributed", "coordinator", "processes", "process")
            if typed := options.typed(alone):
                flag = next(iter(typed.values()))
                raise click.UsageError(f"{flag} does not go with several numbers of --topics")

            first, directory = others["seed"], place(out, model.name, overwrite)
            if others["holdout_seed"] is None:  # All predict the same documents.
                common["holdout_seed"] = first

            def one(size: int, seed: int, directory: Path) -> None:
                fit(out=directory, **common | {"num_topics": size, "seed": seed})

            seeds = range(first, first + repeats)
            say = console.speaker(quiet)
            _fit_each(one, model, sizes, seeds, directory, measure, similarity, say)

        return each

    return decorate


def place(out: Path | None, command: str, overwrite: bool) -> Path:
    """Return the directory of the runs, which holds nothing else."""
    chosen = out or Path(f"simplex-jax-{command}-topics")
    if chosen.exists() and not chosen.is_dir():
        raise NotADirectoryError(f"output {str(chosen)!r} is a file: give a directory")
    if chosen.exists() and any(chosen.iterdir()) and not overwrite:
        raise FileExistsError(
            f"output directory {str(chosen)!r} is not empty: choose another one (--out), or pass "
            "--overwrite, which replaces the runs in it"
        )
    return chosen


def _fit_each(
    fit: Callable[[int, int, Path], None],
    model: Model,
    sizes: Sequence[int],
    seeds: Sequence[int],
    directory: Path,
    measure: str,
    similarity: Callable,
    say: Callable[[str], None],
) -> None:
    """Call `fit(size, seed, directory)` of all, in directories of their own, and compare them."""
    from simplex_jax.evaluate import plots  # heavy, and most commands do without

    found = []
    for size in sizes:
        runs = [directory / f"topics-{size}-seed-{seed}" for seed in seeds]
        for seed, run in zip(seeds, runs, strict=True):
            say(f"== {size} topics, seed {seed}")
            fit(size, seed, run)
        fits = [files.load(model, run) for run in runs]
        found.append(_compared(size, fits, measure, similarity))
    rows = ((one.entry.num_topics, *(f"{x:.6g}" for x in _numbers(one))) for one in found)
    output.write_csv(directory / TABLE, HEADER, rows)
    axes = plots.comparison([one.entry for one in found], heldout=measure.replace("_", " "))
    with output.replacing(directory / PICTURE) as file:
        axes[0].figure.savefig(file, format="svg")
    for line in _lines(found, measure):
        say(line)
    say(f"written to {directory / TABLE} and {directory / PICTURE}")


def _compared(size: int, fits: Sequence[Any], measure: str, similarity: Callable) -> Compared:
    from simplex_jax.evaluate import compare, diagnostics, matching

    heldout = [one.metrics[-1].get(f"{measure}_average", np.nan) for one in fits]
    rough = [diagnostics.rough(one.diagnostics, size).mean() for one in fits]
    stability = np.nan
    if len(fits) > 1:
        alike = matching.align([one.mean for one in fits], similarity)
        stability = float(alike.stability.mean())
    entry = compare.Entry(
        size, np.array(heldout), np.array([np.nanmean(one.coherence) for one in fits])
    )
    return Compared(entry, stability, 1 - float(np.mean(rough)))


def _numbers(one: Compared) -> tuple[float, ...]:
    """Return the numbers of a line of the table, after that of the topics."""
    from simplex_jax.evaluate import compare

    entry = one.entry
    return (
        *compare.estimate(entry.heldout),
        *compare.estimate(entry.coherence),
        one.stability,
        one.intervals,
    )


def _lines(found: Sequence[Compared], measure: str) -> Iterator[str]:
    yield f"{'topics':>6} {measure:>20} {'coherence':>16} {'stability':>10} {'with intervals':>15}"
    for one in found:
        held, held_error, coherent, coherent_error, stability, intervals = _numbers(one)
        yield (
            f"{one.entry.num_topics:6d} {held:11.2f} ± {held_error:6.2f} "
            f"{coherent:7.3f} ± {coherent_error:6.3f} {stability:10.2f} {intervals:15.0%}"
        )
