"""The border between what is public and what is not."""

import sys
from types import ModuleType


def show(home: str, *modules: ModuleType) -> None:
    """Make modules those of a public one, `home`: importable there, and with a short `dir()`.

    `dir` and tab completion list what their `__all__` names, and no imports.
    """
    for module in modules:
        sys.modules[f"{home}.{module.__name__.rpartition('.')[2]}"] = module
        module.__dict__["__dir__"] = lambda names=module.__all__: list(names)
