"""Shared libraries of native code that XLA calls: whether they are there, and their names.

Calls have the same names on CPUs, by C++, and on GPUs of NVIDIA, by CUDA C++.
"""

import ctypes
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax import lax
from jax.extend import backend

from simplex_jax._src.native import VARIABLE
from simplex_jax._src.warn import warn_caller

PLATFORMS = ("cpu", "cuda")
_PACKAGE = Path(__file__).parents[2]


class NativeCodeWarning(UserWarning):
    """There is no native code, which is several times as fast as XLA."""


def _remedy(platform: str = "cpu") -> str:
    """Return how to build native code."""
    compiler = "nvcc" if platform == "cuda" else "a C++ compiler such as g++"
    if (_PACKAGE.parent / "setup.py").exists():  # Python was started in a checkout, for example
        command = f"'pip install -e {_PACKAGE.parent}' builds it"
    else:
        command = "to install the package again, without the cache of pip, builds it"
    return f"{command} where there is {compiler}"


def _wanted() -> bool:
    return jax.default_backend() == "cpu" and os.environ.get(VARIABLE) != "0"


@functools.cache  # once
def _warn(lack: str) -> None:
    message = f"simplex_jax runs without {lack}; {_remedy()}"
    warn_caller(message, NativeCodeWarning)


@dataclass(frozen=True)
class Library:
    """The native code of a room, built on installation where there were compilers."""

    folder: Path
    calls: tuple[tuple[str, str], ...]  # of each call the name for XLA and the symbol
    name: str  # what the names of its calls begin with
    cuda: tuple[str, ...]  # names of the calls that there are for GPUs too

    def built(self, platform: str = "cpu") -> Path | None:
        """Return the file for a platform; None where there was no compiler."""
        path = self.folder / ("_cuda.so" if platform == "cuda" else "_library.so")
        return path if path.exists() else None

    def register(self, path: Path, name: str | None = None, platform: str = "cpu") -> str:
        """Tell XLA of the calls of a file, and return what their names begin with.

        Raises:
            OSError: The file cannot be loaded.
        """
        library = ctypes.CDLL(str(path))
        name = name or self.name
        for call, symbol in self.calls:
            if platform == "cpu" or call in self.cuda:
                capsule = jax.ffi.pycapsule(getattr(library, symbol))
                target = "CUDA" if platform == "cuda" else platform
                jax.ffi.register_ffi_target(f"{name}_{call}", capsule, platform=target)
        return name

    def warn_if_missing(self, *, part: bool = False) -> None:
        """Warn, once, if there is no library for the CPUs on which JAX runs.

        With `part`, others are there.
        """
        if _wanted() and self.built() is None:
            if part:
                _warn(f"a part of its native code, some 7 times slower: {self.folder} has none")
            else:
                _warn(
                    "native code, some 7 times slower: it was imported from "
                    f"{_PACKAGE}, which has none"
                )

    def warn_if_old(self) -> None:
        """Warn, once, if the library for the CPUs on which JAX runs does not have these calls."""
        if _wanted() and self.built() is not None and self.prefix() is None:
            _warn(
                "a part of its native code, some 7 times slower: "
                f"{self.built()} is of another version or machine"
            )

    @functools.cache  # noqa: B019, there are as many libraries as rooms with native code
    def prefix(self, platform: str = "cpu") -> str | None:
        """Return what the names of the calls begin with; None where no library loads."""
        path = self.built(platform)
        if path is None or os.environ.get(VARIABLE) == "0":
            return None
        try:
            on_gpu = platform == "cuda" and jax.default_backend() == "gpu"
            if on_gpu and ctypes.CDLL(str(path)).SimplexProbe():  # an error: it is for other GPUs
                return None
            return self.register(path, platform=platform)
        except (OSError, AttributeError):  # of another machine, or of another version
            return None

    def target(self, call: str, prefix: str | None = None) -> str:
        """Return the name of a call for XLA, which by then knows of the libraries that load."""
        for platform in PLATFORMS:
            self.prefix(platform)
        return f"{prefix or self.name}_{call}"

    def call(
        self,
        name: str,
        results: Any,
        *,
        vmap_method: str,
        prefix: str | None = None,
        aliases: dict[int, int] | None = None,
    ) -> Callable:
        """Return a call as a function of arrays and named attributes."""
        function = jax.ffi.ffi_call(
            self.target(name, prefix),
            results,
            vmap_method=vmap_method,
            input_output_aliases=aliases,
        )

        def call(*arguments: jax.Array, **attributes: Any) -> Any:
            # Inside `shard_map` JAX would take the results to be equal on all devices.
            axes = [jax.typeof(array).manual_axis_type.varying for array in arguments]
            varying = tuple(frozenset().union(*axes))
            return lax.pcast(function(*arguments, **attributes), varying, to="varying")

        return call

    def why_not(self, platform: str = "cpu") -> str:
        """Return why there is no library that loads."""
        if self.built(platform) is None:
            return f"{_PACKAGE} has no library for it: {_remedy(platform)}"
        if os.environ.get(VARIABLE) == "0":
            return f"{VARIABLE}=0 switches it off"
        return "its library does not run here, as one for another machine or version"

    def lowered(self, call: str, native: Callable, xla: Callable, *arguments: Any) -> Any:
        """Return the result of the one of two functions that suits the platform, when compiled.

        `call` is the name of what the native function calls.
        """
        works = {"cpu": self.prefix() is not None}
        works["cuda"] = call in self.cuda and self.prefix("cuda") is not None
        by_platform = {platform: native for platform in PLATFORMS if works[platform]}
        if not by_platform:
            return xla(*arguments)
        only_cpu = works["cpu"] and set(backend.backends()) == {"cpu"}
        # To trace the other function too would take longer than the rest. But the checker of keys
        # sees only the words that XLA draws.
        if only_cpu and not jax.debug_key_reuse.value:
            return native(*arguments)
        return lax.platform_dependent(*arguments, default=xla, **by_platform)
