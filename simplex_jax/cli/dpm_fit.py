"""`simplex-jax dpm`: find clusters whose number is not given."""

from pathlib import Path
from typing import Any

import click
import jax
import numpy as np

from simplex_jax import dpm
from simplex_jax.cli import describe, dpm_jobs, dpm_options, dpm_report, options, runs
from simplex_jax.cli.errors import one_line_errors
from simplex_jax.dpm import files
from simplex_jax.dpm.settings import PASSES, PRIOR, starts
from simplex_jax.evaluate import checks, dp_checks
from simplex_jax.evaluate.dp_report import over_represented
from simplex_jax.evaluate.partitions import LOSSES
from simplex_jax.models import dp_mixture
from simplex_jax.runtime import directory as directories

_NAME = "simplex-jax-dpm"
_SHOWN = ["log_predictive", "occupied", "alpha", "rows_per_second"]
_MOST_SHOWN = 30
_KEEP = click.option(
    "--keep-samples",
    default=25,
    type=click.IntRange(1),
    metavar="NUMBER",
    help="Partitions to keep of each chain, evenly spaced over the second half: the clusters are "
    "summarised, and new rows assigned, by them.",
)


@click.command()
@click.argument("input", required=False, type=options.PATH)
@click.option(
    "--alpha", type=options.POSITIVE, help="Concentration of the process.  [default: learned]"
)
@click.option("--alpha-shape", default=PRIOR[0], type=options.POSITIVE, help="Of its Gamma prior.")
@click.option("--alpha-rate", default=PRIOR[1], type=options.POSITIVE, help="Of its Gamma prior.")
@click.option(
    "--alpha-update",
    default="sticks",
    type=click.Choice(dp_mixture.ALPHA_UPDATES),
    help="How it is learned.",
)
@click.option(
    "--concentration",
    default=0.5,
    type=options.POSITIVE,
    help="Of the Dirichlet prior of a cluster's probabilities, per value (not the sum).",
)
@click.option("--chains", default=1, type=click.IntRange(1), help="Chains side by side.")
@options.lengths(PASSES)
@options.run_options(_NAME, _KEEP, "100th")
@click.option(
    "--sampler",
    default="exact",
    type=click.Choice(dp_mixture.SAMPLERS),
    help="How sticks and components move.",
)
@click.option(
    "--counts",
    default="memoised",
    type=click.Choice(dp_mixture.COUNTS),
    help="memoised: exact Gibbs steps, whatever the batch. subsampled: the batch stands for all "
    "rows, an approximation.",
)
@click.option(
    "--variant",
    default="dependent",
    type=click.Choice(dp_mixture.VARIANTS),
    help="Slices below the weights, or below fixed bounds.",
)
@click.option(
    "--atom-step-size",
    type=options.POSITIVE,
    help="Of components.  [default: 0.1; the exact sampler has none]",
)
@click.option("--stick-step-size", type=options.POSITIVE, help="Of sticks, likewise.")
@click.option(
    "--split-merge",
    default=0,
    type=click.IntRange(0),
    metavar="NUMBER",
    help="Split-merge moves in every update (exact sampler, memoised counts).",
)
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    help="In rows.  [default: all; 1000 with subsampled counts]",
)
@click.option(
    "--initial-clusters",
    type=click.IntRange(1),
    help="Clusters that rows start in, at random; chains take from half to twice as many.  "
    "[default: 60, or one for five rows]",
)
@click.option(
    "--capacity",
    default=64,
    type=click.IntRange(1),
    help="Sticks that there is room for at first; it grows when it has to.",
)
@click.option(
    "--loss",
    default="vi",
    type=click.Choice(LOSSES),
    help="What the partition that is shown makes least: variation of information, or Binder's.",
)
@dpm_options.reading_options
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
    """Find clusters of the rows of INPUT, and how many there are, and write them to a directory.

    INPUT is a table of categorical columns (.csv or .tsv, see --format), the Microsoft web data
    (.data), or any corpus that `simplex-jax lda` reads, whose rows are counts. Without it, the
    documentation of the installed Python packages is taken. An INPUT that is named like one of the
    commands below is given as ./NAME.

    Ctrl-C or a termination signal ends a run early: what it has found is written, and --resume
    goes on.
    """
    say = describe.speaker(quiet)
    job, earlier = runs.begin_job(
        _new_job,
        dpm_jobs.resumed,
        given,
        input=input,
        resume=resume,
        out=out,
        overwrite=overwrite,
        say=say,
    )
    data = dpm_jobs.gather(job, say)
    settings = dpm.resolve(int((~data.rows.out).sum()), **job.fit)
    say(_described(data, settings))
    place = runs.begin(
        dpm_jobs.config_of(job, data, settings),
        files.FILES,
        resume=resume,
        earlier=earlier,
        out=out,
        overwrite=overwrite,
    )
    _train(place, job, data, settings, checkpoint_every, quiet, resume is not None)


