"""Options of reading an input for the Dirichlet-process mixture: counts, or categories."""

from pathlib import Path
from typing import Any

import click

from simplex_jax import corpus as corpora
from simplex_jax.cli import options
from simplex_jax.corpus import categories

CATEGORIES = "categories"
"""Name of the format of tables of categorical columns."""

FILE_OPTIONS = options.FILE_OPTIONS | {
    "format": click.option(
        "--format",
        "format",
        type=click.Choice([CATEGORIES, *corpora.FORMATS]),
        help="categories: a table of categorical columns, whose first line names them.  [default: "
        "recognised; a .csv or .tsv is taken for categories]",
    ),
    "drop_column": click.option(
        "--drop-column",
        multiple=True,
        metavar="NAME",
        help="A column to leave out (categories); may be repeated.",
    ),
}
file_options = options.together(*FILE_OPTIONS.values())
reading_options = options.together(*FILE_OPTIONS.values(), *options.VOCABULARY_OPTIONS.values())
READING = (*FILE_OPTIONS, *options.VOCABULARY_OPTIONS)
"""Names of all options about reading an input, which the embedded corpus is not."""

_OF_TABLES = {"format", "id_column", "encoding", "drop_column"}


def holds_categories(path: Path | None, format: str | None) -> bool:
    """Tell whether an input is a table of categories, by the format named or by its name."""
    if path is None or format is not None:
        return format == CATEGORIES
    return categories.recognises(path)


def check_typed(typed: dict[str, str], *, table: bool, embedded: bool) -> None:
    """Refuse options that were typed and would do nothing.

    Args:
        typed: The options that were given on the command line, by name, as typed.
        table: Whether the input is a table of categories.
        embedded: Whether there is no input.
    """
    for name, option in typed.items():
        if embedded:
            raise click.UsageError(f"{option} is about reading an INPUT, and there is none")
        if table and name not in _OF_TABLES:
            raise click.UsageError(
                f"{option} is for counts, and INPUT is a table of categories; to count the words "
                "of a column of text, give --format csv or tsv"
            )
        if not table and name == "drop_column":
            raise click.UsageError(f"{option} is for tables of categories, and INPUT has counts")


def read_table(path: Path, reading: dict[str, Any], **known: Any) -> categories.Categories:
    """Read a table with the options of `FILE_OPTIONS`."""
    return categories.read(
        path,
        id_column=reading["id_column"],
        drop=reading["drop_column"],
        encoding=reading["encoding"],
        **known,
    )
