"""`simplex-jax dpm evaluate`: how well a fitted mixture predicts other rows."""

import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from simplex_jax import dpm
from simplex_jax.cli import describe, dpm_options, dpm_rows, options
from simplex_jax.cli.errors import one_line_errors
from simplex_jax.dpm import saved
from simplex_jax.runtime import output


@click.command()
@click.argument("input", type=options.PATH)
@options.model_option
@dpm_options.file_options
@options.common_options
@one_line_errors
def evaluate(input: Path, model: Path, quiet: bool, **reading: Any) -> None:
    """Print how well the mixtures of a run predict the rows of INPUT, as JSON.

    `log_predictive` is the mean over the rows of the log of their probability, averaged over the
    samples that the run has kept, new clusters included; `log_predictive_samples` has the mean and
    the least and largest value of single samples. Of counts the multinomial coefficient is left
    out. `new` is the mean probability that a row is the first of a new cluster.
    """
    say = describe.speaker(quiet)
    loaded = saved.load(model)
    found = dpm_rows.read(loaded, input, reading)
    say(found.said)
    assigned = dpm.assign(loaded.samples, loaded.variables.family(), found.rows)
    each, average = assigned.log_densities.mean(axis=1), assigned.log_predictive
    spread = float(average.std(ddof=1) / np.sqrt(len(average))) if len(average) > 1 else None
    measures = {
        "log_predictive": float(average.mean()),
        "standard_error": spread,
        "rows": len(average),
        "samples": len(each),
        "log_predictive_samples": {
            "mean": float(each.mean()),
            "least": float(each.min()),
            "largest": float(each.max()),
        },
        "new": float(assigned.new.mean()),
    }
    click.echo(json.dumps(output.plain(measures), indent=2))
