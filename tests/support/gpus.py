"""GPU native code in tests: on a GPU, or emulated by CPU threads, see `cuda/`."""

import dataclasses
import functools
import subprocess
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest

from support import native_code

EMULATION = Path(__file__).parent / "cuda"
PLACES = ("gpu", "emulated")


def results(library, place, function, *arguments):
    """Return the results of a function on the CPU and with GPU native code.

    The function has an argument `prefix`. Skips without a GPU or a compiler.
    """
    native_code.needs(library)
    on_cpu = _on("cpu", function, *arguments)
    if place == "emulated":
        emulated = functools.partial(function, prefix=emulation(library))
        return on_cpu, _on("cpu", emulated, *arguments)
    needs_gpu(library)
    return on_cpu, _on("gpu", function, *arguments)


def needs_gpu(library):
    """Skip a test without a GPU with native code."""
    if jax.default_backend() != "gpu" or not library.prefix("cuda"):
        pytest.skip("no GPU, or no native code for it")


def on(place):
    """Run the work on the GPU, or on the CPU that emulates one."""
    return jax.default_device(jax.devices("gpu" if place == "gpu" else "cpu")[0])


def _on(platform, function, *arguments):
    with on(platform):
        device = jax.devices(platform)[0]
        return jax.tree.map(np.asarray, jax.jit(function)(*jax.device_put(arguments, device)))


@functools.cache
def emulation(library, old="", new=""):
    """Return the prefix of calls of GPU native code on the CPU, with one piece replaced."""
    folder = native_code.copied(Path(tempfile.mkdtemp()))
    room = folder / library.folder.relative_to(native_code.PACKAGE.parent)
    source = (room / "cuda.cu").read_text()
    assert not old or source.count(old) == 1, f"cuda.cu has no single {old!r} to mutate"
    (room / "cuda.cc").write_text(source.replace(old, new))
    flags = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-ffp-contract=off", "-w", "-shared"]
    paths = [f"-I{EMULATION}", f"-I{folder}", "-isystem", native_code.INCLUDE]
    command = [native_code.compiler(), *flags, "-fPIC", *paths, "cuda.cc", "-o", "emulated.so"]
    subprocess.run(command, cwd=room, check=True)
    calls = tuple(call for call in library.calls if call[0] in library.cuda)
    return dataclasses.replace(library, calls=calls).register(
        room / "emulated.so", f"{library.name}_emulated{next(native_code.NUMBERS)}"
    )
