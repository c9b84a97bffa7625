"""Reading word counts on the command line, for models of counts."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from simplex_jax._src import corpus as corpora
from simplex_jax._src.cli.commands import Other, Transform
from simplex_jax._src.cli.console import usage
from simplex_jax._src.cli.options import PATH, declared_option, typed
from simplex_jax._src.corpus import (
    Corpus,
    Mapped,
    Metadata,
    Reading,
    TextOptions,
    store,
    to_vocabulary,
)
from simplex_jax._src.corpus.corpus import printable
from simplex_jax._src.corpus.files import STANDARD_INPUT, as_path
from simplex_jax._src.corpus.formats import registry, tables
from simplex_jax._src.corpus.reading import Kind
from simplex_jax._src.corpus.store import Stored
from simplex_jax._src.corpus.text import unmatched
from simplex_jax._src.corpus.vocabulary import composed, even_empty
from simplex_jax._src.models import files
from simplex_jax._src.models.pipeline import Progress
from simplex_jax._src.models.records import Model, Plan
from simplex_jax._src.models.topics import data
from simplex_jax._src.models.topics.fits import CountFit
from simplex_jax._src.options import declarations
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import directory, saved
from simplex_jax._src.runtime.processes import is_first
from simplex_jax._src.warn import warn_caller


def declared_options(of: type, names: Collection[str] | None = None) -> dict[str, Callable]:
    """Return options of reading by parameter name; the help of each names its formats."""
    made = {}
    for name, declared, _ in declarations(of):
        if declared.command and (names is None or name in names):
            formats = "texts" if of is TextOptions else registry.having(name)
            made[name] = declared_option(of, name, getattr(of, name), formats)
    return made


def format_option(
    *kinds: Kind, default: str = "recognised", more: Mapping[str, str] | None = None
) -> Callable:
    """Return the option `--format`; `more` has descriptions of other formats by name."""
    named = [f"{description} (`{name}`)" for name, description in (more or {}).items()]
    return click.option(
        "--format",
        type=click.Choice([*(more or {}), *registry.names(*kinds)]),
        help=f"{'; '.join([*named, registry.described(*kinds)])}.  [default: {default}]",
    )


FILE_OPTIONS = declared_options(Reading) | {"format": format_option("counts")}
"""Options of file formats, by parameter name."""

ENCODED = ("encoding", "encoding_errors")
"""Those of any file of text."""

TOKEN_OPTIONS = declared_options(
    TextOptions, ("tokens", "lowercase", "token_pattern", "ngrams", "stop_words")
)
"""Options of words in texts, by parameter name; they apply to other documents too."""

VOCABULARY_OPTIONS = declared_options(TextOptions) | {
    "drop_words": click.option(
        "--drop-words", type=PATH, help="File of words to leave out, one a line (any corpus)."
    )
}
"""Options of the vocabulary, by parameter name."""
READING = FILE_OPTIONS | VOCABULARY_OPTIONS
"""All reading options, by parameter name."""

_LIMITS = ("min_df", "max_df", "max_vocabulary")
_REASONS = 4  # for dropped tokens, in the line about a corpus


def read(path: Path, reading: dict[str, Any]) -> Corpus:
    """Read a corpus with `FILE_OPTIONS` and, if given, `VOCABULARY_OPTIONS`."""
    _check_given(path, reading, ("stop_words", *_LIMITS))
    return _read(path, reading)


def _read(path: Path, reading: dict[str, Any]) -> Corpus:
    data = corpora.read(path, **_keywords(reading))
    if not _quiet():
        click.echo(_summary(data, _columns_read(path, reading)), err=True)
    return drop_words(data, reading.get("drop_words"))


def _check_given(path: Path, reading: dict[str, Any], names: Collection[str]) -> None:
    """Raise a UsageError for options typed beside a given vocabulary that do not change it."""
    if reading["vocabulary"] is None or not (ignored := typed(names)):
        return
    if _has_texts(path, reading):
        flag = next(iter(ignored.values()))
        raise click.UsageError(
            f"{flag} has no effect on the words of texts that --vocab gives: omit one of them"
        )


def _quiet() -> bool:
    context = click.get_current_context(silent=True)
    return context is None or bool(context.params.get("quiet")) or not is_first()


def _columns_read(path: Path, reading: dict[str, Any]) -> str | None:
    """Return what is read from which columns; None for a format without columns."""
    options = corpora.resolve(path, _of_files(reading))
    describe = registry.FORMATS[options.format or ""].describe
    return None if describe is None else describe(as_path(path), options)


def _summary(data: Corpus, columns: str | None) -> str:
    """Return a line on what was read: documents, tokens kept and dropped, and the columns read."""
    kept = int(data.counts.sum())
    parts = [
        f"read {counted(data.counts.shape[0], 'document')}, {counted(kept, 'token')} of "
        f"{counted(len(data.vocabulary), 'word')}"
    ]
    if data.tokens is not None and data.tokens.dropped:
        found, dropped = data.tokens.found, list(data.tokens.dropped.items())
        total = sum(count for _, count in dropped)
        largest = ", ".join(f"{count:,} {why}" for why, count in dropped[:_REASONS])
        more = ", ..." if len(dropped) > _REASONS else ""
        parts.append(f"{total:,} of {found:,} tokens dropped ({largest}{more})")
    if columns is not None:
        parts.append(columns)
    if repeated := len(data.names) - len(set(data.names)):
        parts.append(f"{counted(repeated, 'document')} with the name of an earlier one")
    return "; ".join(parts)


def read_every_word(path: Path, reading: dict[str, Any]) -> Corpus:
    """Read a corpus as `read` does, but keep all words, however rare."""
    _check_given(path, reading, ("stop_words",))
    limits: dict[str, Any] = dict(zip(_LIMITS, (1, 1.0, None), strict=True))
    other = {name: value for name, value in reading.items() if name not in limits}
    return _read(path, other | limits if _has_texts(path, reading) else other)


def _has_texts(path: Path, reading: dict[str, Any]) -> bool:
    """Return whether the format of a file has texts rather than counts."""
    return registry.selected(as_path(path), _of_files(reading), "counts").texts is not None


def drop_words(data: Corpus, file: str | Path | None) -> Corpus:
    """Drop the words in a file from a corpus, with a warning if it has none of them."""
    if file is None:
        return data
    words = corpora.read_vocabulary(file)
    if not _quiet() and set(map(composed, words)).isdisjoint(map(composed, data.vocabulary)):
        click.echo(f"warning: {file}: none of its {len(words)} words is in the corpus", err=True)
    return corpora.drop_words(data, words)


def resolved(input: str | None, reading: dict[str, Any], kind: Kind = "counts") -> dict[str, Any]:
    """Fill in the format and columns that the input determines."""
    if input is None:
        return reading
    result = corpora.resolve(input, _of_files(reading), kind)
    return reading | {
        name: getattr(result, name) for name in ("format", "text_column", "id_column")
    }


def read_columns(path: Path, columns: Sequence[str], reading: dict[str, Any]) -> Metadata:
    """Read columns of a corpus file with the same options; see `corpus.read_columns`."""
    return corpora.read_columns(path, columns, **vars(_of_files(reading)))


def documents_of(
    model: Model,
    read: Callable[[Path | None, dict[str, Any]], Any],
    run: Path,
    input: Path | None,
    reading: dict[str, Any],
) -> tuple[Path | None, Corpus]:
    """Return the path of the documents of a run (None if embedded) and the documents.

    The path is `input`, if given, or that of the run; `read` returns the corpus of a path.
    """
    config = saved.load_config(run, model.name)
    if not set(FILE_OPTIONS) <= reading.keys():
        raise saved.RunError(
            f"{run / files.CONFIG}: does not say how the documents were read; fit again"
        )
    path = input or (config["source"]["input"] and Path(config["source"]["input"]))
    if path == STANDARD_INPUT:
        raise ValueError("the run read standard input: give a file of its documents as INPUT")
    corpus = read(path, reading)
    if model.digest(corpus) != config["corpus"].get("digest"):
        raise ValueError(
            f"{path}: these are not the data of the run in {run} (different digests): put them "
            "back, or name them as INPUT if they have moved"
        )
    return path, data.in_memory(corpus)


def list_columns(path: Path, reading: dict[str, Any]) -> list[str]:
    """Return the names of the columns of a table of texts; none of other formats."""
    kind = reading.get("format")
    if kind not in (tables.CSV.name, tables.TSV.name):
        return []
    return tables.column_names(path, _of_files(reading), tabs=kind == tables.TSV.name)


def convert(path: Path, directory: Path, reading: dict[str, Any]) -> Stored:
    """Write a corpus to disk, with the same options; see `corpus.convert`."""
    store.check_new(directory)
    if reading["drop_words"]:
        return store.write(directory, read(path, reading))
    _check_given(path, reading, ("stop_words", *_LIMITS))
    return corpora.convert(path, directory, **_keywords(reading))


def _of_files(reading: dict[str, Any]) -> Reading:
    """Return the options of file formats."""
    return Reading(**{name: reading[name] for name in FILE_OPTIONS})


def _keywords(reading: dict[str, Any]) -> dict[str, Any]:
    """Return keyword arguments of `corpus.read` and `corpus.convert`."""
    return vars(_of_files(reading)) | {"text": _text_options(reading)}


def _text_options(reading: dict[str, Any]) -> TextOptions:
    names = [name for name, _, _ in declarations(TextOptions) if name in reading]
    with usage():
        return TextOptions(**{name: reading[name] for name in names})


def read_as(
    vocabulary: tuple[str, ...], model_reading: dict[str, Any], path: Path, reading: dict[str, Any]
) -> Mapped:
    """Read documents with `FILE_OPTIONS`, and map them to a model's vocabulary.

    All words are kept, however rare, and texts are split as in the model's corpus, which was read
    with `model_reading`. Words of a model of counts that this never produces raise a warning.
    """

    def mapped(reading: dict[str, Any]) -> Mapped:
        corpus = even_empty(vocabulary, lambda: read_every_word(path, reading))
        return to_vocabulary(corpus, vocabulary, source=str(path))

    if not _has_texts(path, reading):
        return mapped(reading)
    tokens = _token_options(model_reading)
    if not _from_texts(model_reading) and (lost := unmatched(vocabulary, _text_options(tokens))):
        warn_caller(
            f"{path}: {len(lost):,} of {len(vocabulary):,} words of the model are not counted, "
            f"since its corpus of counts does not say how to find words such as "
            f"{printable(lost[0])!r} in texts: give counts, as simplex-jax lda store writes them "
            "with the options of that corpus and --min-df 1 --max-df 1",
        )
    return mapped(reading | tokens)


def _from_texts(reading: dict[str, Any]) -> bool:
    """Return whether a model's corpus was counted from texts, rather than read as counts."""
    texts = {entry.name for entry in registry.formats_of("counts") if entry.texts}
    # The embedded corpus has no format, nor has one that is streamed.
    return not reading.get("stream") and reading.get("format", "") in {None, *texts}


