"""`simplex-jax dpm transform`: the clusters of new rows."""

from pathlib import Path
from typing import Any

import click

from simplex_jax import dpm
from simplex_jax.cli import describe, dpm_options, dpm_rows, options
from simplex_jax.cli.errors import one_line_errors
from simplex_jax.dpm import files, saved


@click.command()
@click.argument("input", type=options.PATH)
@options.model_option
@options.target_options("clusters.csv")
@click.option(
    "--all", "every", is_flag=True, help="Also write the shares of all clusters, to an .npz."
)
@dpm_options.file_options
@options.common_options
@one_line_errors
def transform(
    input: Path,
    model: Path,
    out: Path | None,
    overwrite: bool,
    every: bool,
    quiet: bool,
    **reading: Any,
) -> None:
    """Write the clusters of the rows of INPUT, given the run in --model.

    A row has the most probable cluster, with its probability; cluster -1 stands for all that are
    not shown, new ones too, where these together are more probable. Values that the model does not
    know are left out, and a row without any has the shares of the clusters in all rows. With --all
    the probabilities of all clusters are written, too: the arrays `proportions` [n, C] and
    `documents` (names of the rows), as in the row_clusters.npz of a run.
    """
    say = describe.speaker(quiet)
    out = options.target(out, input, "clusters.csv", overwrite)
    targets = [out]
    if every:
        targets.append(options.target(out.with_suffix(".npz"), input, "", overwrite))
    loaded = saved.load(model)
    found = dpm_rows.read(loaded, input, reading)
    say(found.said)
    assigned = dpm.assign(loaded.samples, loaded.variables.family(), found.rows)
    files.write_assignment(out, found.names, assigned)
    if every:
        files.write_shares(targets[1], found.names, assigned.shares)
    say(f"written to {' and '.join(map(str, targets))}")
