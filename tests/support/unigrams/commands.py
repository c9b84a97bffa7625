"""The commands of a mixture of unigrams."""

from pathlib import Path
from typing import Any

import click
import numpy as np
from simplex_jax._src.models.unigrams import MODEL, Fit

from simplex_jax._src import corpus as corpora
from simplex_jax._src.cli import counts, options
from simplex_jax._src.cli.commands import Commands, Other, Transform, load
from simplex_jax._src.cli.console import one_line_errors
from simplex_jax._src.models.pipeline import Progress
from simplex_jax._src.models.records import Plan
from simplex_jax._src.runtime import directory


def _read(path: Path | None, reading: dict[str, Any]) -> corpora.Corpus:
    return corpora.embedded_corpus() if path is None else counts.read(path, reading)


def _other(fitted: Fit, path: Path, reading: dict[str, Any], earlier: dict[str, Any]) -> Other:
    mapped = counts.read_as(fitted.vocabulary, earlier, path, reading)
    return Other(mapped.corpus, mapped.corpus.names, counts.describe_coverage(mapped))


def _announce(plan: Plan) -> str:
    return f"{len(plan.train.names):,} documents, {plan.settings.num_topics} topics"


def _outcome(fitted: Fit) -> str:
    return " ".join(f"{100 * share:.0f}%" for share in fitted.shares)


def _transform(
    fitted: Fit, other: Other, out: Path, seed: int, every: bool, progress: Progress
) -> list[Path]:
    shares = fitted.transform(other.data)
    directory.write_proportions(out, other.names, shares.shape[1], [(shares, None)])
    return [out]


@click.command()
@click.argument("input", type=options.PATH)
@options.model_option
@options.compose(*counts.FILE_OPTIONS.values())
@options.common_options
@one_line_errors
def evaluate(input: Path, model: Path, quiet: bool, **reading: Any) -> None:
    """Print how sure the labels of documents are."""
    fitted, earlier = load(MODEL, model)
    other = _other(fitted, input, reading, earlier)
    click.echo(f"{np.max(fitted.transform(other.data), axis=1).mean():.4f}")


COMMANDS = Commands(
    model=MODEL,
    help="Find kinds of documents in INPUT.",
    reading=counts.READING,
    file_reading=counts.FILE_OPTIONS,
    read=_read,
    resolve_reading=counts.resolved,
    other=_other,
    shown=("log_density",),
    announce=_announce,
    outcome=_outcome,
    transform=Transform(
        help="Write the probabilities of the labels of documents.",
        ending="doc_topics.npz",
        write=_transform,
        random=False,
    ),
    evaluate=evaluate,
)
