"""The input of LDA's commands: a corpus that is read, or one on disk as it is."""

from pathlib import Path
from typing import Any

import click

from simplex_jax import corpus as corpora
from simplex_jax.cli import counts
from simplex_jax.corpus import Corpus, store
from simplex_jax.corpus.store import Stored
from simplex_jax.runtime import directory as directories
from simplex_jax.runtime import processes

STREAM = click.option(
    "--stream",
    is_flag=True,
    help="Read batches of INPUT, made by `store`, from the disk: for corpora larger than memory.",
)


def check_reading(input: Path | None, reading: dict[str, Any], typed: dict[str, str]) -> None:
    """Raise a UsageError where an option of reading does nothing; see `Commands`."""
    others = [flag for name, flag in typed.items() if name != "stream"]
    if reading["stream"] and others:
        raise click.UsageError(f"{others[0]} does not go with --stream, which takes INPUT as it is")


def read(input: Path | None, reading: dict[str, Any]) -> Corpus | Stored:
    """Return the corpus of an input, or one on disk as it is; see `Commands`."""
    if input is None:
        return corpora.embedded_corpus()
    # Several processes each read their part of a stored corpus.
    stored = reading["stream"] or (processes.joined() and store.is_stored(input))
    corpus = store.open(input) if stored else counts.read(input, reading)
    directories.check_words(corpus.vocabulary)
    return corpus


def resolve(input: str | None, reading: dict[str, Any]) -> dict[str, Any]:
    """Return options of reading with those that the input decides; see `Commands`."""
    return reading if reading["stream"] else counts.resolved(input, reading)
