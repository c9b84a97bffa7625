"""A group of commands with a default command, made on first use; options in named groups."""

import difflib
import functools
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

PROGRAM = "simplex-jax"
"""The name of the program, with which pages of help begin."""

_COLUMNS, _MARGIN = 80, 2  # of the widest help, and those that click leaves free


def page_of(main: click.Group, name: str) -> str:
    """Return the help of a group in a group, as terminals of at least 80 columns show it."""
    width = _COLUMNS - _MARGIN
    with click.Context(
        main, info_name=PROGRAM, terminal_width=width, **main.context_settings
    ) as ctx:
        group = main.get_command(ctx, name)
        assert group is not None
        return click.Context(group, parent=ctx, info_name=name).get_help() + "\n"


class Members(Mapping[str, click.Command]):
    """Commands by name, made on first use; only their names are known before.

    Args:
        names: Names of the commands.
        make: Returns the commands by name; called once, when one is used.
    """

    def __init__(self, names: Sequence[str], make: Callable[[], Mapping[str, click.Command]]):
        self._names, self._make = names, make

    @functools.cached_property
    def _commands(self) -> Mapping[str, click.Command]:
        return self._make()

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._names:
            raise KeyError(name)
        return self._commands[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class DefaultGroup(click.Group):
    """A group that runs its command `default` unless the first argument names another one.

    So `lda texts/ --topics 50` is `lda fit texts/ --topics 50`, and `lda report run/` is unchanged.
    The help of the group is that of the default command and a list of all commands.

    Args:
        name: Its name.
        default: Name of the default command.
        commands: The commands by name.
        page: File of its help, as terminals of at least 80 columns show it: making the commands
            takes longer.
        **attributes: Those of `click.Group`.
    """

    def __init__(
        self,
        name: str,
        *,
        default: str,
        commands: Mapping[str, click.Command],
        page: Path,
        **attributes: Any,
    ) -> None:
        # click changes them only when a command is added.
        super().__init__(name, cast(MutableMapping, commands), **attributes)
        self._default, self._page = default, page

    def get_help(self, ctx: click.Context) -> str:
        """Return the page of help, or make it for a narrow terminal."""
        wide = ctx.terminal_width is None and shutil.get_terminal_size().columns >= _COLUMNS
        if wide and ctx.command_path == f"{PROGRAM} {self.name}" and self._page.exists():
            return self._page.read_text("utf-8").rstrip("\n")
        return super().get_help(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command if none is named; a misspelt name is not an input."""
        if ctx.resilient_parsing and not args:  # Shell completion of the first word.
            return super().parse_args(ctx, args)
        bare = bool(args) and Path(args[0]).name == args[0] and not Path(args[0]).exists()
        name = args[0] if bare else ""
        if name and name not in self.commands and not ctx.resilient_parsing:
            for close in difflib.get_close_matches(name, self.commands, n=1):
                ctx.fail(f"No such command {name!r}. Did you mean {close!r}?")
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names, without making commands, and options of the default command."""
        if incomplete.startswith("-"):
            default = self.commands[self._default]
            with default.make_context(self._default, [], ctx, resilient_parsing=True) as inner:
                return default.shell_complete(inner, incomplete)
        names = [name for name in self.commands if name.startswith(incomplete)]
        # Files first: bash forgets items that come before them.
        return [CompletionItem(incomplete, type="file"), *map(CompletionItem, names)]

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage of the default command."""
        return self.commands[self._default].collect_usage_pieces(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help text of the default command."""
        self.commands[self._default].format_help_text(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the default command, and the commands."""
        self.commands[self._default].format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


COMMON = "Common options"
_ALL = "simplex_jax.all_options"  # whether help lists them, in the context's `meta`


class GroupedCommand(click.Command):
    """A command whose help has its options in named groups: `--help` the common ones only.

    Args:
        groups: Names of parameters by title of their group, `COMMON` first; a parameter is in the
            first group that names it, and in the last one if none does.
        examples: Command lines to begin the help with.
    """

    def __init__(
        self,
        *arguments: Any,
        groups: Mapping[str, Collection[str]],
        examples: Sequence[str],
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self._groups, self._examples = groups, examples
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                callback=_show_all,
                help="Show all options and exit.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and the groups of options."""
        with formatter.section("Examples"):
            for example in self._examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        records: dict[str, list[tuple[str, str]]] = {title: [] for title in self._groups}
        for param in sorted(self.get_params(ctx), key=self._place):
            if not isinstance(param, click.Option):
                continue  # the help text describes arguments
            if (record := param.get_help_record(ctx)) is not None:
                records[self._group_of(param)].append(record)
        for title, entries in records.items():
            if entries and (title == COMMON or ctx.meta.get(_ALL)):
                with formatter.section(title):
                    formatter.write_dl(entries)
        if not ctx.meta.get(_ALL):
            others = [title.lower() for title in records if title != COMMON and records[title]]
            formatter.write_paragraph()
            formatter.write_text(f"--help-all also lists further options: {', '.join(others)}.")

    def _place(self, param: click.Parameter) -> int:
        """Return the place of a parameter among the common ones; others keep their order."""
        common, name = list(self._groups[COMMON]), _name(param)
        return common.index(name) if name in common else len(common)

    def _group_of(self, param: click.Parameter) -> str:
        """Return the title of the group of a parameter."""
        name, last = _name(param), list(self._groups)[-1]
        return next((title for title, own in self._groups.items() if name in own), last)


def _name(param: click.Parameter) -> str:
    return "help" if "--help" in param.opts else param.name or ""


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
