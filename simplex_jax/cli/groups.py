"""A group of commands with a default."""

import difflib
from pathlib import Path
from typing import Any

import click


class DefaultGroup(click.Group):
    """A group that runs its command `default` unless the first argument names another one.

    So `lda texts/ --topics 50` is `lda fit texts/ --topics 50`, and `lda report run/` is unchanged.
    The help of the group is that of the default command and the list of the others.
    """

    def __init__(self, name: str, *, default: str, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name the default command where none is named; a misspelt name is not an input."""
        bare = bool(args) and Path(args[0]).name == args[0] and not Path(args[0]).exists()
        name = args[0] if bare else ""
        if name and name not in self.commands:
            for close in difflib.get_close_matches(name, self.commands, n=1):
                ctx.fail(f"No such command {name!r}. Did you mean {close!r}?")
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage of the default command."""
        return self.commands[self._default].collect_usage_pieces(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text of the default command."""
        self.commands[self._default].format_help_text(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the default command, and the commands."""
        self.commands[self._default].format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
