"""What the `report` commands of all models have in common."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from simplex_jax.cli import describe, options
from simplex_jax.cli.errors import one_line_errors
from simplex_jax.evaluate.page import Document
from simplex_jax.runtime.saved import RunError


def command(render: Callable[[Path, Path | None, int], Path], items: str, most: int) -> Any:
    """Return the command that writes the report of a run anew.

    Args:
        render: `(directory, path, most) -> path`, which writes it.
        items: What a topic or a cluster is described by, in the plural.
        most: How many of them, if nothing is said.
    """

    @click.command("report")
    @click.argument("directory", type=options.PATH)
    @click.option(
        f"--top-{items}",
        "top",
        default=most,
        type=click.IntRange(1),
        help=f"How many {items} describe each.",
    )
    @click.option(
        "--out", type=options.PATH, help="File to write.  [default: DIRECTORY/report.html]"
    )
    @options.common_options
    @one_line_errors
    def report(directory: Path, top: int, out: Path | None, quiet: bool) -> None:
        """Write the report of the run in DIRECTORY anew.

        It is one HTML file that needs no network and runs no script.
        """
        describe.speaker(quiet)(f"written to {render(directory, out, top)}")

    return report


@contextlib.contextmanager
def reading(directory: Path) -> Iterator[None]:
    """Turn what goes wrong with the contents of a run's files into a RunError that says where."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RunError(
            f"{directory}: config.json or summary.json is damaged, or of another version"
        ) from None


def documents(summary: dict[str, Any], topics: int) -> list[list[Document]]:
    """Return the documents that stand for each topic, which may be none at all."""
    found = [
        [Document(entry["name"], entry["share"], entry["words"]) for entry in entries]
        for entries in summary["documents"]
    ]
    if len(found) not in (0, topics):
        raise ValueError("topics of another number")
    return found
