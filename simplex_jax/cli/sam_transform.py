"""`simplex-jax sam transform`: topic shares of new documents."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from simplex_jax import spherical
from simplex_jax.cli import describe, options, sam_documents, sam_options
from simplex_jax.cli.errors import one_line_errors
from simplex_jax.runtime import directory
from simplex_jax.spherical import saved


@click.command()
@click.argument("input", type=options.PATH)
@options.model_option
@options.target_options("doc_topics.npz")
@options.seed_option
@sam_options.file_options
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

    Counts are put to the words of the model and weighed as those of the run were; tokens of other
    words are left out. A document without a known word has equal shares of all topics. The file has
    the arrays `proportions` [D, K] and `documents` (their names), as the doc_topics.npz of a run.
    """
    say = describe.speaker(quiet)
    out = options.target(out, input, "doc_topics.npz", overwrite)
    loaded = saved.load(model)
    found = sam_documents.read(loaded, input, reading)
    say(found.said)
    topics = len(loaded.mean)
    shares = np.full((len(found.names), topics), 1 / topics, np.float32)
    shares[found.rows] = spherical.transform(
        loaded.mean, found.vectors, alpha=loaded.alpha, kappa1=loaded.kappa1, seed=seed
    )
    directory.write_proportions(out, found.names, topics, [shares])
    say(f"written to {out}")
