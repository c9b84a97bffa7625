"""What the commands of models of the topics of tokens share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simplex_jax.cli import counts
from simplex_jax.cli.commands import Other, Transform
from simplex_jax.models.pipeline import Plan, Progress
from simplex_jax.models.topics import data
from simplex_jax.models.topics.proportions import shards
from simplex_jax.runtime import directory

INPUT = """INPUT is text or counts in one of the formats listed at --format, packed (.gz, .xz, .bz2,
.zip) or not; - is standard input. Without it, topics of the embedded corpus are found. An INPUT
that is named like one of the commands below is given as ./NAME.

Ctrl-C or a termination signal ends a run early: what it has found is written, and --resume goes on.
"""


def described(plan: Plan) -> str:
    """Return a line on the documents of a run."""
    size = data.size_of(plan.data)
    return (
        f"{size.documents:,} documents ({plan.held:,} held out), {size.tokens:,} tokens, "
        f"{size.words:,} words"
    )


def other(fitted: Any, path: Path, reading: dict[str, Any], earlier: dict[str, Any]) -> Other:
    """Return other documents in the words of a fit; see `Commands`."""
    mapped = counts.read_as(fitted.vocabulary, earlier, path, reading)
    return Other(mapped.corpus, mapped.corpus.names, counts.described(mapped))


def write_shares(
    fitted: Any, other: Other, out: Path, seed: int, every: bool, progress: Progress
) -> list[Path]:
    """Write the topic shares of other documents; see `Transform`."""

    def parts() -> Iterator[directory.Part]:
        for part in shards(fitted.mean, fitted.alpha, other.data, seed=seed):
            yield part.proportions, part.error
            done = part.first + len(part.error)
            progress("shares of documents", done, len(other.names))

    directory.write_proportions(out, other.names, len(fitted.alpha), parts())
    return [out]


def transform(model: str) -> Transform:
    """Return the command `transform` of a model."""
    return Transform(
        help=f"""Write the topic shares of the documents of INPUT, given the topics of a run.

        INPUT is in any format that `simplex-jax {model}` reads. Its words are put to those of the
        model; tokens of other words are left out. The file has the arrays `proportions` [D, K],
        `documents` (their names) and `error` (Monte-Carlo error of the most uncertain share of
        each, 0.02 or less but for documents that mix slowly), as the doc_topics.npz of a run. The
        shares of a document depend on its words and the seed alone. With --out NAME.csv it is a
        table of these, a document a line. Memory is bounded by the corpus itself.
        """,
        ending="doc_topics.npz",
        write=write_shares,
    )
