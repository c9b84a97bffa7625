"""Options of reading an input for the spherical admixture model: counts, or unit vectors."""

from collections.abc import Sequence
from typing import Any

import click

from simplex_jax import corpus as corpora
from simplex_jax.cli import options
from simplex_jax.corpus import tfidf

VECTORS = "vectors"
"""Name of the format of unit vectors."""

FILE_OPTIONS = options.FILE_OPTIONS | {
    "format": click.option(
        "--format",
        "format",
        type=click.Choice([VECTORS, *corpora.FORMATS]),
        help="vectors: unit vectors, as text like SVMlight behind a line `words documents`, as "
        ".npz or .npy.  [default: recognised, but an .npz is taken for counts]",
    ),
    "normalise": click.option(
        "--normalise", is_flag=True, help="Take vectors of any length but 0 (vectors)."
    ),
}
WEIGHT_OPTIONS = {
    "stop_words": options.VOCABULARY_OPTIONS["stop_words"],
    "drop_words": options.VOCABULARY_OPTIONS["drop_words"],
    "min_df": click.option(
        "--min-df", default=5, type=click.IntRange(1), help="Documents a word must be in (counts)."
    ),
    "max_df": click.option(
        "--max-df",
        default=0.5,
        type=click.FloatRange(0, 1, min_open=True),
        help="Largest share of documents a word may be in (counts).",
    ),
    "max_vocabulary": click.option(
        "--max-vocabulary",
        default=5_000,
        type=click.IntRange(2),
        help="Words to keep, those in most documents (counts).",
    ),
    "idf": click.option(
        "--idf",
        default="log",
        type=click.Choice(tfidf.IDF),
        help="Weight of a word: log(D / (1 + df)), or scikit-learn's log((1 + D) / (1 + df)) + 1 "
        "(counts).",
    ),
}

file_options = options.together(*FILE_OPTIONS.values())
reading_options = options.together(*FILE_OPTIONS.values(), *WEIGHT_OPTIONS.values())
READING = (*FILE_OPTIONS, *WEIGHT_OPTIONS)
"""Names of all options about reading an input."""

# What the embedded corpus can be given with, whose other options are its own.
_OF_COUNTS = {"min_df", "max_df", "max_vocabulary", "idf", "drop_words"}
_OF_VECTORS = {"format", "vocab", "names", "normalise"}


def check_typed(names: Sequence[str], *, vectors: bool, embedded: bool) -> None:
    """Refuse options that were typed and would do nothing.

    Args:
        names: The options of the command that are about reading, by name.
        vectors: Whether the input is unit vectors.
        embedded: Whether there is no input.
    """
    for name in names:
        if not (typed := options.given([name])):
            continue
        option = typed[0]
        if embedded and name not in _OF_COUNTS:
            raise click.UsageError(f"{option} is about reading an INPUT, and there is none")
        if vectors and name not in _OF_VECTORS:
            raise click.UsageError(f"{option} is for counts, and INPUT has unit vectors")
        if not vectors and name == "normalise":
            raise click.UsageError(f"{option} is for unit vectors, and INPUT has counts")


def of_counts(reading: dict[str, Any]) -> dict[str, Any]:
    """Return the options by which `options.read` reads all words of a corpus of counts.

    The vocabulary is cut afterwards, by document frequency in any format.
    """
    kept = {name: reading[name] for name in options.FILE_OPTIONS}
    kept |= {"stop_words": reading["stop_words"], "drop_words": reading["drop_words"]}
    return kept | {"min_df": 1, "max_df": 1.0, "max_vocabulary": None}
