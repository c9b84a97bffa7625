"""Lines of code of the package by room, without docstrings, comments and blank lines.

    python benchmarks/lines.py [PATH ...]

Given files or folders, it prints their lines only. The table "Where the lines are" of
docs/design.md is made of its output.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "simplex_jax"
_LAYOUT = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
)


def lines_of_code(source: str) -> int:
    """Return the number of lines with code, of which strings that stand alone are none."""
    texts: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for part in body if isinstance(body, list) else ():
            constant = isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
            if constant and isinstance(part.value.value, str):
                texts.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - texts)


def room_of(path: Path) -> str:
    """Return the room of a file of the package: a package of `_src`, a model, or a module."""
    parts = path.relative_to(PACKAGE).parts
    if parts[0] != "_src":
        return "public modules"
    depth = 2 if parts[1] == "models" and len(parts) > 3 else 1
    return "/".join(parts[1 : 1 + depth]) if len(parts) > 2 else "single modules"


def main() -> None:
    """Print the lines of each room, the largest first, or those of the paths that are named."""
    for place in map(Path, sys.argv[1:]):
        files = place.rglob("*.py") if place.is_dir() else [place]
        print(f"{sum(lines_of_code(file.read_text('utf-8')) for file in files):6,} {place}")
    if sys.argv[1:]:
        return
    rooms: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        rooms[room_of(path)] += lines_of_code(path.read_text("utf-8"))
    print(f"{rooms.total():6,} in all")
    for room, lines in rooms.most_common():
        print(f"{lines:6,} {room}")


if __name__ == "__main__":
    main()
