"""Sweeps of the native library, and of mutants of it that are compiled on the spot."""

import functools
import itertools
import shutil
import subprocess
import tempfile
from pathlib import Path

import jax.numpy as jnp
import jaxlib
import pytest

from simplex_jax.models.lda import native
from simplex_jax.models.lda.native import calls, library

SOURCES = Path(native.__file__).parent
INCLUDE = Path(jaxlib.__file__).parent / "include"
_NUMBERS = itertools.count()


def needs(lowering):
    """Skip a test of the native lowering where there is no library."""
    if lowering == "native" and library.prefix() is None:
        pytest.skip(library.why_not())


def sweep(key, likelihood, alpha, documents, labels, *, kind=None, prefix=None, width=16):
    """A sweep as `local.Sweep` is."""
    needs("native")
    weights = calls.lay_out(likelihood, prefix=prefix)
    options = {"burn_in": 0, "count": "nothing", "tally": False, "kind": kind, "width": width}
    return calls.sweep(
        key[None],
        weights,
        alpha,
        documents,
        labels,
        jnp.zeros((0, 0), jnp.int32),
        prefix=prefix,
        **options,
    )[0]


def compiled(folder, *files, flags=("-O1",)):
    """Compile sources in a folder, or skip a test where there is no compiler."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    common = ["-std=c++17", "-fPIC", "-ffp-contract=off", "-DSIMPLEX_PLAIN", f"-I{INCLUDE}"]
    for file in files:
        command = [compiler, *common, *flags, "-c", f"{file}.cc", "-o", f"{file}.o"]
        subprocess.run(command, check=True, cwd=folder)
    objects = [f"{name}.o" for name in ("handlers", "plain")]
    subprocess.run(
        [compiler, "-shared", *flags, *objects, "-o", "_engine.so"], check=True, cwd=folder
    )
    return folder / "_engine.so"


@functools.cache
def _handlers():
    """The calls for XLA without the kernels, which take longest to compile."""
    folder = copied(Path(tempfile.mkdtemp()))
    compiled(folder, "handlers", "plain")
    return folder / "handlers.o"


def copied(folder):
    """Copy the sources of the library."""
    for path in SOURCES.iterdir():
        if path.suffix in (".cc", ".h", ".inl"):
            shutil.copy(path, folder)
    return folder


def mutated(folder, file, old, new):
    """A prefix of calls like those of the library, but with one piece of its source replaced."""
    copied(folder)
    source = (folder / file).read_text()
    assert source.count(old) == 1, f"{file} has no single {old!r} to mutate"
    (folder / file).write_text(source.replace(old, new))
    if file == "handlers.cc":
        library_path = compiled(folder, "handlers", "plain")
    else:
        shutil.copy(_handlers(), folder)
        library_path = compiled(folder, "plain")
    return library.register(library_path, f"mutant{next(_NUMBERS)}")
