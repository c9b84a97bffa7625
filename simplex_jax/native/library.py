"""Shared libraries of C++ whose calls XLA runs on CPUs: whether they are there, and their names."""

import ctypes
import functools
import importlib.machinery
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax import lax

from simplex_jax.native import VARIABLE


@dataclass(frozen=True)
class Library:
    """A library, built on installation where there was a compiler."""

    folder: Path
    calls: tuple[tuple[str, str], ...]  # of each call the name for XLA and the symbol
    name: str  # what the names of its calls begin with

    def built(self) -> Path | None:
        """Return the file of the library; None where there was no compiler."""
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            if (path := self.folder / f"_library{suffix}").exists():
                return path
        return None

    def register(self, path: Path, name: str | None = None) -> str:
        """Tell XLA of the calls of a file, and return what their names begin with.

        Raises:
            OSError: The file cannot be loaded.
        """
        library = ctypes.CDLL(str(path))
        name = name or self.name
        for call, symbol in self.calls:
            capsule = jax.ffi.pycapsule(getattr(library, symbol))
            jax.ffi.register_ffi_target(f"{name}_{call}", capsule, platform="cpu")
        return name

    @functools.cache  # noqa: B019, there are as many libraries as rooms with native code
    def prefix(self) -> str | None:
        """Return what the names of the calls begin with; None where no library loads."""
        path = self.built()
        if path is None or os.environ.get(VARIABLE) == "0":
            return None
        try:
            return self.register(path)
        except (OSError, AttributeError):  # of another machine, or of another version
            return None

    def why_not(self) -> str:
        """Return why there is no library that loads."""
        if self.built() is None:
            return "no C++ compiler built its library when the package was installed"
        if os.environ.get(VARIABLE) == "0":
            return f"{VARIABLE}=0 switches it off"
        return "its library does not load, as one of another machine or version"

    def lowered(self, native: Callable, xla: Callable, *arguments: Any) -> Any:
        """Return the result of the one of two functions that suits the platform, when compiled."""
        if self.prefix() is None:
            return xla(*arguments)
        return lax.platform_dependent(*arguments, cpu=native, default=xla)
