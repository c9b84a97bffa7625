"""The commands of the Dirichlet-process mixture."""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from simplex_jax._src import corpus as corpora
from simplex_jax._src.cli import console, counts, options
from simplex_jax._src.cli.commands import Commands, Other, Transform, load
from simplex_jax._src.cli.console import one_line_errors
from simplex_jax._src.corpus import Corpus, Reading
from simplex_jax._src.corpus.files import as_path
from simplex_jax._src.corpus.formats import registry
from simplex_jax._src.corpus.formats.tables import read_frame
from simplex_jax._src.corpus.frames import Frame
from simplex_jax._src.models.dpm import MODEL, Fit, fitting, tables, variables
from simplex_jax._src.models.dpm.clusters import assign
from simplex_jax._src.models.dpm.data import Data, Given, as_data, whole_weights
from simplex_jax._src.models.dpm.report import (
    describe_clusters,
    number_of_clusters,
    variables_of,
    without_held_out,
)
from simplex_jax._src.models.dpm.variables import Columns, Words
from simplex_jax._src.models.pipeline import Progress
from simplex_jax._src.models.records import Plan
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import directory, output

HELP = """Find clusters of the rows of INPUT, and their number.

INPUT is a table (.csv or .tsv, see --format) of categories, numbers and counts (see --kind), or any
corpus that `simplex-jax lda` reads, whose rows are counts; - is standard input. Without INPUT,
paragraphs of the embedded corpus are clustered. If INPUT has the name of one of the commands below,
write ./NAME.

Ctrl-C or a termination signal ends a run early: results are written, and --resume continues it.
"""

_TABLE = "table"
FILE_OPTIONS = counts.FILE_OPTIONS | {
    "format": counts.format_option(
        "counts",
        default="recognised; a .csv or .tsv is read as a table, see --kind",
        more={_TABLE: "a table of columns, .csv or .tsv"},
    )
}
DROP_COLUMN = click.option(
    "--drop-column",
    multiple=True,
    metavar="NAME",
    help="A column to leave out (tables); may be repeated.",
)
_KINDS = {"number_column": "number", "category_column": "category", "count_column": "count"}
TABLE_OPTIONS = {
    "drop_column": DROP_COLUMN,
    "kind": click.option(
        "--kind",
        type=click.Choice(["categories", "mixed"]),
        help="Kind of the columns of a table: categories, or a mix of numbers, categories and "
        "counts. In a mixed table text is a category, and other columns are numbers; columns of "
        "nonnegative integers must be named.  [default: mixed if a column has negative numbers or "
        "fractions, or is named; else categories]",
    ),
    "weights": click.option(
        "--weights",
        metavar="COLUMN",
        help="A column of positive whole numbers that says how many equal rows each row stands for "
        "(tables). The result is as of a table with each row repeated as often.",
    ),
} | {
    name: click.option(
        f"--{name.replace('_', '-')}",
        name,
        multiple=True,
        metavar="NAME",
        help=f"A column that is a {kind} (mixed tables); may be repeated.",
    )
    for name, kind in _KINDS.items()
}
_OF_TABLES = {"format", "id_column", *counts.ENCODED, *TABLE_OPTIONS}
_MOST_SHOWN = 30
_MOST_CODES = 20
"""A column of more different whole numbers than this may be a number or a count."""


def _holds_columns(path: Path | None, format: str | None) -> bool:
    """Tell whether an input is a table of columns, by `format` or by its file name.

    Tables with a count of a word in a document in each row have counts, by their columns.
    """
    if path is None or format is not None:
        return format == _TABLE
    return registry.recognised(as_path(path), "counts").name in ("csv", "tsv")


def _check_reading(input: Path | None, reading: dict[str, Any], typed: dict[str, str]) -> None:
    table = _holds_columns(input, reading["format"])
    for name, flag in typed.items():
        if name in _KINDS and reading["kind"] == "categories":
            raise click.UsageError(f"{flag} is for mixed tables: leave --kind categories out")
        if table and name not in _OF_TABLES:
            raise click.UsageError(
                f"{flag} is for counts, and INPUT is a table of columns; to count the words of a "
                "column of text, give --format csv or tsv"
            )
        if not table and name in TABLE_OPTIONS:
            raise click.UsageError(f"{flag} is for tables of columns, and INPUT has counts")
    named = [column for name in _KINDS for column in reading[name]]
    if twice := [column for column in named if named.count(column) > 1]:
        raise click.UsageError(f"column {twice[0]!r} is named twice: give it one kind")


def _frame(path: Path, reading: dict[str, Any], variables: Collection[str] = ()) -> Frame:
    """Read a table; `variables` names columns known to be variables."""
    encoded = {name: reading[name] for name in counts.ENCODED}
    options = Reading(id_column=reading["id_column"], **encoded)
    return read_frame(as_path(path), options, reading.get("drop_column", ()), variables)


