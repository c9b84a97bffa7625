"""The commands of topics in slices."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from simplex_jax._src import corpus as corpora
from simplex_jax._src.cli import console, counts, options
from simplex_jax._src.cli.commands import Commands, Other, Transform, load
from simplex_jax._src.cli.console import one_line_errors, usage
from simplex_jax._src.corpus import Corpus
from simplex_jax._src.evaluate.diagnostics import listed
from simplex_jax._src.models.dtm import MODEL, Fit, fitting
from simplex_jax._src.models.dtm.options import Arguments
from simplex_jax._src.models.dtm.slices import Sliced, sliced
from simplex_jax._src.models.pipeline import Progress
from simplex_jax._src.models.records import Plan
from simplex_jax._src.models.topics import engine, evaluation
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import directory as directories
from simplex_jax._src.runtime import output

_COLUMNS = {
    "time": click.option(
        "--time",
        metavar="COLUMN",
        help="Column of the times of documents: years, other numbers, or dates.",
    ),
    "by": click.option(
        "--by", metavar="COLUMN", help="Column of the groups of documents, such as a party."
    ),
    "metadata": click.option(
        "--metadata",
        type=options.PATH,
        help="File with the columns of --time and --by, a record for each document by its name: "
        "CSV, TSV or JSON lines.  [default: INPUT itself]",
    ),
    "metadata_id_column": click.option(
        "--metadata-id-column",
        metavar="COLUMN",
        help="Column of --metadata with the names of the documents; --id-column is that of INPUT.  "
        "[default: recognised, such as id or name]",
    ),
}
_SLICES = {
    "slices": click.option(
        "--slices",
        metavar="year|decade|NUMBER",
        help="Periods of the times: years, decades, or a number of periods with about equally many "
        "documents; 1 without --time and --by.  [default: year or decade, if that makes 2 to 30, "
        "else 20]",
    ),
    "predict": click.option(
        "--predict",
        metavar="TIME[,...]",
        help="Further times, after the last period or between two, at which to predict topics.",
    ),
}
_YEAR = "year"  # column of the embedded corpus


def _check(input: Path | None, reading: dict[str, Any], typed: dict[str, str]) -> None:
    """Raise a UsageError unless the options name columns; see `Commands`."""
    del typed
    timed = input is None or reading["time"] is not None
    if not timed and reading["by"] is None and reading["slices"] != "1":
        raise click.UsageError(
            "give --time COLUMN, --by COLUMN or both: the columns of the times and groups of the "
            "documents; or --slices 1, for topics that do not change and words in bursts"
        )
    unsliced = (None, "1") if reading["by"] is None else (None,)
    if not timed and (reading["slices"] not in unsliced or reading["predict"] is not None):
        raise click.UsageError("--slices and --predict are for documents with a --time")
    _check_metadata(reading)
    with usage():
        Arguments(slices=_number(reading["slices"]))


def _check_metadata(reading: dict[str, Any]) -> None:
    """Raise a UsageError for options of --metadata that would have no effect."""
    if reading["metadata"] is not None and reading["time"] is None and reading["by"] is None:
        raise click.UsageError(
            "--metadata is the file of the columns of --time and --by: give these"
        )
    if reading["metadata_id_column"] is not None and reading["metadata"] is None:
        raise click.UsageError("--metadata-id-column requires --metadata")


def _number(text: str | None) -> Any:
    return int(text) if text is not None and text.isdecimal() else text


def _read(input: Path | None, reading: dict[str, Any]) -> Sliced:
    if input is None:
        corpus = corpora.embedded_corpus()
        columns: dict[str, Sequence[Any]] = {"times": corpora.embedded_years()}
    else:
        corpus = counts.read(input, reading)
        columns = _columns(input, corpus, reading)
    predict = reading["predict"].split(",") if reading["predict"] is not None else ()
    return sliced(corpus, **columns, slices=_number(reading["slices"]), predict=tuple(predict))


def _columns(input: Path, corpus: Corpus, reading: dict[str, Any]) -> dict[str, Sequence[Any]]:
    """Return the times and groups of the documents of a file, by the arguments of `fit`."""
    named = {"times": reading["time"], "groups": reading["by"]}
    chosen = {argument: name for argument, name in named.items() if name is not None}
    if not chosen:
        return {}
    if reading["metadata"] is None:
        # In the documents' own file, records are in document order whatever their names.
        read = counts.read_columns(input, list(chosen.values()), reading).columns
    else:
        place = Path(reading["metadata"])
        coding = {name: reading[name] for name in counts.ENCODED}
        metadata = corpora.read_columns(
            place, list(chosen.values()), id_column=reading["metadata_id_column"], **coding
        )
        option = "--metadata-id-column"
        read = corpora.reordered(metadata, corpus.names, place, option).columns
    return {argument: read[name] for argument, name in chosen.items()}


def _announce(plan: Plan) -> str:
    settings, slices = plan.settings, plan.data.slices
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    number = len(slices.names)
    ends = ""
    if number > 1:
        named = slices.names[0], slices.names[-1]
        ends = f": {' to '.join(named)}" if slices.timed else f": {listed(slices.names)}"
    learned = ", ".join(
        f"{name} {'learned' if value == 'learn' else f'{value:g}'}"
        for name, value in (("alpha", settings.alpha), ("beta", settings.beta))
    )
    return (
        f"{counts.describe_plan(plan._replace(data=plan.data.corpus))}\n"
        f"{counted(settings.num_topics, 'topic')} in {counted(number, 'slice')}{ends}{chains}, "
        f"{learned}, seed {settings.seed}, {console.machine()}, "
        f"{engine.described(settings.engine)}"
    )


def _outcome(fitted: Fit) -> str:
    """Describe each topic in a line, the most prevalent first."""
    return "\n".join(fitted.lines())


def _following(fitted: Fit, source: dict[str, Any], directory: str) -> dict[str, str]:
    """Return commands that continue from a run; see `Commands`."""
    del fitted
    named = {flag: source["reading"].get(flag) for flag in ("time", "by")}
    if source["input"] is None:
        named["time"] = _YEAR
    columns = "".join(f" --{flag} {shlex.quote(name)}" for flag, name in named.items() if name)
    run = shlex.quote(directory)
    command = f"simplex-jax dtm transform --model {run} INPUT{columns} --out proportions.csv"
    return {"new texts": command}


def _other(
    fitted: Fit, path: Path, reading: dict[str, Any], model_reading: dict[str, Any]
) -> Other:
    """Return other documents over the vocabulary of a fit, with their slices."""
    _check_metadata(reading)
    mapped = counts.read_as(fitted.vocabulary, model_reading, path, reading)
    columns = _columns(path, mapped.corpus, reading)
    place = np.full(len(mapped.corpus.names), -1)
    if columns:
        place = fitted.slices.find(mapped.corpus.names, **columns)
    return Other(
        (mapped.corpus.counts, place), mapped.corpus.names, counts.describe_coverage(mapped)
    )


def _write(
    fitted: Fit, other: Other, out: Path, seed: int, every: bool, progress: Progress
) -> list[Path]:
    """Write the topic shares of other documents; see `Transform`."""
    del every
    part = fitting.in_slices(fitted, *other.data, seed=seed, progress=progress)
    directories.write_proportions(out, other.names, fitted.settings.num_topics, [part])
    return [out]


@click.command()
@click.argument("input", type=options.PATH)
@options.model_option
@options.seed_option
@options.compose(*counts.FILE_OPTIONS.values(), *_COLUMNS.values())
@options.common_options
@one_line_errors
def evaluate(input: Path, model: Path, seed: int, quiet: bool, **reading: Any) -> None:
    """Print how well the topics of a run predict documents, as JSON.

    The tokens of each document are split at random into two halves. Topic proportions are inferred
    from one half given the mean topics of the document's slice, by --time and --by, or of all
    slices without these; `perplexity` is exp of the mean negative log-probability of the tokens of
    the other half. Tokens of unknown words are ignored. Coherences are those of the ten top words,
    over all slices, in these documents.
    """
    fitted, earlier = load(MODEL, model)
    other = _other(fitted, input, reading, earlier)
    console.speaker(quiet)(other.coverage)
    documents, place = other.data
    measured = {
        "perplexity": fitting.held_out_perplexity(fitted, documents, place, seed=seed),
        "documents": documents.shape[0],
        **evaluation.measure_topics(fitted, documents),
    }
    click.echo(json.dumps(output.plain(measured), indent=2))


COMMANDS = Commands(
    model=MODEL,
    help="Find topics that change through time or between groups.\n\nDocuments have a "
    "time (--time COLUMN), a group (--by COLUMN) or both. " + counts.INPUT,
    needed="--time COLUMN",
    reading={**_COLUMNS, **_SLICES, **counts.READING},
    file_reading={**counts.FILE_OPTIONS, **_COLUMNS},
    check_reading=_check,
    of_embedded=tuple(_SLICES),
    read=_read,
    resolve_reading=counts.resolved,
    other=_other,
    shown=("perplexity", "tokens_per_second"),
    announce=_announce,
    outcome=_outcome,
    transform=Transform(
        help="""Infer the topic proportions of documents, and write them.

        With --time or --by, a document has the topics of its slice, or of that whose time is the
        nearest; without them, the means over all slices. INPUT has the documents, in any format
        that `simplex-jax dtm` reads. Words are matched to those of the model; tokens of other words
        are left out. The file has the arrays `proportions` [D, K], `documents` (their names) and
        `error` (estimated Monte-Carlo error of each document's most uncertain proportion). With
        --out NAME.csv it is a table with one document a line.
        """,
        ending="doc_topics.npz",
        write=_write,
    ),
    evaluate=evaluate,
    following=_following,
    memory=fitting.memory,
    remedy="give fewer --topics, --chains or --slices, or a smaller vocabulary (--max-vocabulary)",
)
