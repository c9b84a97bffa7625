"""Pages of docs/: their Python blocks by section title, to be run, and their commands."""

import re
from pathlib import Path
from typing import Any

import click

from support.paths import ROOT

DOCS = ROOT / "docs"


def text(page: str) -> str:
    """The text of a page."""
    return (DOCS / page).read_text("utf-8")


def blocks(page: str) -> dict[str, str]:
    """The Python block of each section that has one; no section has two."""
    result = {}
    for title, section in re.findall(
        r"^## (.*?)\n(.*?)(?=^## |\Z)", text(page), re.DOTALL | re.MULTILINE
    ):
        code = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
        assert len(code) <= 1, f"{page}, {title}: {len(code)} blocks"
        if code:
            result[title] = code[0]
    return result


def executed(page: str, title: str) -> dict[str, Any]:
    """Run the block of a section, and return its names."""
    scope: dict[str, Any] = {}
    exec(compile(blocks(page)[title], f"{page}, {title}", "exec"), scope)
    return scope


def all_run(page: str, test: str) -> bool:
    """Whether a test file runs every block of a page, by `executed("<title>")`."""
    source = Path(test).read_text("utf-8")
    return all(f'executed("{title}")' in source for title in blocks(page))


def parse(command: click.Command, arguments: list[str]) -> None:
    """Parse a command line to its end, through groups."""
    context = command.make_context(command.name, arguments)
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        _, command, rest = command.resolve_command(context, rest)
        context = command.make_context(command.name, rest, parent=context)
