"""The command line, `simplex-jax`.

A model's modules, and JAX with them, are imported when one of its commands is used. `--version`,
`--help`, also of a model, and shell completion of model and command names do not import them;
completion of options does, which takes a few seconds.
"""

import difflib
import functools
import importlib
import logging
import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from simplex_jax._src.cli.groups import DefaultGroup, Members
from simplex_jax._src.models import NAMES
from simplex_jax._src.native import VARIABLE
from simplex_jax._src.version import __version__

HELP = Path(__file__).parent / "help"
"""The folder of the pages of help of the models, which `docs/options.py` writes."""

_VERBS = ("fit", "transform", "report", "evaluate")
"""The commands of all models."""
_MORE = {
    "lda": ("effects", "correlate", "edit", "export", "store"),
    "hdp": ("edit",),
    "sam": ("edit",),
}
"""Further commands of each model, as `Commands.more` declares them."""


def _local_step() -> str:
    """Return how LDA's local step is lowered, judged by the installed files."""
    folder = Path(__file__).parent.parent / "models" / "topics" / "native"
    on = os.environ.get(VARIABLE) != "0"
    lowerings = [
        f"on {name} by {'native code' if on and any(folder.glob(pattern)) else 'XLA'}"
        for name, pattern in (("CPUs", "_library*"), ("NVIDIA GPUs", "_cuda*"))
    ]
    return f"local step of LDA {', '.join(lowerings)}"


def _members(model: str) -> dict[str, click.Command]:
    """Import a model and return its commands by name."""
    from simplex_jax._src.cli import verbs

    return verbs.members(
        importlib.import_module(f"simplex_jax._src.models.{model}.commands").COMMANDS
    )


class _Models(click.Group):
    """A group of models, imported when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the models."""
        return list(NAMES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the group of commands of a model."""
        if name not in NAMES:
            return None
        verbs = _VERBS + _MORE.get(name, ())
        members = Members(verbs, functools.partial(_members, name))
        return DefaultGroup(
            name,
            default="fit",
            commands=members,
            page=HELP / f"{name}.txt",
            short_help=NAMES[name],
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the group of a model; for another name, say which may be meant."""
        if args[0] not in NAMES and not args[0].startswith("-") and not ctx.resilient_parsing:
            close = difflib.get_close_matches(args[0], NAMES, n=1)
            meant = f"Did you mean {close[0]!r}?" if close else f"There are {', '.join(NAMES)}."
            ctx.fail(f"No such command {args[0]!r}. {meant}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of models and options without importing models, as `click.Group` would."""
        models = [
            CompletionItem(name, help=summary)
            for name, summary in NAMES.items()
            if name.startswith(incomplete)
        ]
        return models + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the models without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(NAMES.items()))


@click.group(
    cls=_Models, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(
    __version__,
    prog_name="simplex-jax",
    message=f"%(prog)s, version %(version)s, {_local_step()}",
)
def main() -> None:
    """Sample models of the probability simplex and of the sphere.

    Compiled programs are kept in the user's folder of caches, so that the next run starts sooner;
    SIMPLEX_JAX_PROGRAMS=0 turns that off.
    """
    # Matplotlib tells of a cache in a home directory that cannot be written to.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
