"""The command line, `simplex-jax`.

The commands of a model are loaded when one of them is asked for: `--version`, `--help` and the
completion of names need none of it.
"""

import importlib
import os
from pathlib import Path

import click

import simplex_jax
from simplex_jax.models import NAMES
from simplex_jax.native import VARIABLE


def _local_step() -> str:
    """Name the lowering of LDA's local step on CPUs, by a look at the files alone."""
    folder = Path(simplex_jax.__file__).parent / "models" / "topics" / "native"
    native = os.environ.get(VARIABLE) != "0" and any(folder.glob("_library*"))
    return f"local step of LDA on CPUs by {'native code' if native else 'XLA'}"


class _Models(click.Group):
    """The models by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the models."""
        return list(NAMES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the commands of a model."""
        if name not in NAMES:
            return None
        from simplex_jax.cli import commands

        return commands.group(
            importlib.import_module(f"simplex_jax.models.{name}.commands").COMMANDS
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the models without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(NAMES.items()))


@click.group(
    cls=_Models, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(
    simplex_jax.__version__,
    prog_name="simplex-jax",
    message=f"%(prog)s, version %(version)s, {_local_step()}",
)
def main() -> None:
    """Sample models of the probability simplex and of the sphere."""
