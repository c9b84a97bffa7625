"""The packages' native libraries, and mutants of them compiled on the spot."""

import functools
import itertools
import shutil
import subprocess
import tempfile
from pathlib import Path

import jax
import jaxlib
import pytest

import simplex_jax

PACKAGE = Path(simplex_jax.__file__).parent
INCLUDE = Path(jaxlib.__file__).parent / "include"
NUMBERS = itertools.count()


def needs(library):
    """Skip a test if a native library is missing."""
    if library.prefix() is None:
        pytest.skip(library.why_not())


def on_cpu(library):
    """Return the mark of tests of CPU native code."""
    if jax.default_backend() != "cpu":
        return pytest.mark.skip(reason="JAX does not run on the CPU")
    return pytest.mark.skipif(library.prefix() is None, reason="no native library")


def mutated(library, folder, file, old, new):
    """A prefix of calls like the library's, but with one piece of its source replaced.

    The folder is for the copy, which has only the plain instruction set.
    """
    copied(folder)
    room = folder / library.folder.relative_to(PACKAGE.parent)
    source = (room / file).read_text()
    assert source.count(old) == 1, f"{file} has no single {old!r} to mutate"
    (room / file).write_text(source.replace(old, new))
    if file != "handlers.cc":
        shutil.copy(_handlers(library), room)
    return library.register(compiled(folder, room), f"mutant{next(NUMBERS)}")


def file_with(library, piece):
    """Return the name of a library's kernel file that contains a piece of source."""
    files = library.folder.glob("*.inl")
    return next(file.name for file in files if piece in file.read_text())


def copied(folder):
    """Copy the sources of all libraries; return the new folder."""
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".cc", ".h", ".inl", ".cu", ".cuh"):
            place = folder / path.relative_to(PACKAGE.parent)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
    return folder


def compiled(folder, room, *flags):
    """Compile what is missing of `room` in a folder of sources, and link it."""
    _compile(folder, room, *(flags or ["-O1"]))
    name = room / "_library.so"
    objects = [str(room / "handlers.o"), str(room / "kernels.o")]
    subprocess.run([compiler(), "-shared", *flags, *objects, "-o", str(name)], check=True)
    return name


def _compile(folder, room, *flags):
    common = ["-std=c++17", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-DSIMPLEX_PLAIN"]
    for file in room.glob("*.cc"):
        if not file.with_suffix(".o").exists():
            command = [compiler(), *common, *flags, f"-I{folder}", "-isystem", INCLUDE]
            subprocess.run([*command, "-c", file, "-o", file.with_suffix(".o")], check=True)


def compiler():
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    return compiler


@functools.cache
def _handlers(library):
    """The calls for XLA without the kernels, which are slowest to compile."""
    folder = copied(Path(tempfile.mkdtemp()))
    room = folder / library.folder.relative_to(PACKAGE.parent)
    (room / "kernels.cc").unlink()
    _compile(folder, room, "-O1")
    return room / "handlers.o"
