"""The command line, `simplex-jax`."""

import click

import simplex_jax
from simplex_jax.cli import dpm, lda, sam


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(simplex_jax.__version__, prog_name="simplex-jax")
def main() -> None:
    """Sample models of the probability simplex and of the sphere."""


main.add_command(lda.lda)
main.add_command(sam.sam)
main.add_command(dpm.dpm)
