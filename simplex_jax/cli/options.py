"""Options that several commands share, and how their values are read."""

import dataclasses
import math
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from simplex_jax import corpus as corpora
from simplex_jax.corpus import Corpus, TextOptions, store
from simplex_jax.corpus.store import Stored

F = TypeVar("F", bound=Callable[..., Any])

POSITIVE = click.FloatRange(0, min_open=True)
PATH = click.Path(path_type=Path)


class Concentration(click.ParamType):
    """A positive number, or a word that says how to learn one."""

    name = "concentration"

    def __init__(self, *words: str) -> None:
        self.words = words

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        """Return the number or the word."""
        if value in self.words:
            return str(value)
        try:
            number = float(value)  # type: ignore[arg-type]
        except ValueError:
            number = math.nan
        if not 0 < number < math.inf:
            self.fail(f"{value!r} is no positive number and none of {', '.join(self.words)}.")
        return number

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the values as the help shows them."""
        return f"[NUMBER|{'|'.join(self.words)}]"


def target(out: Path | None, input: Path, ending: str, overwrite: bool) -> Path:
    """Return the file that a command writes about INPUT, which must not be there already."""
    out = out or Path(f"{input.absolute().name.split('.')[0]}.{ending}")
    if out.exists() and not overwrite:
        raise FileExistsError(f"{out} exists: choose another --out, or pass --overwrite")
    return out


def target_options(ending: str) -> Callable[[F], F]:
    """Add the options that `target` takes, for files of an ending."""
    kind = Path(ending).suffix
    return together(
        click.option(
            "--out",
            type=PATH,
            help=f"File to write ({kind}).  [default: INPUT's name.{ending}]",
        ),
        click.option("--overwrite", is_flag=True, help="Replace the file."),
    )


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator for several, the first being the first in the help."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


FILE_OPTIONS = {
    "format": click.option(
        "--format",
        "format",
        type=click.Choice(list(corpora.FORMATS)),
        help="[default: recognised]",
    ),
    "vocab": click.option("--vocab", type=PATH, help="File with one word a line."),
    "names": click.option(
        "--names",
        type=PATH,
        help="File with one document name a line (formats that hold counts).",
    ),
    "transpose": click.option(
        "--transpose",
        is_flag=True,
        help="The matrix has words in rows and documents in columns (npz, mtx, h5ad).",
    ),
    "layer": click.option(
        "--layer", help="Layer of the .h5ad file that holds the counts.  [default: X]"
    ),
    "zero_based": click.option(
        "--zero-based",
        is_flag=True,
        help="Indices count from 0, as scikit-learn writes them, not from 1 (svmlight).",
    ),
    "text_column": click.option(
        "--text-column",
        help="Column or field of the text (csv, tsv, jsonl), or its number from 1 in a file "
        "without a header.  [default: recognised, such as text or body]",
    ),
    "id_column": click.option(
        "--id-column",
        help="Column or field of the document names (csv, tsv, jsonl).  [default: recognised]",
    ),
    "encoding": click.option("--encoding", default="utf-8", help="Of texts."),
}
"""How a file is to be understood, by parameter name."""

VOCABULARY_OPTIONS = {
    "stop_words": click.option(
        "--stop-words", default="english", help="english, none, or a file (texts)."
    ),
    "min_df": click.option(
        "--min-df", default=5, type=click.IntRange(1), help="Documents a word must be in (texts)."
    ),
    "max_df": click.option(
        "--max-df",
        default=0.5,
        type=click.FloatRange(0, 1, min_open=True),
        help="Largest share of documents a word may be in (texts).",
    ),
    "max_vocabulary": click.option(
        "--max-vocabulary", default=30_000, type=click.IntRange(1), help="Words to keep (texts)."
    ),
    "drop_words": click.option(
        "--drop-words", type=PATH, help="File of words to leave out, one a line, of any corpus."
    ),
}
"""Which words of it are kept, by parameter name."""

file_options = together(*FILE_OPTIONS.values())
reading_options = together(*FILE_OPTIONS.values(), *VOCABULARY_OPTIONS.values())
common_options = together(
    click.option("--quiet", is_flag=True, help="Print nothing but errors."),
    click.option("--debug", is_flag=True, help="Show tracebacks."),
)
model_option = click.option(
    "--model", required=True, type=PATH, metavar="DIR", help="Directory of a run."
)
seed_option = click.option(
    "--seed", default=0, type=click.IntRange(0, 2**32 - 1), help="Of all randomness."
)


def lengths(passes: float) -> Callable:
    """Return the options about the length of a run, which by default has a number of passes."""
    return together(
        click.option("--passes", type=POSITIVE, help=f"Length in passes.  [default: {passes:g}]"),
        click.option("--steps", type=click.IntRange(1), help="Length in updates."),
        click.option("--seconds", type=POSITIVE, help="Length in seconds of training."),
        click.option(
            "--holdout",
            type=click.IntRange(0),
            help="Documents, or rows, held out to be predicted.  [default: a tenth, at most 1000]",
        ),
        seed_option,
    )


length_options = lengths(200)


keep_samples_option = click.option(
    "--keep-samples",
    default=0,
    type=click.IntRange(0),
    metavar="NUMBER",
    help="Samples of the topics to keep in samples/, evenly spaced over the second half.",
)


def run_options(
    name: str, keep: Callable = keep_samples_option, evaluations: str = "50th"
) -> Callable:
    """Return the options about the directory of a run.

    Args:
        name: Of the new directory that is made by default.
        keep: The option about what is kept of the samples.
        evaluations: Part of the run between two of them by default.
    """
    return together(
        click.option("--out", type=PATH, help=f"[default: a new {name}*]"),
        click.option("--overwrite", is_flag=True, help="Replace the run in --out."),
        click.option(
            "--resume",
            type=PATH,
            metavar="DIR",
            help="Go on with the run in DIR, to the samples that it would have had without the "
            "interruption. Its config.json says all the rest; INPUT only if the corpus has moved.",
        ),
        click.option(
            "--checkpoint-every",
            default=60.0,
            type=click.FloatRange(0),
            metavar="SECONDS",
            help="Time between checkpoints; 0 for one at each evaluation.",
        ),
        keep,
        click.option(
            "--eval-every",
            type=click.IntRange(1),
            help="Updates between evaluations and posterior samples.  "
            f"[default: a {evaluations} of the run]",
        ),
    )


READING = (*FILE_OPTIONS, *VOCABULARY_OPTIONS)
"""Names of all options about reading an input, which the embedded corpus is not."""


def given(names: Sequence[str]) -> list[str]:
    """Return those of the options that were given on the command line, as typed."""
    context = click.get_current_context()
    flags = {option.name: option.opts[0] for option in context.command.params}
    return [
        flags[name]
        for name in names
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]


def given_besides(names: Collection[str]) -> list[str]:
    """Return the options that were given on the command line besides some, as typed."""
    every = [option.name or "" for option in click.get_current_context().command.params]
    return given([name for name in every if name not in names])


def take(names: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    """Take options out of a dictionary."""
    return {name: options.pop(name) for name in names}


def absolute(reading: dict[str, Any]) -> dict[str, Any]:
    """Return options of reading as they can be kept: files by their absolute path."""
    kept = {
        name: str(value.absolute()) if isinstance(value, Path) else value
        for name, value in reading.items()
    }
    if kept.get("stop_words") not in (None, "english", "none"):
        kept["stop_words"] = str(Path(kept["stop_words"]).absolute())
    return kept


def read(path: Path, reading: dict[str, Any]) -> Corpus:
    """Read a corpus with the options of `FILE_OPTIONS` and, if there, `VOCABULARY_OPTIONS`."""
    data = corpora.read(path, **_keywords(reading))
    if reading.get("drop_words"):
        data = corpora.drop_words(data, corpora.read_vocabulary(Path(reading["drop_words"])))
    return data


def convert(path: Path, directory: Path, reading: dict[str, Any]) -> Stored:
    """Write a corpus to disk, with the same options; see `corpus.convert`."""
    if reading["drop_words"]:
        return store.write(directory, read(path, reading))
    return corpora.convert(path, directory, **_keywords(reading))


def _keywords(reading: dict[str, Any]) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(TextOptions)]
    text = TextOptions(**{name: reading[name] for name in names if name in reading})
    keywords = {name: reading[name] for name in FILE_OPTIONS if name != "vocab"}
    return keywords | {"vocabulary": reading["vocab"], "text": text}
