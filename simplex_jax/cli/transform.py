"""`simplex-jax lda transform`: topic shares of new documents."""

from pathlib import Path
from typing import Any

import click

from simplex_jax import topics
from simplex_jax.cli import describe, documents, options
from simplex_jax.cli.errors import one_line_errors
from simplex_jax.runtime import directory
from simplex_jax.topics import saved


@click.command()
@click.argument("input", type=options.PATH)
@options.model_option
@options.target_options("doc_topics.npz")
@options.seed_option
@options.file_options
@options.common_options
@one_line_errors
def transform(
    input: Path,
    model: Path,
    out: Path | None,
    overwrite: bool,
    seed: int,
    quiet: bool,
    **reading: Any,
) -> None:
    """Write the topic shares of the documents of INPUT, given the topics of a run.

    INPUT is in any format that `simplex-jax lda` reads. Its words are put to those of the model;
    tokens of other words are left out. The file has the arrays `proportions` [D, K] and `documents`
    (their names), as the doc_topics.npz of a run. Memory is bounded by the corpus itself.
    """
    say = describe.speaker(quiet)
    out = options.target(out, input, "doc_topics.npz", overwrite)
    loaded = saved.load(model)
    found = documents.read(loaded, input, reading)
    say(documents.described(found))
    parts = topics.shards(loaded.mean, loaded.alpha, found.corpus, seed=seed)
    names, count = found.corpus.names, len(loaded.alpha)
    directory.write_proportions(out, names, count, (rows for _, rows in parts))
    say(f"written to {out}")
