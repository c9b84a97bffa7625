"""Tests know a message by its values, names and places, so that its words can be edited.

Looked at are the patterns of `pytest.raises` and `pytest.warns`, also those that loops and
parameters give, and the texts in `assert TEXT in ...`.
"""

import ast
import re
from collections.abc import Iterator

import pytest
from support.paths import TESTS

MOST_WORDS = 3
"""The most ordinary words in a row: enough for a key where a message has no value."""

# Values: what is quoted, names with dots, dashes, underscores or a call, and escapes.
_VALUES = re.compile(r"""(?<!\w)'[^']*'(?!\w)|"[^"]*"|`[^`]*`|\\.|[\w.-]*[\w][_.=/(-]+\w[\w.-]*""")
_WORDS = re.compile(r"(?<![\w'])[a-z]+(?![\w'(=])(?:[,;:]? [a-z]+(?![\w'(=]))*")


def most_words(text: str) -> int:
    """The length of the longest row of ordinary words."""
    rows = _WORDS.findall(_VALUES.sub("#", text))
    return max((len(row.split()) for row in rows), default=0)


def looked_for(tree: ast.Module) -> Iterator[ast.Constant]:
    """The texts that the tests of a module look for in messages."""
    tables = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.keyword) and node.arg == "match":
                    yield from texts(node.value)
                    names = {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
                    for name in names:
                        for value in given(name, function, tables):
                            yield from texts(value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            for compared in ast.walk(node.test):
                if isinstance(compared, ast.Compare):
                    inside = isinstance(compared.ops[0], ast.In | ast.NotIn)
                    yield from texts(compared.left) if inside else ()


def texts(node: ast.expr) -> Iterator[ast.Constant]:
    """The text of an expression, or its parts."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part


def given(name: str, function: ast.FunctionDef, tables: dict[str, ast.expr]) -> list[ast.expr]:
    """What a name stands for: its values in loops, parameters and assignments."""
    result = [tables[name]] if name in tables else []
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.comprehension):
            for row in rows(node.iter, tables):
                result += taken(name, node.target, row)
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("parametrize"):
            names, values = decorator.args[:2]
            names = ast.literal_eval(names)
            names = names.replace(",", " ").split() if isinstance(names, str) else names
            target = ast.parse(", ".join(names), mode="eval").body
            for row in rows(values, tables):
                result += taken(name, target, row)
    return result


def rows(node: ast.expr, tables: dict[str, ast.expr]) -> list[ast.expr]:
    """The elements of a table that is written down in the module."""
    if isinstance(node, ast.Name):
        return rows(tables[node.id], tables) if node.id in tables else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        table = node.func.value
        table = tables.get(table.id) if isinstance(table, ast.Name) else table
        if isinstance(table, ast.Dict) and node.func.attr in ("items", "values"):
            pairs = zip(table.keys, table.values, strict=True)
            both = [ast.Tuple([key, value]) for key, value in pairs if key is not None]
            return both if node.func.attr == "items" else table.values
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    if isinstance(node, ast.BinOp):
        return rows(node.left, tables) + rows(node.right, tables)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [
            row
            for part in node.elts
            for row in (rows(part.value, tables) if isinstance(part, ast.Starred) else [part])
        ]
    return []


def taken(name: str, target: ast.expr, row: ast.expr) -> list[ast.expr]:
    """The part of a row that goes to a name of the target."""
    if isinstance(target, ast.Name):
        return [row] if target.id == name else []
    if isinstance(target, ast.Tuple):
        parts = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [])
        return [
            value
            for inner, part in zip(target.elts, parts, strict=False)
            for value in taken(name, inner, part)
        ]
    return []


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: path.stem)
def test_messages_are_known_by_values_and_not_by_sentences(path):
    sentences = {
        f"line {text.lineno}: {text.value}"
        for text in looked_for(ast.parse(path.read_text("utf-8")))
        if most_words(text.value) > MOST_WORDS
    }
    assert sentences == set(), "match an argument's name, a value or a place instead"


TEST = """
CASES = {"a": (1, "it must be a positive number")}
@pytest.mark.parametrize(("bad", "says"), [pytest.param(1, "it is not what was asked")])
def test(bad, says):
    for name, (value, words) in CASES.items():
        with pytest.raises(ValueError, match=words):
            run(value)
    with pytest.warns(UserWarning, match=f"{says}; the other one is bad"):
        assert "this is not a number" in run()
"""


def test_a_sentence_is_seen():
    found = [text.value for text in looked_for(ast.parse(TEST)) if most_words(text.value) > 3]
    assert len(found) == 4
    assert most_words(r"^alpha .*'a word in quotes' --flag no_name 1\.5 f\(x\) a.b has") == 1
