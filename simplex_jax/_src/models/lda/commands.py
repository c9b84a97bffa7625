"""The commands of LDA."""

import dataclasses
import io
import json
import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import scipy.sparse as sp

from simplex_jax._src import corpus as corpora
from simplex_jax._src.cli import console, counts, edits, options, single_cells
from simplex_jax._src.cli.commands import Commands, load
from simplex_jax._src.cli.console import one_line_errors, usage
from simplex_jax._src.cli.options import declared_options
from simplex_jax._src.corpus import Corpus, Reading, store, vocabulary
from simplex_jax._src.corpus.files import STANDARD_INPUT
from simplex_jax._src.corpus.store import Stored
from simplex_jax._src.evaluate import covariates, matching
from simplex_jax._src.models import files
from simplex_jax._src.models.lda import MODEL, Fit, correlations, feed, memory, regression, seeds
from simplex_jax._src.models.lda.correlations import Pairs
from simplex_jax._src.models.lda.draws import DrawOptions, load_samples, shares_of
from simplex_jax._src.models.lda.model import FIRST
from simplex_jax._src.models.lda.options import on_disk
from simplex_jax._src.models.lda.probability import left_to_right
from simplex_jax._src.models.lda.regression import Question
from simplex_jax._src.models.lda.report import CORRELATIONS, write_correlations
from simplex_jax._src.models.pipeline import Progress
from simplex_jax._src.models.records import Plan
from simplex_jax._src.models.topics import data, editing, engine
from simplex_jax._src.models.topics.evaluation import (
    measure_completion,
    measure_topics,
    measure_windows,
)
from simplex_jax._src.models.topics.proportions import shards
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import directory as directories
from simplex_jax._src.runtime import output, processes

STREAM = click.option(
    "--stream",
    is_flag=True,
    help="Read batches of INPUT, made by `store`, from the disk: for corpora larger than memory.",
)


def check_reading(input: Path | None, reading: dict[str, Any], typed: dict[str, str]) -> None:
    """Raise a UsageError if a reading option would have no effect; see `Commands`."""
    others = [flag for name, flag in typed.items() if name != "stream"]
    if reading["stream"] and others:
        raise click.UsageError(f"{others[0]} does not go with --stream, which takes INPUT as it is")


def read(input: Path | None, reading: dict[str, Any]) -> Corpus | Stored:
    """Return the corpus of an input, in memory or left on disk; see `Commands`."""
    if input is None:
        return corpora.embedded_corpus()
    # Several processes each read their part of a stored corpus.
    stored = reading["stream"] or (processes.joined() and store.is_stored(input))
    corpus = store.open(input) if stored else counts.read(input, reading)
    return corpus


def resolve_reading(input: str | None, reading: dict[str, Any]) -> dict[str, Any]:
    """Return the reading options, with those that depend on the input; see `Commands`."""
    return reading if reading["stream"] else counts.resolved(input, reading)


_BY = click.option(
    "--by",
    required=True,
    multiple=True,
    metavar="COLUMN",
    help="Column to regress on; repeat it to regress on several together.",
)


