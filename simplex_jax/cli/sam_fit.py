"""`simplex-jax sam`: find topics that are directions."""

from pathlib import Path
from typing import Any

import click
import jax
import numpy as np

from simplex_jax import spherical
from simplex_jax.cli import describe, options, runs, sam_jobs, sam_options, sam_report
from simplex_jax.cli.errors import one_line_errors
from simplex_jax.evaluate import checks, spherical_checks
from simplex_jax.evaluate.spherical_report import signed_words
from simplex_jax.models import sam as model
from simplex_jax.models import sam_local
from simplex_jax.runtime import directory as directories
from simplex_jax.spherical import files, starts
from simplex_jax.spherical.settings import ALPHA, PASSES

_NAME = "simplex-jax-sam"
_SHOWN = ["log_perplexity", "kinetic", "documents_per_second"]


@click.command()
@click.argument("input", required=False, type=options.PATH)
@click.option(
    "--topics", "num_topics", default=20, type=click.IntRange(1), help="Number of topics."
)
@click.option(
    "--alpha",
    default=ALPHA,
    type=options.POSITIVE,
    help="Concentration of topic shares, per topic (not the sum).",
)
@click.option(
    "--sigma",
    type=options.POSITIVE,
    help="Concentration of the topics about their mean.  [default: 2 for each word]",
)
@click.option(
    "--kappa0",
    type=options.POSITIVE,
    help="Concentration of that mean about the mean of the documents.  [default: 2 for each word]",
)
@click.option(
    "--kappa1",
    type=options.POSITIVE,
    help="Concentration of documents about their topics.  [default: 6 for each word]",
)
@click.option(
    "--learn",
    multiple=True,
    type=click.Choice(model.LEARN),
    help="A concentration to learn, what is given being its prior mean; may be repeated.",
)
@click.option("--chains", default=1, type=click.IntRange(1), help="Chains side by side.")
@options.lengths(PASSES)
@options.run_options(_NAME)
@click.option("--sampler", default="gsgnht", type=click.Choice(model.SAMPLERS))
@click.option(
    "--local",
    default="hmc",
    type=click.Choice(sam_local.METHODS),
    help="How topic shares are drawn.",
)
@click.option(
    "--start",
    default="variational",
    type=click.Choice(starts.STARTS),
    help="Where chains begin: at topics of a short variational inference, or at prior draws.",
)
@click.option(
    "--step-size", type=options.POSITIVE, help="A constant.  [default: set by the sampler]"
)
@click.option(
    "--friction", type=options.POSITIVE, help="Of sggmc and gsgnht.  [default: set by the sampler]"
)
@click.option(
    "--inner-steps", type=click.IntRange(1), help="Steps of an update.  [default: by sampler]"
)
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    help="In documents.  [default: all]",
)
@sam_options.reading_options
@options.common_options
@one_line_errors
def fit(
    input: Path | None,
    resume: Path | None,
    out: Path | None,
    overwrite: bool,
    quiet: bool,
    checkpoint_every: float,
    **given: Any,
) -> None:
    """Find topics in INPUT that are directions, and write them to a directory.

    A topic has a loading for every word, positive or negative: it can say that a word is absent.
    INPUT is any corpus that `simplex-jax lda` reads, whose counts become tf-idf vectors, or unit
    vectors (see --format). Without it, topics of the documentation of the installed Python packages
    are found. An INPUT that is named like one of the commands below is given as ./NAME.

    Ctrl-C or a termination signal ends a run early: what it has found is written, and --resume
    goes on.
    """
    say = describe.speaker(quiet)
    job, earlier = runs.begin_job(
        _new_job,
        sam_jobs.resumed,
        given,
        input=input,
        resume=resume,
        out=out,
        overwrite=overwrite,
        say=say,
    )
    data = sam_jobs.gather(job, say)
    settings = spherical.resolve(data.train, **job.fit)
    say(_described(data, settings))
    place = runs.begin(
        sam_jobs.config_of(job, data, settings),
        files.FILES,
        resume=resume,
        earlier=earlier,
        out=out,
        overwrite=overwrite,
    )
    _train(place, job, data, settings, checkpoint_every, quiet, resume is not None)


