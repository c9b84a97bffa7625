"""The shared library of the local step."""

from pathlib import Path

import jax

from simplex_jax.native.library import Library

LIBRARY = Library(
    Path(__file__).parent,
    (
        ("sweep", "SimplexSweep"),
        ("lay_out", "SimplexLayOut"),
        ("count", "SimplexCount"),
        ("tables", "SimplexTables"),
        ("totals", "SimplexTotals"),
    ),
    "simplex_jax_lda",
)
prefix, register = LIBRARY.prefix, LIBRARY.register


def why_not() -> str:
    """Return why the library does not work here."""
    if jax.default_backend() != "cpu":
        return f"it is for CPUs, and JAX runs on {jax.default_backend()}"
    return LIBRARY.why_not()
