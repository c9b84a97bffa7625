"""`simplex-jax lda`: find the topics of a corpus."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from simplex_jax import topics
from simplex_jax.cli import describe, jobs, options, report, runs
from simplex_jax.cli.errors import one_line_errors
from simplex_jax.corpus import stopwords
from simplex_jax.evaluate import checks
from simplex_jax.models import lda as model
from simplex_jax.models import lda_counts
from simplex_jax.runtime import devices
from simplex_jax.runtime import directory as directories
from simplex_jax.topics import files, memory
from simplex_jax.topics.settings import ALPHA, BETA

_SHOWN = ["perplexity", "tokens_per_second"]


@click.command()
@click.argument("input", required=False, type=options.PATH)
@click.option(
    "--topics", "num_topics", default=30, type=click.IntRange(1), help="Number of topics."
)
@click.option(
    "--alpha",
    default=ALPHA,
    type=options.Concentration("learn", "learn-symmetric"),
    help="Concentration of topic shares, per topic (not the sum). learn: one of each topic, from "
    "the corpus; learn-symmetric: a common one.",
)
@click.option(
    "--beta",
    default=BETA,
    type=options.Concentration("learn", "learn-vector"),
    help="Concentration of words, per word (not the sum). learn: a common one, from the corpus; "
    "learn-vector: one of each word.",
)
@click.option("--chains", default=1, type=click.IntRange(1), help="Chains side by side.")
@click.option(
    "--devices",
    type=click.IntRange(1),
    help="Accelerators, or cores of the CPU, that share the documents.  [default: all]",
)
@options.length_options
@options.run_options("simplex-jax-lda")
@click.option("--dry-run", is_flag=True, help="Read INPUT, print the device memory needed, stop.")
@click.option("--sampler", default="scir", type=click.Choice(model.SAMPLERS))
@click.option(
    "--counts",
    type=click.Choice(model.COUNTS),
    help="memoised keeps the topics of all tokens and is exact with scir; the others estimate.  "
    "[default: memoised, or subsampled with --stream]",
)
@click.option(
    "--local",
    "local_step",
    type=click.Choice(sorted(lda_counts.SWEEPS)),
    help="How the topics of tokens are drawn.  [default: collapsed]",
)
@click.option(
    "--step-size", type=options.POSITIVE, help="A constant.  [default: set by the sampler]"
)
@click.option("--batch-size", type=click.IntRange(1), help="In documents.  [default: by size]")
@click.option(
    "--sweeps",
    type=click.IntRange(1),
    help="Gibbs sweeps over a batch.  [default: 1 if memoised, else 10]",
)
@click.option(
    "--stream",
    is_flag=True,
    help="Read batches of INPUT, made by `store`, from the disk: for corpora larger than memory.",
)
@options.reading_options
@options.common_options
@one_line_errors
def fit(
    input: Path | None,
    resume: Path | None,
    out: Path | None,
    overwrite: bool,
    dry_run: bool,
    quiet: bool,
    checkpoint_every: float,
    **given: Any,
) -> None:
    """Find topics in INPUT and write them, with their uncertainty, to a directory.

    INPUT is a folder of texts, a file with one document a line, CSV, TSV or JSON lines, UCI
    bag-of-words (docword), lda-c, Matrix Market, SVMlight, a SciPy sparse matrix (.npz), AnnData
    (.h5ad) or a corpus made by `store`. Without it, topics of the documentation of the installed
    Python packages are found. An INPUT that is named like one of the commands below is given as
    ./NAME.

    Ctrl-C or a termination signal ends a run early: what it has found is written, and --resume
    goes on.
    """
    say = describe.speaker(quiet)
    job, earlier = runs.begin_job(
        _new_job,
        jobs.resumed,
        given,
        input=input,
        resume=resume,
        out=None if dry_run else out,
        overwrite=overwrite,
        say=say,
    )
    job.fit["devices"] = devices.use(job.fit["devices"])
    data = jobs.gather(job, say)
    settings = topics.resolve(data.train, **job.fit)
    say(describe.run(data, settings))
    if found := [] if quiet else stopwords.suggest(data.documents, 10):
        say(describe.stop_words(found))
    if dry_run:
        click.echo(describe.memory(memory.estimate(data.train, settings, heldout=data.heldout)))
        return
    place = runs.begin(
        jobs.config_of(job, data, settings),
        files.FILES,
        resume=resume,
        earlier=earlier,
        out=out,
        overwrite=overwrite,
    )
    _train(place, job, data, settings, checkpoint_every, quiet, resume is not None)


def _new_job(input: Path | None, given: dict[str, Any]) -> jobs.Job:
    reading = options.take(options.READING, given)
    typed = options.given(options.READING)
    if input is None and (typed or given["stream"]):
        what = typed[0] if typed else "--stream"
        raise click.UsageError(f"{what} is about reading an INPUT, and there is none")
    stream, holdout = given.pop("stream"), given.pop("holdout")
    if stream and typed:
        raise click.UsageError(f"{typed[0]} does not go with --stream, which takes INPUT as it is")
    given["counts_estimate"] = given.pop("counts")
    given["local"] = given.pop("local_step")
    return jobs.Job(
        input=None if input is None else str(input.absolute()),
        reading={} if input is None else options.absolute(reading),
        stream=stream,
        holdout=holdout,
        fit=given,
    )


def _train(
    directory: Path,
    job: jobs.Job,
    data: jobs.Data,
    settings: topics.Settings,
    checkpoint_every: float,
    quiet: bool,
    resume: bool,
) -> None:
    say = describe.speaker(quiet)
    fitted = topics.fit(
        data.train,
        heldout=data.heldout,
        documents=None if job.stream else data.documents,
        among=data.among,
        hooks=runs.hooks(directory, _SHOWN, settings.seconds, quiet),
        checkpoint=directory / directories.CHECKPOINT,
        checkpoint_every=checkpoint_every,
        resume=resume,
        samples_dir=directory / directories.SAMPLES,
        **job.fit,
    )
    warnings = _warnings(data, fitted)
    files.write(directory, data.documents, fitted, about={"warnings": warnings})
    report.render(directory)
    say(describe.keys(fitted, data.documents))
    if job.stream:
        say(f"topic shares of documents: simplex-jax lda transform --model {directory} {job.input}")
    runs.end(directory, "lda", fitted, warnings, quiet)


def _warnings(data: jobs.Data, fitted: topics.Fit) -> list[str]:
    found = checks.topic_warnings(fitted.metrics, fitted.mean, fitted.prevalence)
    found += checks.chain_warnings(fitted.samples, fitted.diagnostics, fitted.stability)
    if fitted.interrupted is not None:
        found.append("The run was interrupted before its time.")
    stiffness = fitted.metrics[-1].get("stiffness", 0.0) if fitted.metrics else 0.0
    if stiffness > 2:
        found.append(
            f"The steps of SMLD were beyond its stability (stiffness {stiffness:.0f}, at most 2): "
            "the topics are no posterior samples. Steps short enough mix slowly; scir has no limit."
        )
    if empty := int((np.diff(data.documents.counts.indptr) == 0).sum()):
        found.append(f"Without a word of the vocabulary: {empty:,} documents.")
    return found
