"""Rules of the library that no linter knows."""

import ast

import pytest
from support.paths import ROOT

PACKAGE = ROOT / "simplex_jax"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Modules that run code when they load data, and calls that leave a traced function.
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "pure_callback",
    "io_callback",
    "host_callback",
    "debug_callback",
}
MOST_LINES = 400


def names(tree: ast.AST) -> set[str]:
    """Every module imported and every function called, by its last name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").split(".")[0], *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute):
                found.add(called.attr)
            elif isinstance(called, ast.Name):
                found.add(called.id)
    return found


def may_unpickle(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.keyword)
        and node.arg == "allow_pickle"
        and not (isinstance(node.value, ast.Constant) and node.value.value is False)
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_keeps_the_rules(path):
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    assert not names(tree) & (FORBIDDEN_MODULES | FORBIDDEN_CALLS)
    assert not may_unpickle(tree)
    assert source.count("\n") <= MOST_LINES
    assert ast.get_docstring(tree), "say at the top what the module is for"


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "eval('1')",
        "jax.pure_callback(f, s, x)",
        "from jax.experimental import io_callback",
    ],
)
def test_a_forbidden_name_is_seen(source):
    assert names(ast.parse(source)) & (FORBIDDEN_MODULES | FORBIDDEN_CALLS)


def test_an_allowed_pickle_is_seen():
    assert may_unpickle(ast.parse("np.load(path, allow_pickle=True)"))
    assert not may_unpickle(ast.parse("np.load(path, allow_pickle=False)"))
