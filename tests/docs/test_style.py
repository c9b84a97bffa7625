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
MOST_LINES = 800

# Functions of modules with `jax.numpy` whose matrix products are NumPy's.
PRODUCTS_OF_NUMPY = {
    "_cross_entropy",
    "_directions",
    "_log_ratios",
    "padded_target",
    "left_to_right",
    "profiles_of",
}
PRODUCTS = {f"jnp.{name}" for name in ("dot", "einsum", "inner", "matmul", "tensordot", "vdot")}


def names(tree: ast.AST) -> set[str]:
    """Every module imported and every function called, by its last name."""
    result = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            result |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            result |= {(node.module or "").split(".")[0], *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute):
                result.add(called.attr)
            elif isinstance(called, ast.Name):
                result.add(called.id)
    return result


def may_unpickle(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.keyword)
        and node.arg == "allow_pickle"
        and not (isinstance(node.value, ast.Constant) and node.value.value is False)
        for node in ast.walk(tree)
    )


def rounded_products(tree: ast.AST) -> list[int]:
    """Lines of matrix products of JAX whose factors accelerators may round."""
    nodes = list(ast.walk(tree))
    imported = {
        alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    precise = {inner for node in nodes if is_precise(node) for inner in ast.walk(node)}
    products = [node for node in nodes if is_rounded(node) and node not in precise]
    return [node.lineno for node in products] if "jax.numpy" in imported else []


def is_precise(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and (
        node.name in PRODUCTS_OF_NUMPY
        or "full_precision" in [ast.unparse(decorator) for decorator in node.decorator_list]
    )


def is_rounded(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        says = any(keyword.arg == "precision" for keyword in node.keywords)
        return ast.unparse(node.func) in PRODUCTS and not says
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_keeps_the_rules(path):
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    assert not names(tree) & (FORBIDDEN_MODULES | FORBIDDEN_CALLS)
    assert not may_unpickle(tree)
    assert not rounded_products(tree), "decorate with full_precision, see precision.py"
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


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("def f(x):\n    return x @ x", True),
        ("def f(x):\n    return jnp.einsum('ij->ij', x)", True),
        ("@full_precision\ndef f(x):\n    return x @ jnp.dot(x, x)", False),
        ("def f(x):\n    return jnp.dot(x, x, precision='highest')", False),
    ],
)
def test_a_rounded_product_is_seen(body, seen):
    assert bool(rounded_products(ast.parse(f"import jax.numpy as jnp\n{body}"))) == seen
