"""The commands of the spherical admixture model."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src import corpus as corpora
from simplex_jax._src.cli import console, counts, edits, options
from simplex_jax._src.cli.commands import Commands, Other, Transform, load
from simplex_jax._src.cli.console import one_line_errors
from simplex_jax._src.corpus import VectorReading
from simplex_jax._src.corpus.files import as_path
from simplex_jax._src.corpus.formats import registry
from simplex_jax._src.corpus.vectors import IDF, UnitVectors, cut
from simplex_jax._src.evaluate import matching
from simplex_jax._src.models.pipeline import Progress
from simplex_jax._src.models.records import Plan
from simplex_jax._src.models.sam import MODEL, Data, Fit, density, fitting, weigh
from simplex_jax._src.models.sam.data import check_directions, check_weighting, match_vocabulary
from simplex_jax._src.models.sam.fitting import EVALUATED, as_trained, infer, log_densities
from simplex_jax._src.models.sam.joint import to_device
from simplex_jax._src.models.sam.report import strongest
from simplex_jax._src.models.topics import editing
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import output

HELP = """Find topics in INPUT that are directions.

A topic has a loading for every word; a negative one says that the word is absent. INPUT is any
corpus that `simplex-jax lda` reads, whose counts become tf-idf vectors, or unit vectors (see
--format). Without INPUT, the embedded corpus is used. If INPUT has the name of one of the commands
below, write ./NAME.

