"""A group of commands one of which need not be named."""

import click


class DefaultGroup(click.Group):
    r"""A group that runs its command `default` unless the first argument names another one.

    So `lda texts/ --topics 50` is `lda fit texts/ --topics 50`, and `lda report run/` is what it
    says. The help of the group is that of the default command and the list of the others.

    Args:
        default: Name of a command that will be added.
        **attributes: As for `click.Group`.

    Example:
        >>> import click
        >>> from click.testing import CliRunner
        >>> group = DefaultGroup("lda", default="fit")
        >>> @group.command()
        ... @click.argument("input", default="the corpus")
        ... def fit(input):
        ...     print("fits", input)
        >>> @group.command()
        ... def report():
        ...     print("reports")
        >>> [CliRunner().invoke(group, line).output for line in ([], ["texts"], ["report"])]
        ['fits the corpus\n', 'fits texts\n', 'reports\n']
    """

    def __init__(self, name: str | None = None, *, default: str, **attributes: object) -> None:
        super().__init__(name, **attributes)  # type: ignore[arg-type]
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name the default command where none is named."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Give the usage of the default command."""
        return self.commands[self._default].collect_usage_pieces(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text of the default command."""
        self.commands[self._default].format_help_text(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the default command, and the commands."""
        self.commands[self._default].format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
