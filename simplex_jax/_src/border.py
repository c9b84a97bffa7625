"""The border between what is public and what is not."""

from types import ModuleType


def show(*modules: ModuleType) -> None:
    """Let `dir` and tab completion of modules list what their `__all__` names, and no imports."""
    for module in modules:
        module.__dict__["__dir__"] = lambda names=module.__all__: list(names)