Ctrl-C or a termination signal ends a run early: results are written, and --resume continues it.
"""
_VECTORS = "vectors"
FILE_OPTIONS = counts.declared_options(VectorReading) | {
    "format": counts.format_option(
        "vectors", "counts", default="recognised, but an .npz is read as counts"
    )
}
WEIGHT_OPTIONS = {
    **counts.TOKEN_OPTIONS,
    "drop_words": counts.VOCABULARY_OPTIONS["drop_words"],
    "min_df": click.option(
        "--min-df",
        default=5,
        type=click.IntRange(1),
        help="Keep words in at least this many documents (counts).",
    ),
    "max_df": click.option(
        "--max-df",
        default=0.5,
        type=click.FloatRange(0, 1, min_open=True),
        help="Keep words in at most this share of the documents (counts).",
    ),
    "max_vocabulary": click.option(
        "--max-vocabulary",
        default=5_000,
        type=click.IntRange(2),
        help="Number of words to keep, those in most documents (counts).",
    ),
    "idf": click.option(
        "--idf",
        default="log",
        type=click.Choice(IDF),
        help="Weight of a word: log(D / (1 + df)), or scikit-learn's log((1 + D) / (1 + df)) + 1 "
        "(counts).",
    ),
}
# The embedded corpus fixes the other reading options.
_OF_EMBEDDED = {"min_df", "max_df", "max_vocabulary", "idf", "drop_words"}
_OF_VECTORS = {"format", "vocabulary", "names", "normalise"}


def _check_reading(input: Path | None, reading: dict[str, Any], typed: Mapping[str, str]) -> None:
    vectors = input is not None and _holds_vectors(input, reading["format"])
    for name, flag in typed.items():
        if vectors and name not in _OF_VECTORS:
            raise click.UsageError(f"{flag} is for counts, and INPUT has unit vectors")
        if not vectors and name == "normalise":
            raise click.UsageError(f"{flag} is for unit vectors, and INPUT has counts")


def _holds_vectors(path: str | Path, format: str | None) -> bool:
    """Return whether an input has unit vectors, by the named or recognised format."""
    if format is not None:
        return format == _VECTORS
    return registry.recognised(as_path(path), "vectors", "counts").kind == "vectors"


def _read(input: Path | None, reading: dict[str, Any]) -> Data | UnitVectors:
    if input is not None and _holds_vectors(input, reading["format"]):
        return _read_vectors(input, reading)
    limits = {name: reading[name] for name in ("min_df", "max_df", "max_vocabulary")}
    if input is None:
        corpus = counts.drop_words(corpora.embedded_corpus(), reading["drop_words"])
    else:
        # The vocabulary is cut afterwards, by document frequency for every format.
        corpus = counts.read_every_word(input, reading)
    corpus = cut(corpus, **limits)
    return weigh(corpus, weighting=reading["idf"])


def _read_vectors(path: Path, reading: dict[str, Any]) -> UnitVectors:
    return corpora.read_vectors(
        path,
        vocabulary=reading["vocabulary"],
        names=reading["names"],
        normalise=reading["normalise"],
    )


def _resolve(input: str | None, reading: dict[str, Any]) -> dict[str, Any]:
    vectors = input is not None and _holds_vectors(input, reading["format"])
    return counts.resolved(input, reading, "vectors" if vectors else "counts")


def _announce(plan: Plan) -> str:
    documents, settings = as_trained(plan.data, plan), plan.settings
    table = documents.vectors.values
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    names = ("alpha", "sigma", "kappa0", "kappa1")
    values = {name: getattr(settings, name) for name in names}
    concentrations = ", ".join(
        f"{name} learned" if isinstance(value, str) else f"{name} {value:g}"
        for name, value in values.items()
    )
    return (
        f"{counted(len(documents.names), 'document')} ({plan.held:,} held out, "
        f"{len(documents.excluded):,} without a direction left out), {table.shape[1]:,} words, "
        f"{table.nnz:,} nonzeros\n"
        f"{counted(settings.num_topics, 'topic')} by {settings.sampler}{chains}, "
        f"{concentrations}, {counted(settings.batch_size, 'document')} a batch, "
        f"step {settings.step_size:.3g}, "
        f"seed {settings.seed}, {console.machine()}"
    )


def _outcome(fitted: Fit) -> str:
    """Describe the topics, one line each, the most prevalent first, with their absent words."""
    return "\n".join(fitted.lines(map(" ".join, strongest(fitted, 9, 3))))


def _complete(fitted: Fit, plan: Plan, source: dict[str, Any], directory: Path) -> Fit:
    """Return a fit with the names of its topics from before it went on."""
    return dataclasses.replace(fitted, topic_names=editing.kept_names(directory))


def _other(fitted: Fit, path: Path, reading: dict[str, Any], earlier: dict[str, Any]) -> Other:
    typed = options.typed(reading)
    _check_reading(path, reading, typed)
    if _holds_vectors(path, reading["format"]):
        vectors = _read_vectors(path, reading)
        shown = f"{len(vectors.names):,} unit vectors"
        return Other(_alike(fitted, vectors, path), vectors.names, shown)
    check_weighting(fitted.weighting, str(path))
    mapped = counts.read_as(fitted.vocabulary, earlier, path, reading)
    documents = _alike(fitted, mapped.corpus, path)
    return Other(documents, documents.names, counts.describe_coverage(mapped))


def _alike(fitted: Fit, documents: Any, path: Path) -> Data:
    return match_vocabulary(documents, fitted.vocabulary, fitted.idf, fitted.weighting, str(path))


def _transform(
    fitted: Fit, other: Other, out: Path, seed: int, every: bool, progress: Progress
) -> list[Path]:
    proportions = infer(fitted, other.data, seed=seed)
    counts.write_titled(fitted, other.names, [(proportions, None)], out)
    return [out]


@click.command()
@click.argument("input", type=options.PATH)
@options.model_option
@click.option(
    "--samples",
    default=EVALUATED,
    type=click.IntRange(1),
    help="Draws of the topic proportions of each document.",
)
@options.seed_option
@options.compose(*FILE_OPTIONS.values())
@options.common_options
@one_line_errors
def evaluate(
    input: Path, model: Path, samples: int, seed: int, quiet: bool, **reading: Any
) -> None:
    """Print how well the topics of a run predict documents, as JSON.

    `log_perplexity` is the mean over the documents of minus their log density on the sphere given
    the mean topics, estimated by importance sampling of their topic proportions from Laplace's
    approximation and the prior; `effective_samples` is the median over documents of the effective
    sample size, and `least_effective_samples` the smallest. `standard_error` is that of the mean
    over such documents, from their standard deviation; null for a single document. `prior_draws`
    has the same with 200 draws from the prior, as in Liu et al. (2016): if its effective samples
    are near 1, it does not estimate the same number.
    """
    say = console.speaker(quiet)
    fitted, earlier = load(MODEL, model)
    other = _other(fitted, input, reading, earlier)
    say(other.coverage)
    documents: Data = check_directions(other.data, str(input))
    inputs = jnp.asarray(fitted.as_trained().topics), to_device(documents.vectors.values)
    concentrations = fitted.alpha, fitted.kappa1
    key_prior = jax.random.split(jax.random.key(seed))[1]
    exact = log_densities(fitted, documents, seed, samples)
    published = density.estimate(
        key_prior, *inputs, *concentrations, density.PRIOR_DRAWS, method="prior"
    )
    measures: dict[str, Any] = {
        "log_perplexity": density.log_perplexity(exact.log_p),
        "standard_error": _standard_error(exact.log_p),
        "documents": len(exact.log_p),
        "without_direction": len(documents.excluded),
        "effective_samples": float(np.median(exact.ess)),
        "least_effective_samples": float(exact.ess.min()),
        "prior_draws": {
            "log_perplexity": density.log_perplexity(published.log_p),
            "effective_samples": float(np.median(published.ess)),
        },
    }
    for warning in fitting.effective_warnings(measures["effective_samples"]):
        say(f"warning: {warning}")
    click.echo(json.dumps(output.plain(measures), indent=2))


def _standard_error(values: np.ndarray) -> float | None:
    """Return the standard error of a mean; None for a single value."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


COMMANDS = Commands(
    model=MODEL,
    help=HELP,
    reading=FILE_OPTIONS | WEIGHT_OPTIONS,
    file_reading=FILE_OPTIONS,
    of_embedded=_OF_EMBEDDED,
    check_reading=_check_reading,
    read=_read,
    resolve_reading=_resolve,
    other=_other,
    shown=("log_perplexity", "kinetic", "documents_per_second"),
    similarity=matching.cosine,
    announce=_announce,
    outcome=_outcome,
    transform=Transform(
        help="""Infer the topic proportions of documents, and write them.

        Counts are mapped to the words of the model and weighted as in the run; tokens of other
        words are ignored. A document without a known word gets equal proportions. The file
        has the arrays `proportions` [D, K] and `documents` (their names), like the doc_topics.npz
        of a run.
        """,
        ending="doc_topics.npz",
        write=_transform,
    ),
    evaluate=evaluate,
    named="when it is resumed",
    complete=_complete,
    following=edits.following(MODEL),
    more=(edits.edit_command(MODEL, _outcome),),
)
