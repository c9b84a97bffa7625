"""Parts of commands shared by models that assign topics to tokens."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simplex_jax._src.cli import counts
from simplex_jax._src.cli.commands import Other, Transform
from simplex_jax._src.models.pipeline import Progress
from simplex_jax._src.models.records import Plan
from simplex_jax._src.models.topics import data
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import directory

INPUT = """INPUT is text or counts in one of the formats that --help-all lists, packed (.gz, .xz,
.bz2, .zip) or not; - is standard input. The default is the embedded corpus. Write ./NAME for an
INPUT that has the name of a command below.

Ctrl-C or a termination signal ends a run early: results so far are written; --resume continues.
"""


def described(plan: Plan) -> str:
    """Return a line on the documents of a run."""
    size = data.size_of(plan.data)
    details = f"{plan.held:,} held out"
    if empty := data.num_empty(plan.data):
        details += f", {empty:,} without a word of the vocabulary"
    return (
        f"{counted(size.documents, 'document')} ({details}), "
        f"{counted(size.tokens, 'token')}, {counted(size.words, 'word')}"
    )


def other(fitted: Any, path: Path, reading: dict[str, Any], model_reading: dict[str, Any]) -> Other:
    """Return other documents over the vocabulary of a fit; see `Commands`."""
    mapped = counts.read_as(fitted.vocabulary, model_reading, path, reading)
    return Other(mapped.corpus, mapped.corpus.names, counts.describe_coverage(mapped))


def write_shares(
    fitted: Any,
    other: Other,
    out: Path,
    seed: int,
    every: bool,
    progress: Progress,
    *,
    rest: bool = False,
) -> list[Path]:
    """Write the topic shares of other documents; see `Transform` and `write_proportions`."""
    number = len(fitted.topics)

    def parts() -> Iterator[directory.Part]:
        for part in fitted.shards(other.data.counts, seed=seed):
            yield part.proportions, part.error
            done = part.first + len(part.error)
            progress("shares of documents", done, len(other.names))

    directory.write_proportions(out, other.names, number, parts(), rest=rest)
    return [out]


def transform(model: str, *, error: str, rest: bool = False) -> Transform:
    """Return the command `transform` of a model whose files have an `error`, in words.

    With `rest` they have the share of topics that are not reported, too.
    """
    more = ", and `other`, the share of topics that are not reported" if rest else ""
    return Transform(
        help=f"""Write the topic shares of the documents of INPUT, given the topics of a run.

        INPUT is in any format that `simplex-jax {model}` reads. Words are matched to those of
        the model; tokens of other words are left out. Like the doc_topics.npz of a run, the file
        has the arrays `proportions` [D, K], `documents` (their names) and `error` ({error}){more}.
        The shares of a document depend only on its words and
        the seed. With --out NAME.csv it is a table with one document a line. Memory use is bounded
        by the size of the corpus.
        """,
        ending="doc_topics.npz",
        write=functools.partial(write_shares, rest=rest),
    )
