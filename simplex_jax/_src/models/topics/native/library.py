"""The shared libraries of the local step."""

import ctypes
import functools
from pathlib import Path

import jax

from simplex_jax._src.draws import native as draws
from simplex_jax._src.native.library import PLATFORMS, Library

LIBRARY = Library(
    Path(__file__).parent,
    (
        ("sweep", "SimplexSweep"),
        ("sweep_bursts", "SimplexSweepBursts"),
        ("lay_out", "SimplexLayOut"),
        ("tables", "SimplexTables"),
        ("word_tables", "SimplexWordTables"),
        ("totals", "SimplexTotals"),
    ),
    "simplex_jax_lda",
    cuda=("sweep", "lay_out", "tables", "totals"),
)


def platform() -> str:
    """Return the default platform of JAX; "cuda" for NVIDIA GPUs."""
    backend = jax.default_backend()
    if backend != "gpu":
        return backend
    version: str = jax.devices()[0].client.platform_version
    return "rocm" if "rocm" in version.lower() else "cuda"


def works() -> bool:
    """Return whether there is a library for the default platform of JAX."""
    return platform() in PLATFORMS and LIBRARY.prefix(platform()) is not None


@functools.cache
def most_topics() -> int:
    """Return the largest number of topics: GPUs keep counts of a document in shared memory."""
    numbered = 2**16 - 1  # labels are at most uint16
    if platform() != "cuda":
        return numbered
    return min(numbered, ctypes.CDLL(str(LIBRARY.built("cuda"))).SimplexMostTopics())


def why_not() -> str:
    """Return why the library does not work here."""
    if platform() not in PLATFORMS:
        return f"it is for CPUs and NVIDIA GPUs, and JAX runs on {platform()}"
    return LIBRARY.why_not(platform())


def warn() -> None:
    """Warn, once, if only this part of the native code is missing; without any, fits say so."""
    if draws.LIBRARY.prefix() is not None:
        LIBRARY.warn_if_missing(part=True)
        LIBRARY.warn_if_old()
