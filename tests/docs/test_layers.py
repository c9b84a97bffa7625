"""Imports go one way: a room imports rooms of lower layers only, and no model another model."""

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from support.paths import ROOT

from simplex_jax._src.models import NAMES

MODELS = tuple(f"models.{name}" for name in NAMES)
# From the bottom to the top. Modules of a room that stand higher than the room come first.
LAYERS = (
    ("arguments", "border", "extras", "native", "precision", "version", "warn"),
    ("options",),
    ("draws",),
    ("base",),
    ("geometry", "schedules", "batches", "sharded_rows", "step_sizes"),
    ("estimators",),
    ("gradients", "gradient_noise"),
    ("samplers",),
    ("corpus",),
    ("runtime",),
    ("evaluate",),
    ("report",),
    ("models",),
    MODELS,
    tuple(f"{model}.estimator" for model in MODELS),
    ("cli",),
    tuple(f"{model}.commands" for model in MODELS),
    ("numpyro",),
)
PRIVATE = "simplex_jax._src"
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def room_of(module: str) -> str:
    """The most specific room of a module: `models.lda` of `simplex_jax._src.models.lda.fitting`."""
    name = module.removeprefix(PRIVATE).lstrip(".")
    while name and name not in LEVEL:
        name = name.rpartition(".")[0]
    return name


def modules(package: Path) -> dict[str, ast.Module]:
    """The syntax trees of a package by dotted name."""
    trees = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        trees[name] = ast.parse(path.read_text("utf-8"))
    return trees


def module_of(module: str, name: str, trees: dict[str, ast.Module]) -> str:
    """The module that `from module import name` imports."""
    if f"{module}.{name}" in trees:
        return f"{module}.{name}"
    return module


def imports(trees: dict[str, ast.Module]) -> set[tuple[str, str]]:
    """Imports of modules, in functions too, as pairs of dotted names within the package."""
    pairs = set()
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}, line {node.lineno}: a relative import"
                targets = [module_of(node.module or "", alias.name, trees) for alias in node.names]
            else:
                continue
            pairs |= {(name, target) for target in targets if target in trees}
    return pairs


def upward(pairs: set[tuple[str, str]]) -> list[str]:
    """Imports from a layer above, or from another room of the same layer that is a model."""
    wrong = []
    for source, target in sorted(pairs):
        source_room, target_room = room_of(source), room_of(target)
        if not source_room or not target_room or source_room == target_room:
            continue
        models = source_room.startswith("models.") and target_room.startswith("models.")
        other_model = models and source_room.split(".")[1] != target_room.split(".")[1]
        if LEVEL[target_room] > LEVEL[source_room] or other_model:
            wrong.append(f"{source} imports {target}")
    return wrong


def circles(pairs: set[tuple[str, str]]) -> set[str]:
    """Modules that import each other, directly or not (those of a package's `__init__` apart)."""
    after = defaultdict(set)
    for source, target in pairs:
        if not source.startswith(target + ".") and not target.startswith(source + "."):
            after[source].add(target)
    cyclic = set()
    for start in list(after):
        seen, stack = set(), list(after[start])
        while stack:
            name = stack.pop()
            if name == start:
                cyclic.add(start)
                break
            if name not in seen:
                seen.add(name)
                stack.extend(after[name])
    return cyclic


TREES = modules(ROOT / "simplex_jax")
PAIRS = imports({name: tree for name, tree in TREES.items() if name.startswith(PRIVATE + ".")})


def test_the_implementation_does_not_import_what_is_public():
    """What is public imports the implementation; only the command's own module stands above it."""
    public = {name for name in TREES if not name.startswith(PRIVATE)}
    wrong = [pair for pair in imports(TREES) if pair[0] not in public and pair[1] in public]
    assert not wrong


def test_every_module_is_in_a_room():
    names = {name for name in TREES if name.startswith(PRIVATE + ".")}
    assert not {name for name in names if not room_of(name)}, "give the room a line in LAYERS"


def test_imports_go_one_way():
    wrong = upward(PAIRS)
    assert not wrong, "\n".join([*wrong, "docs/design.md has the order of the rooms"])


def test_there_is_no_circle():
    assert not circles(PAIRS)


def test_a_planted_import_is_seen():
    planted = {
        "simplex_jax._src.models.pipeline": (
            "def f():\n    from simplex_jax._src.models import files"
        ),
        "simplex_jax._src.models.files": "from simplex_jax._src.models.pipeline import Fit",
    }
    trees = {name: ast.parse(source) for name, source in planted.items()}
    assert circles(imports(trees)) == set(planted)
    with pytest.raises(AssertionError, match="line 2: a relative import"):
        imports({"simplex_jax._src.draws.cir": ast.parse("import jax\nfrom . import gamma")})
    assert upward({("simplex_jax._src.draws.cir", "simplex_jax._src.samplers.scir")})
    assert upward({("simplex_jax._src.models.lda.fitting", "simplex_jax._src.models.sam.fitting")})
    assert circles({("a", "b"), ("b", "c"), ("c", "a")}) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        (
            "import simplex_jax.samplers",
            ["sklearn", "matplotlib", "click", "orbax", "numpyro", "scipy.stats"],
        ),
        (
            "from simplex_jax import lda",
            ["sklearn", "matplotlib", "pandas", "click", "orbax", "numpyro", "scipy.optimize"],
        ),
    ],
)
def test_what_is_slow_to_import_waits_until_it_is_used(statement, left):
    program = f"import sys; {statement}; print([name for name in {left} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
