"""`simplex-jax lda store`: a corpus on disk, for runs that read it batch by batch."""

from pathlib import Path
from typing import Any

import click

from simplex_jax.cli import describe, options
from simplex_jax.cli.errors import one_line_errors


@click.command()
@click.argument("input", type=options.PATH)
@click.argument("directory", type=options.PATH)
@options.reading_options
@options.common_options
@one_line_errors
def store(input: Path, directory: Path, quiet: bool, **reading: Any) -> None:
    """Write INPUT to DIRECTORY as a corpus that can be read batch by batch.

    DIRECTORY is then an INPUT like any other, or with --stream one of which only batches are in
    memory. Bag-of-words files (uci, ldac) are never in memory as a whole.
    """
    stored = options.convert(input, directory, reading)
    describe.speaker(quiet)(
        f"{stored.documents:,} documents, {stored.tokens:,} tokens, "
        f"{len(stored.vocabulary):,} words written to {directory}"
    )
