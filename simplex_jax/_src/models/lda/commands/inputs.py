"""The input of LDA's commands: a corpus read into memory, or one left on disk."""

from pathlib import Path
from typing import Any

import click

from simplex_jax._src import corpus as corpora
from simplex_jax._src.cli import counts
from simplex_jax._src.corpus import Corpus, store
from simplex_jax._src.corpus.store import Stored
from simplex_jax._src.runtime import directory as directories
from simplex_jax._src.runtime import processes

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
    directories.check_words(corpus.vocabulary)
    return corpus


def resolve(input: str | None, reading: dict[str, Any]) -> dict[str, Any]:
    """Return the reading options, with those that depend on the input; see `Commands`."""
    return reading if reading["stream"] else counts.resolved(input, reading)
