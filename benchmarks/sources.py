"""What code a script depends on, and a digest of it, without running anything.

A script depends on every module of this repository that it or another of its modules imports, on
scripts that it names to run them, and, if it has a command line of `simplex-jax`, a `-m
simplex_jax` or a text of code that imports the package, on the whole package. Of a Python module
the digest has the syntax tree without docstrings, texts of help and what is raised, of native code
the words without comments: words for people and layout do not change it. It does not cover data, or
other packages, whose versions a kept result has.
"""

import ast
import functools
import hashlib
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, COMMAND = "simplex_jax", "simplex-jax"
ROOTS = (ROOT, ROOT / "benchmarks", ROOT / "tests")
"""Where absolute imports of a script lead, beside its own folder."""
WRITERS = {
    ROOT / "benchmarks" / name
    for name in (
        *("kept.py", "sources.py", "pages.py", "page_tables.py"),
        *("papers/claims.py", "papers/tables.py"),
    )
}
"""Modules that write results and do not make them."""
SHOWING = frozenset({"report", "plots"})
"""Packages and modules of the library that show results and do not make them."""
NATIVE = ("*.cc", "*.cu", "*.cuh", "*.h", "*.inl")


def digest(script: Path, roots: Sequence[Path] = ROOTS) -> str:
    """Return a digest of the code that a script depends on, 16 hexadecimal digits."""
    found = hashlib.sha256()
    for path in sorted(dependencies(script, roots)):
        found.update(f"{path.relative_to(roots[0])}\n{_content(path)}\n".encode())
    return found.hexdigest()[:16]


def dependencies(script: Path, roots: Sequence[Path] = ROOTS) -> set[Path]:
    """Return a script and the files that it depends on, all below the first of the roots.

    The `__init__.py` of a package counts if something uses a name that it defines, or the package
    as a whole; otherwise a sampler would depend on all others. Native code counts with the package
    that it is in.
    """
    script = script.resolve()
    found: set[Path] = set()
    waiting = {script}
    while waiting:
        path = waiting.pop()
        found.add(path)
        waiting |= set(_used(path, (script.parent, *roots))) - found
    for path in list(found):
        for folder in path.parents:
            if not (folder / "__init__.py").is_file():
                break
            found.update(file for kind in NATIVE for file in folder.glob(kind))
    return found


def _used(path: Path, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the modules that a module imports, and those that a script names to run them."""
    script = not any(path.is_relative_to(root / PACKAGE) for root in roots)
    for node in _nodes(_tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(alias.name, roots)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield from _imported(node.module or "", alias.name, roots)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            yield from _matching(node.args[0], roots)
        elif script and isinstance(node, ast.List | ast.Tuple | ast.Call):
            texts = map(_text, node.args if isinstance(node, ast.Call) else node.elts)
            if ("-m", PACKAGE) in itertools.pairwise(texts):
                yield from _package(roots)
        elif script:
            yield from _run(_text(node), path, roots)


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without imports for type checkers and those of names that are looked up."""
    waiting = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            lazy = isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
            if not lazy and not _is_for_types(node):
                yield node
                waiting.append(node)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _module(name: str, roots: Sequence[Path]) -> list[Path]:
    """Return the file of a module, if it is one of ours that makes results."""
    for root in roots:
        where = root.joinpath(*name.split("."))
        for file in (where / "__init__.py", where.with_name(f"{where.name}.py")):
            if file.is_file():
                within = file.relative_to(root).with_suffix("").parts
                shows = within[0] == PACKAGE and not SHOWING.isdisjoint(within)
                return [] if file in WRITERS or shows else [file]
    return []


def _imported(module: str, name: str, roots: Sequence[Path]) -> list[Path]:
    """Return the module that `from module import name` gets a name from, or that is the name.

    A package that imports lazily says where a name is from in a block for type checkers.
    """
    below, itself = _module(f"{module}.{name}", roots), _module(module, roots)
    if below or not itself or itself[0].name != "__init__.py":
        return below or itself
    for node in ast.walk(_tree(itself[0])):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != module:
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _imported(node.module, alias.name, roots)
    return itself


def _matching(name: ast.expr, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the modules that a text or an f-string may name."""
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    texts = [part.value if isinstance(part, ast.Constant) else "*" for part in parts]
    for root in roots:
        yield from root.glob("".join(map(str, texts)).replace(".", "/") + ".py")


def _run(text: str, path: Path, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield what a script's text names to run it: a script beside it, our command, or code."""
    if text.endswith(".py") and "/" not in text and (path.parent / text).is_file():
        yield path.parent / text
    elif text.split(" ")[0] == COMMAND or (PACKAGE in text and "import " in text):
        yield from _package(roots)


def _package(roots: Sequence[Path]) -> Iterator[Path]:
    for root in roots:
        yield from (root / PACKAGE).rglob("*.py")


def _text(node: ast.AST) -> str:
    """Return the text that a node is, or ""."""
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text else ""  # type: ignore[attr-defined, no-any-return]


@functools.cache
def _tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file without docstrings, texts of help and what is raised."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            # Texts that stand alone are docstrings, of modules' constants too.
            node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
        if isinstance(node, ast.Raise):
            node.exc = node.cause = None
        elif isinstance(node, ast.Call):
            node.keywords = [given for given in node.keywords if given.arg != "help"]
            if isinstance(node.func, ast.Name) and node.func.id == "option":
                node.args = [given for given in node.args if not _text(given)]  # help too
    return tree


def _is_text(line: ast.stmt) -> bool:
    return (
        isinstance(line, ast.Expr)
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
    )


@functools.cache
def _content(path: Path) -> str:
    """Return what counts of a file."""
    if path.suffix == ".py":
        return _shape(_tree(path))
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(text.split())


def _shape(node: object) -> str:
    """Return a tree as a text that versions of Python agree on, unlike `ast.dump`.

    Later versions have more fields, which are empty where earlier ones can read the file.
    """
    if isinstance(node, ast.AST):
        fields = (_shape(v) for _, v in ast.iter_fields(node) if v is not None and v != [])
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(_shape, node))}]"
    return repr(node)