def _new_job(input: Path | None, given: dict[str, Any]) -> sam_jobs.Job:
    reading = options.take(sam_options.READING, given)
    vectors = sam_jobs.holds_vectors(input, reading["format"])
    sam_options.check_typed(sam_options.READING, vectors=vectors, embedded=input is None)
    return sam_jobs.Job(
        input=None if input is None else str(input.absolute()),
        vectors=vectors,
        reading=options.absolute(reading),
        holdout=given.pop("holdout"),
        fit=given,
    )


def _described(data: sam_jobs.Data, settings: spherical.Settings) -> str:
    """Say what is about to happen, in two lines."""
    found = data.documents
    held = 0 if data.heldout is None else len(data.heldout.names)
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    learned = f" (learned: {', '.join(settings.learn)})" if settings.learn else ""
    return (
        f"{len(found.names):,} documents ({held:,} held out, {len(data.aside):,} without a "
        f"direction put aside), {len(found.vectors.vocabulary):,} words, "
        f"{found.vectors.values.nnz:,} nonzeros\n"
        f"{settings.num_topics} topics by {settings.sampler}{chains}, alpha {settings.alpha:g}, "
        f"sigma {settings.sigma:g}, kappa0 {settings.kappa0:g}, kappa1 {settings.kappa1:g}{learned}"
        f", {settings.batch_size:,} documents a batch, step {settings.step_size:.3g}, "
        f"seed {settings.seed}, jax {jax.__version__} on {jax.devices()[0].device_kind}"
    )


def _train(
    directory: Path,
    job: sam_jobs.Job,
    data: sam_jobs.Data,
    settings: spherical.Settings,
    checkpoint_every: float,
    quiet: bool,
    resume: bool,
) -> None:
    say = describe.speaker(quiet)
    fitted = spherical.fit(
        data.train,
        heldout=data.heldout,
        documents=data.documents.vectors,
        hooks=runs.hooks(directory, _SHOWN, settings.seconds, quiet),
        checkpoint=directory / directories.CHECKPOINT,
        checkpoint_every=checkpoint_every,
        resume=resume,
        samples_dir=directory / directories.SAMPLES,
        **job.fit,
    )
    warnings = _warnings(data, fitted)
    about = {"warnings": warnings, "aside": data.aside}
    files.write(directory, data.documents, fitted, about=about)
    sam_report.render(directory)
    say(_keys(fitted, data.documents.vectors.vocabulary))
    runs.end(directory, "sam", fitted, warnings, quiet)


def _warnings(data: sam_jobs.Data, fitted: spherical.Fit) -> list[str]:
    found = [*fitted.warnings]
    found += spherical_checks.topic_warnings(fitted.metrics, fitted.mean, fitted.length)
    found += checks.chain_warnings(fitted.samples, fitted.diagnostics, fitted.stability)
    if fitted.interrupted is not None:
        found.append("The run was interrupted before its time.")
    if aside := data.aside:
        shown = ", ".join(aside[:5]) + (", ..." if len(aside) > 5 else "")
        found.append(
            f"Without a word that has a weight, and put aside with equal shares of all topics: "
            f"{len(aside):,} documents ({shown}; summary.json names all)."
        )
    return found


def _keys(fitted: spherical.Fit, vocabulary: tuple[str, ...]) -> str:
    """Describe the topics, a line each, the most prevalent first, and what they lack."""
    words = signed_words(fitted.mean, 9, 3)
    return "\n".join(
        f"{topic:4d} {100 * fitted.prevalence[topic]:5.1f} %  "
        + " ".join([vocabulary[w] for w in words[topic][0]] + _absent(words[topic][1], vocabulary))
        for topic in np.argsort(-fitted.prevalence, kind="stable")
    )


def _absent(words: np.ndarray, vocabulary: tuple[str, ...]) -> list[str]:
    return [f"-{vocabulary[w]}" for w in words]