def _looks_mixed(frame: Frame) -> bool:
    """Tell whether a table has a column of numbers that cannot be codes of categories.

    Raises:
        ValueError: There are columns of whole numbers that may be codes or not.
    """
    measured, whole = [], []
    for name, column in frame.columns.items():
        if isinstance(column, np.ndarray) and len(seen := np.unique(column[~np.isnan(column)])):
            if (seen < 0).any() or (seen != np.floor(seen)).any():
                measured.append(name)
            else:
                whole.append((name, len(seen)))
    unclear = [name for name, count in whole if measured or count > _MOST_CODES]
    if not unclear:
        return bool(measured)
    because = f", since {measured[0]!r} has numbers" if measured else ""
    names = ", ".join(map(repr, unclear[:_MOST_CODES]))
    raise ValueError(
        f"column{'s' if len(unclear) > 1 else ''} {names}: whole numbers may be numbers, "
        f"counts or codes of categories. Say which{because}: --number-column {unclear[0]!r}, "
        "--count-column or --category-column for each; or --kind categories, for which every "
        "different number is a category"
    )


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in errors about its columns."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read(input: Path | None, reading: dict[str, Any]) -> Corpus | Data:
    if input is None:
        return corpora.embedded_corpus()
    if not _holds_columns(input, reading["format"]):
        return counts.read(input, reading)
    kinds = {column: kind for name, kind in _KINDS.items() for column in reading[name]}
    frame = _frame(input, reading, {*kinds, reading["weights"]})
    weights = None
    if reading["weights"] is not None:
        frame, weights = _weights(input, frame, reading["weights"])
    numbers = Frame(variables.of_texts(frame.columns, kinds), frame.names)
    with _naming(input):
        mixed = reading["kind"] == "mixed" or kinds
        if reading["kind"] != "categories" and (mixed or _looks_mixed(numbers)):
            return as_data(Given(numbers, None, kinds, weights))
        if reading["kind"] is None:
            for name, column in numbers.columns.items():
                if not isinstance(column, np.ndarray):
                    variables.warn_of_numbers(name, [cell for cell in column if cell is not None])
        return as_data(Given(frame, None, dict.fromkeys(frame.columns, "category"), weights))


def _weights(path: Path, frame: Frame, name: str) -> tuple[Frame, np.ndarray]:
    """Return a table without the column of weights, and these."""
    columns = dict(frame.columns)
    with _naming(path):
        if name not in columns:
            raise ValueError(f"there is no column {name!r} (--weights)")
        cells = variables.numbers_of(name, columns.pop(name), "number")
        if not columns:
            raise ValueError(f"there is no column besides {name!r} (--weights)")
        return Frame(columns, frame.names), whole_weights(cells, frame.names)


def _resolve(input: str | None, reading: dict[str, Any]) -> dict[str, Any]:
    if input is not None and _holds_columns(Path(input), reading["format"]):
        return reading | {"format": _TABLE}
    return counts.resolved(input, reading)


