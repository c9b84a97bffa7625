"""Pages of all public names, from the `__all__` of the modules of `simplex_jax`."""

import importlib
import inspect
import re
import types
from pathlib import Path

from sphinx.application import Sphinx

import simplex_jax

# Methods that scikit-learn adds to estimators; they link to its own documentation.
ROUTING = ", ".join(f"set_{name}_request" for name in ("fit", "partial_fit", "score", "transform"))
FIRST = ("build", "update", "init", "State", "Info")


def title(text: str, line: str = "=") -> list[str]:
    """Return a title with its underline."""
    return [text, line * len(text), ""]


def entry(name: str, value: object) -> list[str]:
    """The directive of a name that is no module."""
    kind = "data"
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, Exception) else "class"
    elif callable(value):
        kind = "function"
    members = ["   :members:", f"   :exclude-members: {ROUTING}"] if kind == "class" else []
    if kind == "class" and name.startswith("simplex_jax.samplers."):
        members.append("   :no-index:")  # samplers share states
    return [f".. auto{kind}:: {name}", *members, ""]


def page(name: str, level: str = "=") -> list[str]:
    """The page of a module: its docstring, its names, and the modules in it as sections."""
    module = importlib.import_module(name)
    lines = [*title(name, level), f".. automodule:: {name}", "   :no-members:", ""]
    return lines + names(name, module, "-")


def names(name: str, module: types.ModuleType, level: str) -> list[str]:
    """Return the directives of a module's names, and its modules as sections."""
    lines = []
    entries = sorted(
        module.__all__, key=lambda one: (FIRST.index(one) if one in FIRST else len(FIRST), one)
    )
    for one in entries:
        value = getattr(module, one)
        if not isinstance(value, types.ModuleType):
            lines += entry(f"{name}.{one}", value)
    for one in entries:
        value = getattr(module, one)
        if isinstance(value, types.ModuleType) and name != "simplex_jax":
            lines += [*title(one, level), *[".. py:module:: " + f"{name}.{one}", ""]]
            lines += [inspect.cleandoc(value.__doc__ or ""), ""]
            lines += names(f"{name}.{one}", value, "~")
    return lines


def write(app: Sphinx) -> None:
    """Write the pages into `api`, where they have changed."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    modules = [
        one
        for one in simplex_jax.__all__
        if isinstance(getattr(simplex_jax, one), types.ModuleType)
    ]
    top = [*title("Reference"), "Every public name; all others may change in any version.", ""]
    top += [".. toctree::", "   :maxdepth: 1", "", "   simplex_jax"]
    top += [f"   {one}" for one in modules]
    pages = {"index": top, "simplex_jax": page("simplex_jax")}
    pages |= {one: page(f"simplex_jax.{one}") for one in modules}
    for one, lines in pages.items():
        text, file = "\n".join(lines) + "\n", folder / f"{one}.rst"
        if not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")


def escape(app: Sphinx, what: str, name: str, value: object, options: object, lines: list) -> None:
    """Keep reStructuredText from reading |x| and [*shape, K] as markup, outside formulas."""
    for i, line in enumerate(lines):
        if "\\" not in line and not line.lstrip().startswith((">>>", "...")):
            lines[i] = re.sub(r"\||(?<=\[)\*|(?<=, )\*(?=\w)", r"\\\g<0>", line)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    app.connect("autodoc-process-docstring", escape)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