def _token_options(reading: dict[str, Any]) -> dict[str, Any]:
    """Return the options by which texts are split as in a model's corpus.

    Stop words that are in a given vocabulary, or in that of counts, are words of the model.
    """
    tokens = {name: reading[name] for name in TOKEN_OPTIONS if name in reading}
    given = reading.get("vocabulary") is not None or not _from_texts(reading)
    return tokens | {"stop_words": "none"} if given else tokens


def words(model_reading: dict[str, Any], path: Path, reading: dict[str, Any]) -> list[list[str]]:
    """Read the words of texts in order, split as in the model's corpus, with stop words."""
    tokens = _token_options(model_reading)
    if tuple(tokens.get("ngrams", (1, 1))) != (1, 1):
        raise ValueError("--windows supports single words only, and the model has --ngrams")
    texts = corpora.read_texts(path, **vars(_of_files(reading)))
    return list(corpora.tokens((text for _, text in texts), _text_options(tokens)))


def describe_coverage(mapped: Mapped) -> str:
    """Return a sentence on how much of the documents the model's vocabulary covers."""
    counts = mapped.corpus.counts
    tokens = int(counts.sum())
    empty = int((np.diff(counts.indptr) == 0).sum())
    total = tokens + mapped.unknown
    return (
        f"{counted(counts.shape[0], 'document')}, {counted(total, 'token')}: {mapped.unknown:,} "
        f"({100 * mapped.unknown / max(total, 1):.1f}%) of words unknown to the model are left out"
        + (f"; documents without known words: {empty:,}" if empty else "")
    )