def _outputs(table: str, shown: str) -> tuple[Callable[[Any], Any], ...]:
    """Return the options of a command that writes a table, its picture and the report."""
    report = f"Report that shows {shown}.  [default: the run's own, which keeps them]"
    return (
        click.option("--out", type=options.PATH, help=f"Table, .csv.  [default: {table}]"),
        click.option(
            "--plot", type=options.PATH, help="Picture, .svg, .png or .pdf.  [default: OUT.svg]"
        ),
        click.option("--report", type=options.PATH, help=report),
        click.option(
            "--overwrite", is_flag=True, help="Replace the files of --out, --plot and --report."
        ),
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
@click.option(
    "--id-column",
    help="Column of --metadata with the names of the documents.  [default: recognised, such as id "
    "or name]",
)
@options.compose(
    *(
        options.declared_option(Reading, name, getattr(Reading, name), "--metadata")
        for name in counts.ENCODED
    )
)
@options.compose(*declared_options(Question))
@options.compose(*_outputs("effects_COLUMNS.csv", "the mean proportions"))
@options.common_options
@one_line_errors
def effects(
    input: Path | None,
    model: Path,
    by: tuple[str, ...],
    metadata: Path | None,
    id_column: str | None,
    encoding: str,
    encoding_errors: str,
    out: Path | None,
    plot: Path | None,
    report: Path | None,
    overwrite: bool,
    quiet: bool,
    **question_options: Any,
) -> None:
    """Regress topic proportions on columns of the documents.

    Groups, such as a party, get a mean each and differences from the first group. Numbers and
    dates get a line, a curve (--smooth) or groups (--every 10: decades). Each proportion is
    regressed on all columns together, over the draws of the topics that the run kept
    (--keep-samples) and draws of the proportions given these. OUT has topic, column, term,
    kind, mean, sd and the interval. The report of the run shows the mean proportions, also of other
    columns for which this was called before.

    Columns come from the documents' own file, CSV, TSV, JSON lines or AnnData, or from --metadata;
    the embedded corpus has a column year. Give INPUT only if the documents of the run have moved.
    """
    say, out = console.speaker(quiet), out or _named_by(by)
    picture = plot or out.with_suffix(".svg")
    written = _checked_outputs(out, picture, report, model, overwrite)
    typed = options.typed(("id_column", *counts.ENCODED))
    if typed and metadata is None:
        raise click.UsageError(f"{next(iter(typed.values()))} requires --metadata")
    with usage():
        question = Question(by=by, samples=model / directories.SAMPLES, **question_options)
    fitted, reading = _with_samples(model, question.samples)
    place, documents = _documents(model, input, reading)
    _check_apart(written, place)
    if metadata is None:
        columns = _columns(place, by, reading)
    else:
        table = corpora.read_columns(
            metadata,
            by,
            id_column=id_column,
            encoding=encoding,
            encoding_errors=encoding_errors,
        )
        columns = corpora.reordered(table, documents.names, metadata).columns
    progress = console.Stages(quiet)
    estimates = regression.effects(fitted, documents, columns, question, progress=progress)
    for warning in estimates.warnings:
        say(f"warning: {warning}")
    header = ["topic", "column", "term", "kind", "mean", "sd", "lower", "upper"]
    rows = (
        [f"{x:.6g}" if isinstance(x, float) else x for x in map(row.get, header)]
        for row in estimates.rows()
    )
    image = _drawn(estimates.plot(), picture)
    output.write_csv(out, header, rows)
    with output.replacing(picture) as file:
        file.write(image)
    draws = counted(estimates.draws, "draw")
    say(f"{counted(estimates.documents, 'document')}, {draws} of their proportions")

    def added(fit: Fit) -> Fit:
        known = regression.joined(fit.effects, list(estimates.rows()))
        return dataclasses.replace(fit, effects=known)

    shown = _reported(fitted, "effects", added, model, report)
    console.speaker(quiet, results=True)(f"written to {out} and {picture}, and shown in {shown}")


def _named_by(columns: Sequence[str]) -> Path:
    """Return the default name of the table of effects of some columns."""
    safe = (re.sub(r"[^\w.-]+", "-", column)[:_LONGEST_NAME] for column in columns)
    return Path("_".join(["effects", *safe]) + ".csv")


_LONGEST_NAME = 40  # letters of a column in the name of a file


def _reported(
    fitted: Fit, results: str, added: Callable[[Fit], Fit], run: Path, report: Path | None
) -> Path:
    """Write the report of a run with added results, and return its path.

    Unless it is written elsewhere, the run keeps the results.
    """
    if report is None:
        return files.report(MODEL, files.amend(MODEL, run, results, added), run)
    return files.report(MODEL, added(fitted), report)


def _with_samples(model: Path, samples: Path) -> tuple[Fit, dict[str, Any]]:
    """Return the fit of a run that kept samples, and the options with which its data were read."""
    fitted, reading = load(MODEL, model)
    if not reading:
        raise ValueError(
            f"{model}: this fit was saved in Python and does not say how to read its documents: "
            "call lda.effects there, or its methods"
        )
    load_samples(fitted, samples)
    return fitted, reading


_PICTURES = (".svg", ".png", ".pdf")


def _checked_outputs(
    out: Path, picture: Path, report: Path | None, run: Path, overwrite: bool
) -> tuple[Path, ...]:
    """Return the files that a command is to write, which can be written."""
    written = (out, picture, *([report] if report else []))
    for path in written:
        options.target(path, path, "", overwrite)
    if report is None and run.is_dir():  # A run's own report may always be replaced.
        options.target(run / files.REPORT, run, "", overwrite=True)
    if picture.suffix not in _PICTURES:
        raise click.UsageError(f"--plot {picture}: give a name in {', '.join(_PICTURES)}")
    if len({path.absolute() for path in written}) < len(written):
        raise click.UsageError(
            f"{', '.join(map(str, written))}: give --out, --plot and --report different names"
        )
    return written


def _check_apart(written: Sequence[Path], place: Path | None) -> None:
    """Raise a FileExistsError if the documents are in a file that is to be written."""
    for path in written:
        if place is not None and path.exists() and path.samefile(place):
            raise FileExistsError(
                f"{path} has the documents of the run: choose another name to write to"
            )


def _drawn(figure: Any, picture: Path) -> bytes:
    """Return a picture, before a table is written: a failure then leaves no partial output."""
    image = io.BytesIO()
    figure.savefig(image, format=picture.suffix[1:])
    return image.getvalue()


@click.command()
@click.argument("input", required=False, type=options.PATH)
@options.model_option
@options.compose(*declared_options(DrawOptions))
@options.compose(*_outputs(CORRELATIONS, "the correlations"))
@options.common_options
@one_line_errors
def correlate(
    input: Path | None,
    model: Path,
    out: Path | None,
    plot: Path | None,
    report: Path | None,
    overwrite: bool,
    quiet: bool,
    **draw_options: Any,
) -> None:
    """Find which topics rise and fall together over the documents.

    OUT has each pair of topics with its correlation and interval. The correlation is that of the
    proportion of one topic in a document with the share of the other in the rest of it: 0 for
    topics that have nothing to do with each other, whose plain correlation is negative, because
    proportions sum to 1. Intervals are over the draws of the topics that the run kept
    (--keep-samples) and draws of the proportions given these.

    Give INPUT only if the documents of the run have moved.
    """
    say, out = console.speaker(quiet), out or Path(CORRELATIONS)
    picture = plot or out.with_suffix(".svg")
    written = _checked_outputs(out, picture, report, model, overwrite)
    with usage():
        asked = DrawOptions(samples=model / directories.SAMPLES, **draw_options)
    fitted, reading = _with_samples(model, asked.samples)
    place, documents = _documents(model, input, reading)
    _check_apart(written, place)
    result = correlations.correlate(fitted, documents, asked, console.Stages(quiet))
    for warning in result.warnings:
        say(f"warning: {warning}")
    records = list(result.rows())
    image = _drawn(result.plot(), picture)
    write_correlations(out, fitted, records)
    with output.replacing(picture) as file:
        file.write(image)
    say(f"{counted(result.documents, 'document')}, {counted(result.draws, 'draw')}")

    def added(fit: Fit) -> Fit:
        return dataclasses.replace(fit, correlations=records)

    shown = _reported(fitted, "correlations", added, model, report)
    console.speaker(quiet, results=True)(f"written to {out} and {picture}, and shown in {shown}")


_documents = partial(counts.documents_of, MODEL, read)


def _columns(
    place: Path | None, by: tuple[str, ...], reading: dict[str, Any]
) -> Mapping[str, Sequence[Any]]:
    """Return columns of the documents' own file."""
    if place is None:
        return {"year": corpora.embedded_years()}
    if reading["stream"]:
        raise ValueError(f"{place} is a stored corpus, which has no columns: give --metadata")
    # Its records are in document order whatever their names.
    return counts.read_columns(place, by, reading).columns


def _announce(plan: Plan) -> str:
    size, settings = data.size_of(plan.data), plan.settings
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    alpha = _prior("alpha", settings.alpha, settings.num_topics, "topic")
    beta = _prior("beta", settings.beta, size.words, "word")
    lines = [
        counts.describe_plan(plan),
        f"{counted(settings.num_topics, 'topic')} by {settings.sampler} with {settings.counts} "
        f"counts{chains}, alpha {alpha}, beta {beta}, "
        f"{counted(settings.batch_size, 'document')} a batch, "
        f"seed {settings.seed}, {console.machine(settings.devices)}, "
        f"{engine.described(settings.engine, settings.local)}",
    ]
    if settings.seed_words is not None:
        words = data.vocabulary_of(plan.data)
        names = seeds.names(settings.seed_words, settings.num_topics, words)
        named = ", ".join(f"{k} {name}" for k, name in enumerate(names) if name)
        lines.append(f"{settings.seed_weight:g} pseudo-counts for each seed word of topics {named}")
    if settings.target_ess is not None and settings.num_topics > 1:
        lines.append(
            f"nine in ten topics are to have {settings.target_ess:g} effective samples: expect "
            f"{_passes_for(settings):,} passes or more, since a chain gave 1 to 5 in 1,000 passes "
            "on the corpora that we measured; --time-limit bounds it"
        )
    if on_disk(plan.train, settings):
        size = data.size_of(plan.train)
        lines.append(feed.describe_disk(size.tokens, (settings.num_topics, size.words)))
    if least := vocabulary.suggest(data.in_memory(plan.data), 10):
        shown = ", ".join(f"{entry.word} ({100 * entry.share:.0f}%)" for entry in least)
        lines.append(f"least informative words: {shown}; leave them out with --drop-words FILE")
    return "\n".join(lines)


def _passes_for(settings: Any) -> int:
    """Return the passes that a target of effective samples takes where topics mix well."""
    passes = 1000 * settings.target_ess / (_IN_A_THOUSAND * settings.chains)
    return max(100, int(round(passes, 1 - len(str(int(passes))))))


_IN_A_THOUSAND = 5  # effective samples of most topics, at best (docs/benchmarks.md)


def _prior(name: str, value: Any, count: int, unit: str) -> str:
    learned = isinstance(value, str)
    numbers = np.broadcast_to(np.asarray(FIRST[name] if learned else value, float), count)
    shown = f"{numbers[0]:g} per {unit} (sum {numbers.sum():g})"
    if learned:
        what = f"one common to all {unit}s" if value == "learn" else f"one of each {unit}"
        return f"learned, {what}, from {shown}"
    return shown


def _outcome(fitted: Fit) -> str:
    """Describe each topic in a line, the most prevalent first."""
    lines = fitted.lines()
    if not len(fitted.proportions):
        lines.append("topic proportions of documents: simplex-jax lda transform --model RUN INPUT")
    return "\n".join(lines)


def _following(fitted: Fit, source: dict[str, Any], directory: str) -> dict[str, str]:
    """Return commands that continue from a run; see `Commands`."""
    run, input = shlex.quote(directory), source["input"]
    commands = {}
    kept = _has_draws(Path(directory) / directories.SAMPLES)
    if kept and (input is None or _has_columns(source)):
        # Reading the columns is cheap beside the effects, if there are any.
        dated = _years(source) if fitted.effects or input is None else None
        effects = f"simplex-jax lda effects --model {run} --by"
        if dated is not None:
            column, years = dated
            every = f" --every {_width(years)}" if np.ptp(years[np.isfinite(years)]) else ""
            commands["over time"] = f"{effects} {shlex.quote(column)}{every}"
        if input is not None and _has_groups(source, dated[0] if dated else None):
            commands["by group"] = f"{effects} COLUMN"
    if len(fitted.proportions):
        commands["spreadsheet"] = f"simplex-jax lda transform --model {run} --out proportions.csv"
    elif input is not None and source["input"] != str(STANDARD_INPUT):
        commands["spreadsheet"] = (
            f"simplex-jax lda transform --model {run} {input} --out proportions.csv"
        )
    names = edits.following(MODEL)(fitted, source, directory)
    if kept and not fitted.correlations and fitted.num_topics > 2:
        commands["together"] = f"simplex-jax lda correlate --model {run}"
    return commands | names


def _has_draws(samples: Path) -> bool:
    """Return whether a run kept draws in its directory: a short one may have ended before any."""
    return any(samples.glob("sample-*.npz"))


def _complete(fitted: Fit, plan: Plan, source: dict[str, Any], directory: Path) -> Fit:
    """Return a fit with more results for its report, and its names from before it went on."""
    fitted = dataclasses.replace(fitted, topic_names=editing.kept_names(directory))
    return _over_documents(fitted, plan.data, source, directory / directories.SAMPLES)


def _over_documents(fitted: Fit, documents: Any, source: dict[str, Any], samples: Path) -> Fit:
    """Return a fit with correlations of its topics and, of documents with years, shares by year.

    There are none if the run kept no draws, or if they would take long.
    """
    kept_draws = (fitted.settings.keep_samples or 0) * (fitted.settings.chains or 1)
    drawn = data.size_of(documents).tokens * kept_draws
    if not isinstance(documents, Corpus) or not kept_draws or not _has_draws(samples):
        return fitted
    if drawn > _MOST_DRAWN or not processes.is_first():
        return fitted
    worded = np.flatnonzero(np.diff(documents.counts.indptr))
    compared = len(worded) * fitted.num_topics**2 * kept_draws
    possible = Pairs.possible(fitted, len(worded)) and compared < _MOST_PAIRS
    pairs, by_year = None, None
    dated = _years(source)
    if dated is not None and len(dated[1]) == len(documents.names):
        # Draws of all documents serve both.
        pairs = Pairs(fitted) if possible and np.isfinite(dated[1][worded]).all() else None
        by_year = _by_year(fitted, documents, dated, samples, pairs)
    if by_year is not None:
        fitted = dataclasses.replace(fitted, effects=by_year)
    if by_year is None or pairs is None:
        if not possible or drawn > _FEW_DRAWN:
            return fitted
        pairs = Pairs(fitted)
        for chain, shares in shares_of(
            fitted, documents.counts[worded], DrawOptions(samples=samples)
        ):
            pairs.add(chain, shares)
    return dataclasses.replace(fitted, correlations=list(pairs.result(DrawOptions().level).rows()))


def _by_year(
    fitted: Fit,
    documents: Corpus,
    dated: tuple[str, np.ndarray],
    samples: Path,
    pairs: Pairs | None,
) -> list[dict[str, Any]] | None:
    """Return the shares by year, and add the draws to pairs; None where years do not allow it.

    This is only a convenience of the report: what `effects` would refuse must not end a run that
    has trained.
    """
    column, years = dated
    if not np.nanmin(years) < np.nanmax(years) or (width := _width(years)) is None:
        return None
    question = Question(by=column, every=width, samples=samples)
    watch = (lambda chain, shares: None) if pairs is None else pairs.add
    with suppress(ValueError):  # as few documents, or years of those without words only
        estimates = regression.effects(fitted, documents, {column: years}, question, watch=watch)
        return list(estimates.rows())
    return None


def _width(years: np.ndarray) -> int | None:
    """Return the width of groups of years that are not too many, None if there is none."""
    span = np.nanmax(years) - np.nanmin(years)
    return next((w for w in _WIDTHS if span <= w * _MOST_BINS), None)


def _completed(before: Fit, fitted: Fit, documents: Any, source: dict[str, Any], at: Path) -> Fit:
    """Return a fit with merged topics as `_over_documents` does, if the one before had results."""
    wanted = before.effects or before.correlations
    return _over_documents(fitted, documents, source, at) if wanted else fitted


def _lost(before: Fit, fitted: Fit, run: str) -> Iterator[str]:
    """Yield the commands for effects that a fit had before its topics were merged."""
    kept = {record["column"] for record in fitted.effects}
    for column in dict.fromkeys(record["column"] for record in before.effects):
        if column not in kept:
            asked = f"--model {shlex.quote(run)} --by {shlex.quote(column)}"
            yield f"{'by group:':12} simplex-jax lda effects {asked}"


# Tokens of the documents in all draws, for half a minute on two cores; less without years of all.
_MOST_DRAWN, _FEW_DRAWN = 4e7, 1e7
_MOST_PAIRS = 4e9  # pairs of topics in documents, in all draws, for ten seconds
_WIDTHS, _MOST_BINS = (1, 2, 5, 10, 20, 25, 50, 100, 250, 500, 1000, 10_000), 12  # years


def _years(source: dict[str, Any]) -> tuple[str, np.ndarray] | None:
    """Return the column of the years or dates of a run's documents, and the years; None without.

    A document without a year has NaN.
    """
    if source["input"] is None:
        return "year", np.array(corpora.embedded_years(), float)
    if not _has_columns(source):
        return None
    place, reading = Path(source["input"]), source["reading"]
    # What cannot be read as years, or not any more, is left to `effects`.
    columns: Sequence[str] = ()
    with suppress(ValueError, OSError):
        columns = counts.list_columns(place, reading) or ("year", "date")
    for column in filter(_DATED.search, columns):
        with suppress(ValueError, OSError), warnings.catch_warnings(action="ignore"):
            values = counts.read_columns(place, (column,), reading).columns[column]
            found = covariates.column(column, values)
            years = np.floor(found.values)
            if found.kind != "group" and _LEAST_YEAR <= np.nanmax(years) <= _MOST_YEAR:
                return column, years
    return None


_DATED = re.compile(r"(?<![a-z])(years?|dates?)(?![a-z])", re.IGNORECASE)
_LEAST_YEAR, _MOST_YEAR = 1000, 2500


def _has_groups(source: dict[str, Any], dated: str | None) -> bool:
    """Return whether a run's file may have columns besides those of texts, names and years."""
    reading, columns = source["reading"], []
    with suppress(ValueError, OSError):
        columns = counts.list_columns(Path(source["input"]), reading)
    taken = {"", reading["text_column"], reading["id_column"], dated}
    return not columns or not taken.issuperset(columns)


def _has_columns(source: dict[str, Any]) -> bool:
    """Return whether the file of a run's documents has other columns, and can be read again."""
    formats = ("csv", "tsv", "jsonl", "h5ad")
    return source["input"] != str(STANDARD_INPUT) and source["reading"].get("format") in formats


# INPUT, --observed, --target
_GIVEN = ([True, False, False], [False, True, True])


@click.command()
@click.argument("input", required=False, type=options.PATH)
@options.model_option
@click.option("--observed", type=options.PATH, help="Part of each document that is known.")
@click.option("--target", type=options.PATH, help="Part of the same documents to predict.")
@click.option(
    "--method",
    default="completion",
    type=click.Choice(["completion", "left-to-right"]),
    help="Predict the second half of a document from the first, or all of it from left to right.",
    show_default=True,
)
@click.option(
    "--particles",
    default=256,
    type=click.IntRange(8),
    help="Particles a document for --method left-to-right, rounded up to a multiple of eight; more "
    "reduce the error.",
    show_default=True,
)
@click.option(
    "--moves",
    default=8,
    type=click.IntRange(0),
    help="Labels that --method left-to-right draws again before each token; more reduce the error.",
    show_default=True,
)
@click.option(
    "--windows",
    is_flag=True,
    help="Also compute coherences over sliding windows of the texts of INPUT, by gensim (pip "
    "install 'simplex-jax[coherence]').",
)
@options.seed_option
@options.compose(*counts.FILE_OPTIONS.values())
@options.common_options
@one_line_errors
def evaluate(
    input: Path | None,
    model: Path,
    observed: Path | None,
    target: Path | None,
    method: str,
    particles: int,
    moves: int,
    windows: bool,
    seed: int,
    quiet: bool,
    **reading: Any,
) -> None:
    """Print how well the topics of a run predict documents, as JSON.

    Give either the two parts of the documents as --observed and --target, or whole documents as
    INPUT, whose tokens are split at random in two halves. The topic proportions of a document are
    inferred from the observed part given the mean topics; `perplexity` is exp of the mean negative
    log-probability of the target tokens. Tokens of words that the model does not know are left out.
    Coherences are computed from the ten top words in these documents.

    With --windows, `coherence_in_windows` has C_V and C_NPMI, which count words as co-occurring
    within 110 or 10 successive words of a text, including stop words.

    With --method left-to-right, the perplexity is that of whole documents, each token given those
    before it, with its standard error, which includes the bias that may be left (Wallach et al.
    2009; particles are resampled, which makes the probability unbiased).
    """
    if [path is not None for path in (input, observed, target)] not in _GIVEN:
        raise click.UsageError("give either INPUT, or both --observed and --target")
    is_left_to_right, typed = method == "left-to-right", options.typed(("particles", "moves"))
    if is_left_to_right and input is None:
        raise click.UsageError("--method left-to-right takes whole documents: give INPUT")
    if typed and not is_left_to_right:
        raise click.UsageError(f"{next(iter(typed.values()))} requires --method left-to-right")
    if windows and input is None:
        raise click.UsageError("--windows requires INPUT")
    say = console.speaker(quiet)
    fitted, earlier = load(MODEL, model)
    more = (
        measure_windows(fitted, counts.words(earlier, input, reading)) if windows and input else {}
    )
    if input is not None:
        mapped = counts.read_as(fitted.vocabulary, earlier, input, reading)
        say(counts.describe_coverage(mapped))
        if is_left_to_right:
            documents = mapped.corpus.counts
            measures = _probability(fitted, documents, seed, particles=particles, moves=moves)
            measures |= more | {"unknown_tokens": mapped.unknown}
            click.echo(json.dumps(output.plain(measures), indent=2))
            return
        parts = corpora.split_tokens(mapped.corpus.counts, seed)
        more |= {"unknown_tokens": mapped.unknown}
    else:
        sides = [
            counts.read_as(fitted.vocabulary, earlier, path, reading)
            for path in (observed, target)
            if path
        ]
        for name, side in zip(("observed", "target"), sides, strict=True):
            say(f"{name}: {counts.describe_coverage(side)}")
        one, other = (side.corpus for side in sides)
        _check_order(one.names, other.names)
        parts = one.counts, other.counts
        more = {"unknown_tokens": sides[0].unknown, "unknown_target_tokens": sides[1].unknown}
    click.echo(
        json.dumps(output.plain(measure_completion(fitted, *parts, seed=seed) | more), indent=2)
    )


def _check_order(observed: Sequence[str], target: Sequence[str]) -> None:
    """Raise a ValueError if two parts have documents of the same names in different orders."""
    # The names of two parts may differ, as in one folder for each.
    if len(observed) != len(target) or set(observed) != set(target):
        return
    for row, (one, other) in enumerate(zip(observed, target, strict=True), start=1):
        if one != other:
            raise ValueError(
                f"document {row} is {one!r} in --observed and {other!r} in --target: give two "
                "parts of the same documents, in the same order"
            )


def _probability(fitted: Fit, documents: sp.csr_array, seed: int, **cost: int) -> dict[str, Any]:
    (draw,) = fitted.draws()
    likelihood = left_to_right(draw.topics, draw.alpha, documents, seed=seed, **cost)
    lengths = documents.sum(axis=1)
    value, error = likelihood.perplexity(lengths)
    return {
        "perplexity": value,
        "perplexity_error": error,
        "documents": documents.shape[0],
        "tokens": int(lengths.sum()),
        **measure_topics(fitted, documents),
    }


@click.command("store")
@click.argument("input", type=options.PATH)
@click.argument("directory", type=options.PATH)
@options.compose(*counts.READING.values())
@options.common_options
@one_line_errors
def store_command(input: Path, directory: Path, quiet: bool, **reading: Any) -> None:
    """Write INPUT to DIRECTORY, to be read from disk in batches.

    DIRECTORY is then an INPUT like any other; with --stream, only batches of it are in memory.
    Bag-of-words files (uci, ldac) are never loaded whole.
    """
    stored = counts.convert(input, directory, reading)
    console.speaker(quiet, results=True)(
        f"{counted(stored.documents, 'document')}, {counted(stored.tokens, 'token')}, "
        f"{counted(len(stored.vocabulary), 'word')} written to {directory}"
    )


def _share(fitted: Fit, plan: Plan, directory: Path, progress: Progress) -> None:
    """Write the proportions of this process's documents, if no process reads all documents."""
    if not (processes.joined() and isinstance(plan.data, Stored)):
        return
    numbers, number = processes.share(plan.data.documents), processes.number()
    folder = directory / directories.SHARES
    folder.mkdir(exist_ok=True)
    rows = plan.data.rows(numbers.start, numbers.stop)
    settings = fitted.settings
    inferred = shards(
        fitted.topics,
        fitted.alpha,
        rows,
        seed=settings.seed,
        share_error=settings.share_error,
        engine=settings.engine,
    )

    def parts() -> Iterator[directories.Part]:
        for part in inferred:
            yield part.proportions, part.error
            progress("proportions of documents", part.first + len(part.error), len(numbers))

    path = folder / f"part-{number:05d}-of-{processes.count():05d}.npz"
    names = plan.data.names[numbers.start : numbers.stop]
    directories.write_proportions(path, names, len(fitted.alpha), parts())


COMMANDS = Commands(
    model=MODEL,
    help="Find topics in INPUT, with their uncertainty.\n\n" + counts.INPUT,
    reading={"stream": STREAM, **counts.READING},
    file_reading=counts.FILE_OPTIONS,
    check_reading=check_reading,
    read=read,
    resolve_reading=resolve_reading,
    other=counts.read_other,
    shown=("perplexity", "tokens_per_second"),
    goal=("target_ess", "time_limit"),
    complete=_complete,
    named="its effects, and when it is resumed",
    following=_following,
    devices=lambda settings: settings.devices,
    similarity=matching.affinity,
    announce=_announce,
    outcome=_outcome,
    transform=counts.transform_command(
        "lda",
        error="estimated Monte-Carlo error of each document's most uncertain proportion, at most "
        "the --share-error of the run unless it mixes slowly",
    ),
    evaluate=evaluate,
    more=(
        effects,
        correlate,
        edits.edit_command(MODEL, _outcome, _documents, _completed, _lost),
        single_cells.export_command(MODEL),
        store_command,
    ),
    memory=lambda plan: memory.estimate(plan.train, plan.settings, heldout=plan.heldout),
    remedy="give fewer --topics, --chains or a smaller --batch-size, or store the corpus "
    "(simplex-jax lda store) and --stream it",
    share=_share,
)
