"""Make the tables of the documentation from kept results.

    python benchmarks/pages.py [--check]

A page has a table between `<!-- table NAME -->` and `<!-- end -->`. The function NAME of
`page_tables.py` or `papers/tables.py` makes it from the result NAME that `--keep` of its
script has written; if NAME has a point, the part before it names the result. Below the table stand
the command and when and where it ran. The table between `<!-- claims -->` and `<!-- end -->` is
that of `papers/claims.py`. With `--check` nothing is written, and the exit status is 1 if a page is
out of date.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent / "papers"))
import claims
import kept
import page_tables
import tables

ROOT = kept.RESULTS.parents[1]
DOCS = ROOT / "docs"
TABLES = tables.TABLES | page_tables.TABLES


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        new = filled(text)
        if options.check and new != text:
            sys.exit(f"{page.name} is not what the results say: run {Path(__file__).name}")
        if new != text:
            page.write_text(new, encoding="utf-8")


def pages() -> list[Path]:
    """Return the pages that have such tables."""
    return [
        page
        for page in sorted(DOCS.glob("*.md"))
        if "<!-- end -->" in page.read_text(encoding="utf-8")
    ]


def filled(page: str) -> str:
    """Return a page with its tables made again."""
    marked = re.compile(r"(<!-- (?:table ([\w.]+)|claims) -->\n).*?(<!-- end -->)", re.DOTALL)

    def table(actual: re.Match[str]) -> str:
        return made(actual[2]) if actual[2] else tables.markdown(claims.claims())

    return marked.sub(lambda actual: f"{actual[1]}{table(actual)}{actual[3]}", page)


def made(name: str) -> str:
    """Return a table, and how it was made."""
    result = read(name.partition(".")[0])
    about = result["about"]
    told = [f"`{from_the_root(about['command'])}`, {about['date']}: "]
    if "seconds" in result:
        told.append(f"{result['seconds']:.0f} s, ")
    told.append("1 core" if about["cores"] == 1 else f"{about['cores']} cores")
    told.append(f" ({about['machine']}), jax {about['versions']['jax']}.\n")
    return f"{tables.markdown(TABLES[name](result))}\n{''.join(told)}"


def from_the_root(command: str) -> str:
    """Return a command with its script as seen from the root, not from where it ran."""
    first = re.match(r"python (?:\S*/)?(\w+\.py)", command)
    found = sorted((ROOT / "benchmarks").rglob(first[1])) if first else []
    return f"python {found[0].relative_to(ROOT)}{command[first.end() :]}" if found else command


def read(name: str) -> dict[str, Any]:
    """Return a kept result, of the papers or not."""
    (file,) = kept.RESULTS.rglob(f"{name}.json")
    return kept.read(file)


if __name__ == "__main__":
    main()
