"""Fits with several numbers of topics, and the table and figure that compare them."""

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from simplex_jax._src.arguments import MOST_SEED
from simplex_jax._src.cli import console, options
from simplex_jax._src.models import files
from simplex_jax._src.models.records import Model
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import output

REPEATS = click.option(
    "--repeats",
    default=2,
    type=click.IntRange(1),
    show_default=True,
    help="Fits for each of several values of --topics, with successive seeds from --seed.",
)
HEADER = (
    *("topics", "heldout", "heldout_error", "coherence", "coherence_error"),
    *("stability", "intervals"),
)
TABLE, PICTURE = "comparison.csv", "comparison.svg"


class Compared(NamedTuple):
    """Fits with one number of topics."""

    entry: Any  # a `compare.Entry`: held-out measure and coherence of each fit
    stability: float  # similarity of topics between fits; NaN for a single fit
    intervals: float  # share of topics with an interval


def each_number(model: Model, measure: str, similarity: Callable) -> Callable[[Callable], Callable]:
    """Return a decorator that repeats `fit` for each of several numbers of topics.

    `measure` is the metric to compare; `similarity` is as for `matching.align`. A repeated command
    continues where it was interrupted.
    """

    def decorate(fit: Callable) -> Callable:
        @functools.wraps(fit)
        def each(
            out: Path | None, overwrite: bool, quiet: bool, repeats: int, **parameters: Any
        ) -> None:
            sizes = parameters["num_topics"]
            common = parameters | {"overwrite": overwrite, "quiet": quiet}
            if not isinstance(sizes, tuple):
                if options.typed(("repeats",)):
                    raise click.UsageError("--repeats requires several values of --topics")
                fit(out=out, **common)
                return
            names = ("resume", "dry_run", "distributed", "coordinator", "processes", "process")
            if typed := options.typed(names):
                flag = next(iter(typed.values()))
                raise click.UsageError(f"{flag} does not support several values of --topics")

            first_seed = parameters["seed"]
            seeds = range(first_seed, first_seed + repeats)
            if seeds[-1] > MOST_SEED:
                raise click.UsageError(f"--seed must be at most {MOST_SEED - repeats + 1}")
            runs = [_name(size, seed) for size in sizes for seed in seeds]
            directory = _directory(out, model.name, runs, overwrite)
            if parameters["holdout_seed"] is None:  # All fits predict the same documents.
                common["holdout_seed"] = first_seed

            def fit_size(size: int, seed: int, directory: Path) -> None:
                own = {"num_topics": size, "seed": seed, "one_of_several": True}
                fit(out=directory, **common | own)

            say, tell = (console.speaker(quiet, results=results) for results in (False, True))
            _fit_each(fit_size, model, sizes, seeds, directory, measure, similarity, say, tell)

        return each

    return decorate


def _name(size: int, seed: int) -> str:
    return f"topics-{size}-seed-{seed}"


def _directory(out: Path | None, command: str, runs: Sequence[str], overwrite: bool) -> Path:
    """Return the directory of the runs; it must hold nothing else, unless `overwrite`."""
    directory = out or Path(f"simplex-jax-{command}-topics")
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(f"output {str(directory)!r} is a file: give a directory")
    if directory.exists() and not overwrite:
        own = {*runs, TABLE, PICTURE}
        others = sorted(path.name for path in directory.iterdir() if path.name not in own)
        if others:
            raise FileExistsError(
                f"output directory {str(directory)!r} is not empty ({others[0]}): choose another "
                "one (--out), or pass --overwrite, which replaces the runs in it"
            )
    return directory


def _fit_each(
    fit: Callable[[int, int, Path], None],
    model: Model,
    sizes: Sequence[int],
    seeds: Sequence[int],
    directory: Path,
    measure: str,
    similarity: Callable,
    say: Callable[[str], None],
    tell: Callable[[str], None],
) -> None:
    """Call `fit(size, seed, directory)` for each size and seed, and compare the fits."""
    from simplex_jax._src.evaluate import plots  # slow to import, and most commands do not need it

    compared = []
    for size in sizes:
        runs = [directory / _name(size, seed) for seed in seeds]
        for seed, run in zip(seeds, runs, strict=True):
            say(f"== {counted(size, 'topic')}, seed {seed}")
            fit(size, seed, run)
        fits = [files.load(model, run) for run in runs]
        compared.append(_comparison(size, fits, measure, similarity))
    rows = ((row.entry.num_topics, *(f"{x:.6g}" for x in _numbers(row))) for row in compared)
    output.write_csv(directory / TABLE, HEADER, rows)
    axes = plots.comparison([row.entry for row in compared], heldout=measure.replace("_", " "))
    with output.replacing(directory / PICTURE) as file:
        axes[0].figure.savefig(file, format="svg")
    for line in _lines(compared, measure):
        tell(line)
    tell(f"written to {directory / TABLE} and {directory / PICTURE}")


def _comparison(size: int, fits: Sequence[Any], measure: str, similarity: Callable) -> Compared:
    """Compare the fits with one number of topics."""
    from simplex_jax._src.evaluate import compare, diagnostics, matching

    heldout = [fitted.metrics[-1].get(f"{measure}_average", np.nan) for fitted in fits]
    rough = [diagnostics.rough(fitted.diagnostics, fitted.shared).mean() for fitted in fits]
    stability = np.nan
    if len(fits) > 1:
        aligned = matching.align([fitted.topics for fitted in fits], similarity)
        stability = float(aligned.stability.mean())
    coherence = [np.nanmean(fitted.coherence) for fitted in fits]
    entry = compare.Entry(size, np.array(heldout), np.array(coherence))
    return Compared(entry, stability, 1 - float(np.mean(rough)))


def _numbers(row: Compared) -> tuple[float, ...]:
    """Return a row of the table, without the number of topics."""
    from simplex_jax._src.evaluate import compare

    return (
        *compare.estimate(row.entry.heldout),
        *compare.estimate(row.entry.coherence),
        row.stability,
        row.intervals,
    )


def _lines(compared: Sequence[Compared], measure: str) -> Iterator[str]:
    """Yield the table as lines of text."""
    yield f"{'topics':>6} {measure:>20} {'coherence':>16} {'stability':>10} {'with intervals':>15}"
    for row in compared:
        heldout, heldout_error, coherence, coherence_error, stability, intervals = _numbers(row)
        yield (
            f"{row.entry.num_topics:6d} {heldout:11.2f} ± {heldout_error:6.2f} "
            f"{coherence:7.3f} ± {coherence_error:6.3f} {stability:10.2f} {intervals:15.0%}"
        )
