"""The command `effects`: regression of topic shares on document covariates."""

import dataclasses
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from simplex_jax._src import corpus as corpora
from simplex_jax._src.cli import console, counts, options
from simplex_jax._src.cli.commands import load
from simplex_jax._src.cli.declared import declared_options
from simplex_jax._src.cli.errors import one_line_errors, usage
from simplex_jax._src.corpus import Corpus
from simplex_jax._src.corpus.files import STANDARD_INPUT
from simplex_jax._src.models import files
from simplex_jax._src.models.lda import MODEL, regression
from simplex_jax._src.models.lda.commands.inputs import read
from simplex_jax._src.models.lda.regression import Question
from simplex_jax._src.models.lda.shares import kept
from simplex_jax._src.models.topics import data
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import directory as directories
from simplex_jax._src.runtime import output, saved

_BY = click.option(
    "--by",
    required=True,
    multiple=True,
    metavar="COLUMN",
    help="Column to regress on; repeat it to regress on several together.",
)


@click.command()
@click.argument("input", required=False, type=options.PATH)
@options.model_option
@_BY
@click.option(
    "--metadata",
    type=options.PATH,
    help="File with the columns, a record for each document by its name: CSV, TSV or JSON lines.  "
    "[default: INPUT itself]",
)
@click.option("--id-column", help="Its column of names.  [default: recognised, such as id or name]")
@options.together(*declared_options(Question))
@click.option("--out", type=options.PATH, default=Path("effects.csv"), show_default=True)
@click.option("--plot", type=options.PATH, help="Picture, .svg, .png or .pdf.  [default: OUT.svg]")
@click.option(
    "--report", type=options.PATH, help="Also write a report of the run that shows the mean shares."
)
@click.option("--overwrite", is_flag=True, help="Replace the files.")
@options.common_options
@one_line_errors
def effects(
    input: Path | None,
    model: Path,
    by: tuple[str, ...],
    metadata: Path | None,
    id_column: str | None,
    out: Path,
    plot: Path | None,
    report: Path | None,
    overwrite: bool,
    quiet: bool,
    **question_options: Any,
) -> None:
    """Regress the topic shares of the documents of a run on covariates.

    Groups, such as a party, get a mean share each and differences from the first group. Numbers and
    dates get a line, a curve (--smooth) or groups (--every 10: decades). Each share is regressed on
    all columns together, over the draws of the topics that the run kept (--keep-samples) and draws
    of the shares given these. OUT has topic, term, kind, mean, sd and the interval.

    Columns come from the documents' own file, CSV, TSV, JSON lines or AnnData, or from --metadata;
    the embedded corpus has a column year. Give INPUT only if the documents of the run have moved.
    """
    say, picture = console.speaker(quiet), plot or out.with_suffix(".svg")
    written = (out, picture, *([report] if report else []))
    for path in written:
        options.target(path, path, "", overwrite)
    if picture.suffix not in _PICTURES:
        raise click.UsageError(f"--plot {picture}: give a name in {', '.join(_PICTURES)}")
    if len({path.absolute() for path in written}) < len(written):
        raise click.UsageError(
            f"{', '.join(map(str, written))}: give --out, --plot and --report different names"
        )
    if id_column is not None and metadata is None:
        raise click.UsageError("--id-column requires --metadata")
    with usage():
        question = Question(by=by, samples=model / directories.SAMPLES, **question_options)
    fitted, reading = load(MODEL, model)
    if not reading:
        raise ValueError(
            f"{model}: this fit was saved in Python and does not say how to read its documents: "
            "call lda.effects there"
        )
    kept(fitted, question.samples)
    place, documents = _documents(model, input, reading)
    for path in written:
        if place is not None and path.exists() and path.samefile(place):
            raise FileExistsError(
                f"{path} has the documents of the run: choose another name to write to"
            )
    columns = _columns(place, documents.names, by, metadata, id_column, reading)
    progress = console.Stages(quiet)
    estimates = regression.effects(fitted, documents, columns, question, progress=progress)
    for warning in estimates.warnings:
        say(f"warning: {warning}")
    rows = (
        (f"{x:.6g}" if isinstance(x, float) else x for x in row.values())
        for row in estimates.rows()
    )
    # Drawn before the table is written, so that a failure leaves no partial output.
    image = io.BytesIO()
    estimates.plot().savefig(image, format=picture.suffix[1:])
    output.write_csv(
        out, ["topic", "term", "kind", "mean", "sd", "lower", "upper"], map(tuple, rows)
    )
    with output.replacing(picture) as file:
        file.write(image.getvalue())
    if report is not None:
        files.report(MODEL, dataclasses.replace(fitted, effects=list(estimates.rows())), report)
    draws = counted(estimates.draws, "draw")
    say(f"{counted(estimates.documents, 'document')}, {draws} of their shares")
    tell = console.speaker(quiet, results=True)
    tell(f"written to {out} and {picture}" + (f", and {report}" if report else ""))


_PICTURES = (".svg", ".png", ".pdf")


def _documents(
    model: Path, input: Path | None, reading: dict[str, Any]
) -> tuple[Path | None, Corpus]:
    """Return the path of the documents of a run (None if embedded) and the documents."""
    config = saved.load_config(model, MODEL.name)
    if not set(counts.FILE_OPTIONS) <= reading.keys():
        raise saved.RunError(
            f"{model / files.CONFIG}: does not say how the documents were read; fit again"
        )
    path = input or (config["source"]["input"] and Path(config["source"]["input"]))
    if path == STANDARD_INPUT:
        raise ValueError("the run read standard input: give a file of its documents as INPUT")
    corpus = read(path, reading)
    if data.digest(corpus) != config["corpus"].get("digest"):
        raise ValueError(
            f"{path}: these are not the data of the run in {model} (different digests): put them "
            "back, or name them as INPUT if they have moved"
        )
    return path, data.in_memory(corpus)


def _columns(
    place: Path | None,
    names: Sequence[str],
    by: tuple[str, ...],
    metadata: Path | None,
    id_column: str | None,
    reading: dict[str, Any],
) -> Mapping[str, Sequence[Any]]:
    """Return columns in the order of the documents."""
    if metadata is not None:
        return corpora.read_columns(metadata, by, names, id_column=id_column).columns
    if place is None:
        return {"year": corpora.embedded_years()}
    if reading["stream"]:
        raise ValueError(f"{place} is a stored corpus, which has no columns: give --metadata")
    # In the documents' own file, records are in document order whatever their names.
    return counts.read_columns(place, by, reading).columns