# Parts of commands shared by models that assign topics to tokens.

INPUT = """INPUT is text or counts in one of the formats that --help-all lists, packed (.gz, .xz,
.bz2, .zip) or not; - is standard input. The default is the embedded corpus. Write ./NAME for an
INPUT that has the name of a command below.

Ctrl-C or a termination signal ends a run early: results so far are written; --resume continues.
"""


def describe_plan(plan: Plan) -> str:
    """Return a line on the documents of a run."""
    size = data.size_of(plan.data)
    details = f"{plan.held:,} held out"
    if empty := data.num_empty(plan.data):
        details += f", {empty:,} without a word of the vocabulary"
    return (
        f"{counted(size.documents, 'document')} ({details}), "
        f"{counted(size.tokens, 'token')}, {counted(size.words, 'word')}"
    )


def read_other(
    fitted: Any, path: Path, reading: dict[str, Any], model_reading: dict[str, Any]
) -> Other:
    """Return other documents over the vocabulary of a fit; see `Commands`."""
    mapped = read_as(fitted.vocabulary, model_reading, path, reading)
    return Other(mapped.corpus, mapped.corpus.names, describe_coverage(mapped))


def write_proportions(
    fitted: Any,
    other: Other,
    out: Path,
    seed: int,
    every: bool,
    progress: Progress,
) -> list[Path]:
    """Write the topic proportions of other documents; see `Transform`."""

    def parts() -> Iterator[directory.Part]:
        for part in fitted.shards(other.data.counts, seed=seed):
            yield part.proportions, part.error
            done = part.first + len(part.error)
            progress("proportions of documents", done, len(other.names))

    write_titled(fitted, other.names, parts(), out)
    return [out]


