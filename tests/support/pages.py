"""The Python in pages of docs/, by the title of its section, to be run."""

import re
from pathlib import Path
from typing import Any

from support.paths import ROOT

DOCS = ROOT / "docs"


def blocks(page: str) -> dict[str, str]:
    """The block of Python of each section that has one; no section has two."""
    text = (DOCS / page).read_text("utf-8")
    found = {}
    for title, section in re.findall(
        r"^## (.*?)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    ):
        code = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
        assert len(code) <= 1, f"{page}, {title}: {len(code)} blocks"
        if code:
            found[title] = code[0]
    return found


def executed(page: str, title: str) -> dict[str, Any]:
    """Run the block of a section, and return its names."""
    scope: dict[str, Any] = {}
    exec(compile(blocks(page)[title], f"{page}, {title}", "exec"), scope)
    return scope


def all_run(page: str, test: str) -> bool:
    """Whether the file of a test runs every block of a page, by `executed("<title>")`."""
    source = Path(test).read_text("utf-8")
    return all(f'executed("{title}")' in source for title in blocks(page))
