"""What is public: the names in `__all__` of the modules of `simplex_jax`, and nothing else.

`python tests/docs/test_border.py` writes the kept list, `surface.txt`: a change of it changes what
users may rely on.
"""

import ast
import importlib
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import simplex_jax

ROOT = Path(__file__).parents[2]  # not from `support`, so that the file runs as a program
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
KEPT = Path(__file__).with_name("surface.txt")
MOST = 180
FILES = sorted(
    path.stem for path in (ROOT / "simplex_jax").glob("*.py") if not path.stem.startswith("_")
)


def is_sampler(name):
    return name.startswith("simplex_jax.samplers.")


def surface():
    """Every public name with its signature; modules of `State`, `build` and so on are samplers."""
    lines = []

    def look(module, name):
        for entry in module.__all__:
            full, value = f"{name}.{entry}", getattr(module, entry)
            if isinstance(value, types.ModuleType):
                lines.append(full)
                look(value, full)
            else:
                lines.append(full + described(value))
                if inspect.isclass(value):
                    lines.extend(methods(full, value))

    look(simplex_jax, "simplex_jax")
    return sorted(lines)


def described(value):
    """The parameters and those defaults that print alike everywhere."""
    if not callable(value) or (inspect.isclass(value) and issubclass(value, Exception)):
        return ""
    signature = inspect.signature(value)
    plain = [
        parameter.replace(annotation=parameter.empty, default=shown(parameter.default))
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def shown(default):
    simple = bool | int | float | str | None
    return default if default is inspect.Parameter.empty or isinstance(default, simple) else ...


def methods(full, kind):
    """Public methods and properties that a class of ours defines, and those it inherits of ours."""
    result = []
    for name in dir(kind):
        owner = next((base for base in kind.__mro__ if name in base.__dict__), None)
        ours = owner is not None and owner.__module__.startswith("simplex_jax")
        if ours and not name.startswith("_"):
            value = inspect.getattr_static(kind, name)
            value = getattr(value, "__func__", value)
            result.append(f"{full}.{name}{described(value) if callable(value) else ''}")
    return result


def counted(lines):
    """The entries of all `__all__`; the five of each sampler, and methods, go with their owners."""
    names = [line.partition("(")[0] for line in lines]
    kinds = {name for name in names if name.rpartition(".")[2][:1].isupper()}
    return [
        name
        for name in names
        if name.rpartition(".")[0] not in kinds and not is_sampler(name.rpartition(".")[0])
    ]


def test_the_surface_is_the_kept_one():
    lines = surface()
    assert "\n".join(lines) + "\n" == KEPT.read_text("utf-8"), (
        "if the change is meant, run python tests/docs/test_border.py and add it to CHANGELOG"
    )
    names = len(counted(lines))
    assert names <= MOST, (
        f"{names} public names: make some private, or raise MOST with the reason in docs/design.md"
    )


def test_no_public_docstring_names_the_implementation():
    documented = {}

    def look(module, name):
        for entry in module.__all__:
            value = getattr(module, entry)
            documented[f"{name}.{entry}"] = value.__doc__
            if isinstance(value, types.ModuleType):
                look(value, f"{name}.{entry}")
            elif inspect.isclass(value):
                for line in methods(f"{name}.{entry}", value):
                    method = line.partition("(")[0].rpartition(".")[2]
                    documented[f"{name}.{entry}.{method}"] = getattr(value, method).__doc__

    look(simplex_jax, "simplex_jax")
    assert [name for name, text in documented.items() if "_src" in (text or "")] == []


def test_every_public_module_is_an_attribute():
    assert {*FILES} <= {*simplex_jax.__all__}


@pytest.mark.parametrize("name", ["simplex_jax", *(f"simplex_jax.{name}" for name in FILES)])
def test_a_module_shows_what_is_public(name):
    module = importlib.import_module(name)
    assert {*dir(module)} - {"__version__"} == {*module.__all__}
    for entry in module.__all__:
        value = getattr(module, entry)
        if isinstance(value, types.ModuleType):
            assert {*dir(value)} == {*value.__all__}


@pytest.mark.parametrize(
    "name", ["samplers.scir", "geometry.manifolds", "dpm.families", "evaluate.plots"]
)
def test_a_module_of_a_public_one_can_be_imported(name):
    """In a process that has imported nothing else of the package."""
    program = f"from simplex_jax.{name} import __all__; import simplex_jax.{name} as module"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_not_public_is_no_attribute():
    with pytest.raises(AttributeError, match="nothing"):
        simplex_jax.nothing  # noqa: B018
    assert not {"Any", "importlib", "TYPE_CHECKING", "models"} & {*vars(simplex_jax)}


PRIVATE = {path.stem for path in (ROOT / "simplex_jax" / "_src").rglob("*.py")} - {"state"}


def private_names(text, own, public):
    """The names in a docstring, such as `hooks.Hook`, that `help` leads nowhere."""
    known = {f".{name}" for name in public}
    return [
        name
        for name in re.findall(r"(?<!`)`(\w+\.\w[\w.]*)`", text)
        if name.partition(".")[0] in PRIVATE - own
        and not name.endswith(".html")
        and not any(entry.endswith(f".{name}") for entry in known)
    ]


def test_docstrings_use_public_names_only():
    public = [line.partition("(")[0] for line in surface()]
    wrong = {}
    for name in public:
        value = simplex_jax
        for part in name.split(".")[1:]:
            value = getattr(value, part)
        own = {*inspect.signature(value).parameters} if inspect.isfunction(value) else set()
        if found := private_names(inspect.getdoc(value) or "", own, public):
            wrong[name] = found
    assert wrong == {}
    assert private_names("see `hooks.Hook`", set(), public) == ["hooks.Hook"]


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def private_uses(code):
    """Imports, and attributes of imported modules, that are not public."""
    tree, modules, wrong = ast.parse(code), {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("simplex_jax"):
            module = importlib.import_module(node.module)
            for alias in node.names:
                if "._src" in node.module or alias.name not in module.__all__:
                    wrong.append(f"{node.module}.{alias.name}")
                elif isinstance(value := getattr(module, alias.name), types.ModuleType):
                    modules[alias.asname or alias.name] = value
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            if module is not None and node.attr not in module.__all__:
                wrong.append(f"{node.value.id}.{node.attr}")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_uses_public_names_only(page):
    pytest.importorskip("numpyro")
    assert not [use for block in blocks(page) for use in private_uses(block)]


def test_a_private_name_is_seen():
    assert private_uses("from simplex_jax._src import base") == ["simplex_jax._src.base"]
    assert private_uses("from simplex_jax import lda\nlda.MODEL") == ["lda.MODEL"]


if __name__ == "__main__":
    KEPT.write_text("\n".join(surface()) + "\n", "utf-8")
    print(f"{KEPT}: {len(counted(surface()))} names")