def write_own_proportions(fitted: Any, out: Path) -> list[Path]:
    """Write the topic proportions of the documents of a run; see `Transform`."""
    if not len(fitted.proportions):
        raise ValueError(
            "the run did not write the proportions of its documents: give the documents as INPUT"
        )
    own = fitted.proportions, fitted.proportions_error
    write_titled(fitted, fitted.names, [own], out)
    return [out]


def write_titled(
    fitted: Any, names: Sequence[str], parts: Iterable[directory.Part], out: Path
) -> None:
    """Write the proportions of a fit's reported topics under the titles of these."""
    directory.write_proportions(
        out,
        names,
        len(fitted.topics),
        parts,
        with_errors=isinstance(fitted, CountFit),
        rest=fitted.leaves_rest,
        titles=fitted.titles,
    )


def transform_command(model: str, *, error: str, rest: bool = False) -> Transform:
    """Return the command `transform` of a model whose files have an `error`, in words.

    With `rest` they have the share of topics that are not reported, too.
    """
    more = ", and `other`, the share of topics that are not reported" if rest else ""
    return Transform(
        help=f"""Infer the topic proportions of documents, and write them.

        INPUT has the documents, in any format that `simplex-jax {model}` reads. Words are matched
        to those of the model; tokens of other words are left out. Without INPUT the file has the
        documents of the run itself, and --out names it. Like the doc_topics.npz of a run, it has
        the arrays `proportions` [D, K], `documents` (their names) and `error` ({error}){more}. With
        --out NAME.csv it is a table with one document a line, whose columns have the names of
        topics. The proportions of a document depend only on its words and the seed. Memory use is
        bounded by the size of the corpus.
        """,
        ending="doc_topics.npz",
        write=write_proportions,
        own=write_own_proportions,
    )