def _new_job(input: Path | None, given: dict[str, Any]) -> dpm_jobs.Job:
    about_alpha = ["alpha_shape", "alpha_rate", "alpha_update"]
    if given["alpha"] is not None and (idle := options.given(about_alpha)):
        raise click.UsageError(f"{idle[0]} is about learning alpha, and --alpha is given")
    about_steps = ["atom_step_size", "stick_step_size"]
    if given["sampler"] == "exact" and (idle := options.given(about_steps)):
        raise click.UsageError(f"{idle[0]} is for the other samplers: the exact one has no steps")
    typed = {name: found[0] for name in dpm_options.READING if (found := options.given([name]))}
    reading = options.take(dpm_options.READING, given)
    table = dpm_options.holds_categories(input, reading["format"])
    dpm_options.check_typed(typed, table=table, embedded=input is None)
    return dpm_jobs.Job(
        input=None if input is None else str(input.absolute()),
        table=table,
        reading={} if input is None else options.absolute(reading),
        holdout=given.pop("holdout"),
        concentration=given.pop("concentration"),
        fit=given,
    )


def _described(data: dpm_jobs.Data, settings: dpm.Settings) -> str:
    """Say what is about to happen, in two lines."""
    rows, variables = data.rows, data.rows.variables
    empty = f", {data.empty:,} without an observation" if data.empty else ""
    columns = f" of {len(variables.columns)} columns" if variables.kind == "categories" else ""
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    alpha = f"{settings.alpha:g}" if settings.alpha is not None else "learned"
    return (
        f"{len(rows.names):,} rows ({int(rows.out.sum()):,} held out{empty}), "
        f"{data.observed:,} observations, {len(variables.items):,} values{columns}\n"
        f"{settings.sampler} slice sampler with {settings.counts} counts{chains}, alpha {alpha}, "
        f"{settings.batch_size:,} rows a batch, seed {settings.seed}, "
        f"jax {jax.__version__} on {jax.devices()[0].device_kind}"
    )


def _train(
    directory: Path,
    job: dpm_jobs.Job,
    data: dpm_jobs.Data,
    settings: dpm.Settings,
    checkpoint_every: float,
    quiet: bool,
    resume: bool,
) -> None:
    say = describe.speaker(quiet)
    fitted = dpm.fit(
        data.train,
        data.rows.variables.family(),
        heldout=data.rows.heldout,
        hooks=runs.hooks(directory, _SHOWN, settings.seconds, quiet),
        checkpoint=directory / directories.CHECKPOINT,
        checkpoint_every=checkpoint_every,
        resume=resume,
        about={"digest": data.digest, "concentration": job.concentration},
        **job.fit,
    )
    warnings = _warnings(fitted)
    files.write(directory, data.rows, fitted, about={"warnings": warnings})
    dpm_report.render(directory)
    say(_keys(fitted, data))
    capacity = int(fitted.state.occupancy.shape[-1])  # type: ignore[attr-defined]
    if capacity > settings.capacity:
        say(f"the slices asked for more sticks than {settings.capacity}: now there are {capacity}")
    runs.end(directory, "dpm", fitted, warnings, quiet)


def _warnings(fitted: dpm.Fit) -> list[str]:
    clusters = fitted.clusters
    found = dp_checks.mixture_warnings(
        fitted.metrics,
        clusters.sizes,
        clusters.present,
        len(clusters.labels),
        starts=starts(fitted.settings),
    )
    found += checks.chain_warnings(
        fitted.traces["alpha"].size, fitted.diagnostics, np.full(1, np.nan)
    )
    if fitted.interrupted is not None:
        found.append("The run was interrupted before its time.")
    return found


def _keys(fitted: dpm.Fit, data: dpm_jobs.Data) -> str:
    """Describe the clusters, a line each, the largest first."""
    variables, found = data.rows.variables, fitted.clusters
    mean, overall = variables.flat(found.profiles), variables.flat(found.overall)
    items = variables.items
    lines = [
        f"{cluster:4d} {found.sizes[cluster]:8,.0f} rows ({found.lower[cluster]:,.0f} to "
        f"{found.upper[cluster]:,.0f})  " + ", ".join(items[value] for value in values)
        for cluster, values in enumerate(over_represented(mean, overall, 6)[:_MOST_SHOWN])
    ]
    if (more := len(found.sizes) - _MOST_SHOWN) > 0:
        rest = found.sizes[_MOST_SHOWN:].sum()
        lines.append(f"and {more} clusters of {rest:,.0f} rows in all, see clusters.csv")
    lines.append(
        f"clusters in a sample: {min(fitted.occupied)} to {max(fitted.occupied)}; "
        f"alpha {fitted.alpha:.3g}" + (f" (sd {fitted.alpha_sd:.2g})" if fitted.alpha_sd else "")
    )
    return "\n".join(lines)
