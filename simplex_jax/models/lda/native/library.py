"""The shared library of the local step: whether there is one, and its calls for XLA."""

import ctypes
import functools
import importlib.machinery
from pathlib import Path

import jax

_HERE = Path(__file__).parent
_CALLS = {"sweep": "SimplexSweep", "lay_out": "SimplexLayOut", "count": "SimplexCount"}
_PREFIX = "simplex_jax_lda"


def built() -> Path | None:
    """Return the library that was built on installation; None where there was no compiler."""
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        if (path := _HERE / f"_engine{suffix}").exists():
            return path
    return None


def register(path: Path, prefix: str = _PREFIX) -> str:
    """Tell XLA of the calls of a library, and return the prefix of their names.

    Raises:
        OSError: The library cannot be loaded.
    """
    library = ctypes.CDLL(str(path))
    for name, symbol in _CALLS.items():
        call = jax.ffi.pycapsule(getattr(library, symbol))
        jax.ffi.register_ffi_target(f"{prefix}_{name}", call, platform="cpu")
    return prefix


@functools.cache
def prefix() -> str | None:
    """Return the prefix of the names of the calls; None where there is no library that loads."""
    path = built()
    if path is None:
        return None
    try:
        return register(path)
    except (OSError, AttributeError):  # of another machine, or of another version
        return None


def why_not() -> str:
    """Return why the library is not there."""
    if jax.default_backend() != "cpu":
        return f"it is for CPUs, and JAX runs on {jax.default_backend()}"
    if built() is None:
        return "no C++ compiler built its library when the package was installed"
    return "its library does not load, as one of another machine or version"
