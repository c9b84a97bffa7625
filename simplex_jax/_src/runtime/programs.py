"""Compiled programs: how they are compiled, kept on disk for later commands, and dropped in time.

Only the commands keep them on disk, so that a repeated one does not compile them again. `fit` in
Python is part of a larger program, whose configuration of JAX is its own: there
`JAX_COMPILATION_CACHE_DIR` does the same for all that the program compiles.
"""

import functools
import hashlib
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jaxlib

from simplex_jax._src.version import __version__

VARIABLE = "SIMPLEX_JAX_PROGRAMS"
"""The environment variable that keeps no programs, if it is 0."""
MOST = 2**28
"""Bytes of all programs on disk, of which the least recently used are removed; a command needs 1 to
4 MiB."""

MOST_MAPS = 30_000
"""Memory maps of a process at which it drops its programs; Linux allows 65,530 by default. A fit
that compiles adds 300 to 2,000."""

TWO_GENERATORS = tuple(map(int, jaxlib.__version__.split(".")[:2])) < (0, 11)
"""Whether XLA has two generators of code for CPUs: later versions have but one, faster than the
default of these, and do not know the option that chooses."""

_CHECKED = 64  # programs written between checks of the size
_CPU = ("vendor_id", "model name", "flags", "CPU implementer", "CPU part", "Features", "isa")
_DIGEST = hashlib.sha256().digest_size


def quick_options() -> dict[str, bool | int]:
    """Return `compiler_options` of `jax.jit` for programs of many small loops.

    On a CPU they compile in less time. The programs are as fast if what takes time in them are
    matrix products, sums and native code; exponentials of large arrays may take longer. Flags in
    the variable `XLA_FLAGS` come first.
    """
    if jax.default_backend() != "cpu":
        return {}
    options: dict[str, bool | int] = {"xla_backend_optimization_level": 1}
    if TWO_GENERATORS:
        options["xla_cpu_use_fusion_emitters"] = False
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in options.items() if name not in flags}


@functools.cache
def jit(function: Callable, static_argnames: str, **compiler_options: Any) -> Any:
    """Return `jax.jit(function)`, the same one for the same options.

    Other compiled functions cannot call it if there are options.
    """
    names = static_argnames.split()
    return jax.jit(function, static_argnames=names, compiler_options=compiler_options or None)


def forget_many() -> None:
    """Drop all compiled programs of this process if they are too many.

    JAX keeps what it has compiled, a few memory maps each. Fits of ever other shapes reach Linux's
    limit, with gigabytes free: "LLVM compilation error: Cannot allocate memory" ends the process.
    What is dropped, also of the user's functions, is compiled again at its next use.
    """
    with suppress(OSError):  # no such file, and no such limit, on other systems
        if Path("/proc/self/maps").read_bytes().count(b"\n") > MOST_MAPS:
            jax.clear_caches()


def keep() -> None:
    """Keep the programs that this process compiles, and use those of earlier ones.

    Nothing changes if the user has a cache of JAX or `SIMPLEX_JAX_PROGRAMS=0`, or if this version
    of JAX has no such caches.
    """
    own = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if own or os.environ.get(VARIABLE) == "0":
        return
    # JAX's own cache writes entries in place, so that an interrupted one stays damaged, does not
    # check what it reads, and needs another package to bound its size.
    try:
        from jax._src import compilation_cache
        from jax._src.compilation_cache_interface import CacheInterface
    except ImportError:
        return
    if not hasattr(compilation_cache, "_cache") or compilation_cache._cache is not None:
        return

    class Cache(Programs, CacheInterface):
        """The interface of JAX."""

    try:
        folder = home() / digest()
    except (OSError, RuntimeError):  # there is no home directory, or a file cannot be read
        return
    compilation_cache._cache = Cache(folder)
    # Even the smallest program takes longer to compile than to read.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    # What cannot be read is compiled.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")


def home() -> Path:
    """Return the folder of all programs, in the user's folder of caches."""
    if sys.platform == "darwin":
        caches = Path.home() / "Library" / "Caches"
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "simplex_jax" / "programs"


def digest() -> str:
    """Return the digest of what programs depend on besides what JAX asks for.

    JAX does not tell the kinds of CPUs apart, of which several may share a home directory, and
    knows native code by the names of its calls only.
    """
    total = hashlib.sha256()
    versions = f"{jax.__version__} {jaxlib.__version__} {__version__}"
    total.update("\n".join((versions, platform.machine(), *_cpu())).encode())
    for path in sorted(Path(__file__).parents[1].rglob("native/*.so")):
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:32]


def _cpu() -> list[str]:
    """Return what identifies the kind of CPU, or this machine where that is unknown."""
    lines: list[str] = []
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:  # of the first core
            if not line.strip() and lines:
                break
            if line.partition(":")[0].strip() in _CPU:
                lines.append(line.strip())
    return lines or [platform.node(), platform.processor()]


class Programs:
    """Programs in a folder by their keys; what cannot be read or written is left out.

    Several processes may use a folder at once: files appear whole, with a digest of their contents.

    Args:
        folder: The folder, below one for all versions and machines, which is bounded in size.
        most: Bytes of all programs.
    """

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self._path, self._most = folder, most
        self._written = 0

    def get(self, key: str) -> bytes | None:
        """Return a program; None if there is none."""
        path = self._file(key)
        try:
            if not _own(self._path):
                return None
            contents = path.read_bytes()
            program = contents[_DIGEST:]
            if contents[:_DIGEST] != _checksum(key, program):
                path.unlink()
                return None
        except OSError:
            return None
        with suppress(OSError):
            os.utime(path)  # the last use
        return program

    def put(self, key: str, program: bytes) -> None:
        """Write a program."""
        with suppress(OSError):
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _own(self._path):
                return
            if self._written % _CHECKED == 0:
                shrink(self._path.parent, self._most)
            self._written += 1
            number, name = tempfile.mkstemp(dir=self._path)
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(_checksum(key, program) + program)
                os.replace(name, self._file(key))
            except BaseException:
                os.unlink(name)
                raise

    def _file(self, key: str) -> Path:
        return self._path / hashlib.sha256(key.encode()).hexdigest()


def _checksum(key: str, program: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + program).digest()


def _own(folder: Path) -> bool:
    """Return whether only this user can write to a folder: programs are run unseen."""
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def shrink(folder: Path, most: int) -> None:
    """Remove the least recently used files of folders in a folder until the rest is smaller."""
    files = []
    for path in folder.glob("*/*"):
        with suppress(OSError):  # another process has removed it
            status = path.stat()
            files.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in files)
    if total <= most:
        return
    for _, size, path in sorted(files):
        if total <= most // 2:
            break
        total -= size
        with suppress(OSError):
            path.unlink()
    for place in folder.iterdir():
        with suppress(OSError):  # it is not empty
            place.rmdir()