def _columns(variables: Words | Columns) -> str:
    """Describe the words or columns of the rows."""
    if isinstance(variables, Words):
        return counted(len(variables.vocabulary), "word")
    names = {"number": "numbers", "category": "categories", "count": "counts"}
    places = [(variables.places(kind), name) for kind, name in names.items()]
    return "columns " + " and ".join(
        f"of {name} ({_listed([variables.columns[place] for place in own])})"
        for own, name in places
        if own
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _announce(plan: Plan) -> str:
    settings, facts = plan.settings, fitting.describe(plan)
    empty = f", {facts['empty']:,} without an observation" if facts["empty"] else ""
    if "weighted" in facts:
        empty += f"; {facts['weighted']:,} by their weights"
    columns = _columns(plan.data.variables)
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    alpha = "learned" if isinstance(settings.alpha, str) else f"{settings.alpha:g}"
    return (
        f"{counted(facts['rows'], 'row')} ({plan.held:,} held out{empty}), "
        f"{facts['observations']:,} observations, {columns}\n"
        f"{settings.sampler} slice sampler with {settings.counts} counts{chains}, alpha {alpha}, "
        f"{counted(settings.batch_size, 'row')} a batch, seed {settings.seed}, {console.machine()}"
    )


def _outcome(fitted: Fit) -> str:
    """Describe the clusters, one line each, the largest first."""
    variables, clusters = variables_of(fitted), fitted.clusters
    lines = [number_of_clusters(fitted) + without_held_out(fitted)]
    lines += [
        f"{cluster:4d} {clusters.sizes[cluster]:8,.0f} rows ({clusters.lower[cluster]:,.0f} to "
        f"{clusters.upper[cluster]:,.0f})  " + ", ".join(words)
        for cluster, words in enumerate(describe_clusters(variables, clusters, 6)[:_MOST_SHOWN])
    ]
    if (more := len(clusters.sizes) - _MOST_SHOWN) > 0:
        rest = clusters.sizes[_MOST_SHOWN:].sum()
        lines.append(f"and {more} clusters of {rest:,.0f} rows in all, see clusters.csv")
    numbers = fitted.num_clusters_posterior
    lines.append(
        f"clusters in a sample: {min(numbers)} to {max(numbers)}; "
        f"alpha {fitted.alpha:.3g}" + (f" (sd {fitted.alpha_sd:.2g})" if fitted.alpha_sd else "")
    )
    capacity, initial = fitted.state.occupancy.shape[-1], fitted.settings.capacity
    if capacity > initial:
        lines.append(f"room for {capacity} sticks, of at least {initial} to begin with")
    return "\n".join(lines)


def _other(fitted: Fit, path: Path, reading: dict[str, Any], earlier: dict[str, Any]) -> Other:
    variables = variables_of(fitted)
    if isinstance(variables, Words):
        if _holds_columns(path, reading["format"]):
            raise ValueError(
                f"{path}: this is a table of columns, and the model is of counts: give counts, or "
                "--format csv or tsv for a column of text"
            )
        mapped = counts.read_as(variables.vocabulary, earlier, path, reading)
        rows = variables.rows(mapped.corpus.counts)
        return Other(rows, mapped.corpus.names, counts.describe_coverage(mapped))
    of_counts = FILE_OPTIONS.keys() - _OF_TABLES
    if reading["format"] not in (None, _TABLE):
        of_counts |= {"format"}
    if refused := options.typed(of_counts):
        flag = next(iter(refused.values()))
        raise click.UsageError(f"{flag} is for counts, and the model is of a table of columns")
    frame = _frame(path, reading, variables.columns)
    # The column that named the rows of the run, if the file has it and no other is given.
    if reading["id_column"] is None and (name := earlier.get("id_column")) in frame.columns:
        frame = _frame(path, reading | {"id_column": name}, variables.columns)
    with _naming(path):
        table = variables.table(frame)
    observed = sum(cell is not None for name in variables.columns for cell in frame.columns[name])
    unknown = observed - int(np.count_nonzero(~np.isnan(table)))
    about = (
        f"{counted(len(frame.names), 'row')}, {counted(table.size, 'field')}: {unknown:,} with a "
        "value unknown to the model are treated as missing"
    )
    return Other(variables.rows(table), frame.names, about)


def _transform(
    fitted: Fit, other: Other, out: Path, seed: int, every: bool, progress: Progress
) -> list[Path]:
    assigned = assign(fitted.clusters.samples, fitted.family, other.data)
    tables.write_rows(out, other.names, assigned.proportions)
    if not every:
        return [out]
    proportions, count = out.with_suffix(".npz"), assigned.proportions.shape[1]
    directory.write_proportions(proportions, other.names, count, [(assigned.proportions, None)])
    return [out, proportions]


@click.command()
@click.argument("input", type=options.PATH)
@options.model_option
@options.compose(*FILE_OPTIONS.values())
@options.common_options
@one_line_errors
def evaluate(input: Path, model: Path, quiet: bool, **reading: Any) -> None:
    """Print how well the mixtures of a run predict rows, as JSON.

    `log_predictive` is the mean over the rows of their log predictive density, averaged over the
    samples of the run and including new clusters; `log_predictive_samples` has the mean, the least
    and the largest value of single samples. The multinomial coefficient of counts is omitted; in a
    mixed table numbers are standardised, and counts relative to the Poisson distribution of their
    mean. `new` is the mean probability that a row is the first of a new cluster.
    """
    fitted, earlier = load(MODEL, model)
    other = _other(fitted, input, reading, earlier)
    console.speaker(quiet)(other.coverage)
    assigned = assign(fitted.clusters.samples, fitted.family, other.data)
    each, average = assigned.log_densities.mean(axis=1), assigned.log_predictive
    spread = float(average.std(ddof=1) / np.sqrt(len(average))) if len(average) > 1 else None
    measures = {
        "log_predictive": float(average.mean()),
        "standard_error": spread,
        "rows": len(average),
        "samples": len(each),
        "log_predictive_samples": {
            "mean": float(each.mean()),
            "least": float(each.min()),
            "largest": float(each.max()),
        },
        "new": float(assigned.new.mean()),
    }
    click.echo(json.dumps(output.plain(measures), indent=2))


COMMANDS = Commands(
    model=MODEL,
    help=HELP,
    reading={**FILE_OPTIONS, **TABLE_OPTIONS, **counts.VOCABULARY_OPTIONS},
    file_reading=FILE_OPTIONS,
    check_reading=_check_reading,
    read=_read,
    resolve_reading=_resolve,
    other=_other,
    shown=("log_predictive", "num_clusters", "alpha", "rows_per_second"),
    announce=_announce,
    outcome=_outcome,
    transform=Transform(
        help="""Write the clusters of the rows of INPUT, given the run in --model.

        Each row gets its most probable cluster, with the probability. Cluster -1 stands for all
        clusters that are not shown and new ones, if these together are more probable. Values
        unknown to the model are ignored, and a row without known values gets the prevalence of
        the clusters in all rows. --all also writes the probabilities of all clusters: the arrays
        `proportions` [n, C] and `documents` (names of the rows), as in the row_clusters.npz of a
        run.
        """,
        ending="clusters.csv",
        write=_transform,
        every="Also write the probabilities of all clusters, to an .npz.",
        random=False,
    ),
    evaluate=evaluate,
)
