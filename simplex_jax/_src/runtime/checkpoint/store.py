"""A directory with the newest checkpoints of one run.

A checkpoint is a directory `<serial>-step-<step>` with

- `arrays-0.npz`: the arrays of process 0, named by the number of the leaf; other processes write
  their parts of sharded arrays to `arrays-1.npz` and so on;
- `manifest.json`: the step, settings and data of the run, the versions, and the path and value, or
  dtype and shape, of every leaf;
- `SHA256SUMS` of all other files, in the format of `sha256sum -c`.

It is written under a hidden name, read back, flushed to disk and renamed: after a crash it is
complete or absent. Only one run at a time may write to a directory, which all of its processes must
see.
"""

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import jax
import numpy as np

from simplex_jax._src import arguments
from simplex_jax._src.base import PyTree
from simplex_jax._src.runtime import output, processes
from simplex_jax._src.runtime.checkpoint import errors, leaves
from simplex_jax._src.runtime.checkpoint.errors import CheckpointError, CheckpointWarning, Damaged
from simplex_jax._src.version import __version__
from simplex_jax._src.warn import warn_caller

_NAME = r"(\d+)-step-\d+"
_ARRAYS, _MANIFEST, _SUMS = "arrays-{}.npz", "manifest.json", "SHA256SUMS"
_FORMAT = 5
_PIECE = 2**24  # bytes compared or checked at once
_FIELDS = {"format", "step", "about", "random", "versions", "leaves"}


class Saved(NamedTuple):
    """A checkpoint."""

    step: int  # the step at which it was saved
    tree: PyTree  # the pytree
    about: dict[str, Any]  # settings and data of the run


class Store:
    """The newest `keep` checkpoints of one run, in a directory created by the first `save`.

    A new checkpoint is read back before an old one is removed, so a verified one always exists.
    """

    def __init__(self, directory: str | Path, keep: int = 3) -> None:
        self._directory = Path(directory)
        self._keep = arguments.at_least("keep", keep, 1)

    def save(self, step: int, tree: PyTree, about: Mapping[str, Any]) -> Path:
        """Save a pytree of arrays of numbers, typed PRNG keys and JSON values; return its path.

        `about` is everything that a run must share with this one to resume from here: settings,
        sizes, a digest of the data; anything that `output.write_json` accepts. If the write fails,
        with a CheckpointError, earlier checkpoints are left unchanged. All processes of a run save
        together.
        """
        entries, arrays = leaves.flatten(tree)
        manifest = {
            "format": _FORMAT,
            "step": step,
            "about": output.plain(about),
            "random": _random_flags(),
            "versions": _versions(),
            "leaves": entries,
        }
        try:
            name = ""
            with processes.raise_together(OSError):
                if processes.is_first():
                    name = self._begin(step)
            path = self._directory / processes.broadcast_text(name)
            with processes.raise_together(OSError, Damaged):
                if not processes.is_first():
                    parts = {name: part for name, part in arrays.items() if leaves.is_part(name)}
                    _write_arrays(_staged(path, processes.number()), parts, entries)
            with processes.raise_together(OSError, Damaged):
                if processes.is_first():
                    _publish(path, arrays, manifest)
        except (OSError, Damaged) as error:
            raise CheckpointError(
                f"cannot save step {step} in {str(self._directory)!r}: {_reason(error)} "
                "(earlier checkpoints are unchanged)"
            ) from error
        if processes.is_first():
            for old in self._checkpoints()[: -self._keep]:
                output.remove_directory(old)
        return path

    def _begin(self, step: int) -> str:
        """Remove leftovers of a crash, and return the name of the next checkpoint."""
        output.remove_leftovers(self._directory, _NAME)
        earlier = self._checkpoints()
        self._directory.mkdir(parents=True, exist_ok=True)  # other processes stage files here
        serial = 1 + (_serial(earlier[-1]) if earlier else 0)
        return f"{serial:06d}-step-{step}"

    def latest(
        self, like: PyTree, about: Mapping[str, Any], *, resized: bool = False
    ) -> Saved | None:
        """Return the newest undamaged checkpoint, or None if there are no checkpoints.

        `like` has the saved structure, with arrays (or `jax.ShapeDtypeStruct`) of the saved shapes
        and dtypes or, if `resized`, of other sizes with as many axes. `checkpoint.ANY` stands for
        anything, and `checkpoint.MAPPED` for an array that stays in its files, as
        `checkpoint.Parts`. Other leaves are JAX or NumPy arrays like those of `like`, on the same
        devices; in place of `ANY` there are dicts and lists of NumPy arrays, keys and values.

        Damaged checkpoints are skipped, each with a `CheckpointWarning`. A checkpoint of another
        run (the message names the difference) or format raises a CheckpointError, and so do
        checkpoints that are all damaged.
        """
        paths = self._checkpoints()
        for path in reversed(paths):
            try:
                return self._read(path, like, about, sized=not resized)
            except Damaged as error:
                text = f"checkpoint {str(path)!r} is damaged and skipped: {error}"
                warn_caller(text, CheckpointWarning)
        if paths:
            raise CheckpointError(
                f"all {len(paths)} checkpoints in {str(self._directory)!r} are damaged: "
                "remove them to start from the beginning"
            )
        return None

    def check_writable(self) -> None:
        """Raise a CheckpointError if checkpoints cannot be saved here; nothing is created."""
        place = self._directory
        try:
            folder = next(path for path in (place, *place.parents) if path.exists())
        except OSError as error:
            raise CheckpointError(f"cannot save checkpoints: {_reason(error)}") from error
        if not folder.is_dir():
            raise CheckpointError(f"{str(folder)!r} is a file: give a directory")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise CheckpointError(f"cannot save checkpoints: {str(folder)!r} cannot be written to")

    def newest(self) -> Path | None:
        """Return the newest checkpoint, which may be damaged; None if there is none.

        A file in place of the directory raises a CheckpointError.
        """
        paths = self._checkpoints()
        return paths[-1] if paths else None

    def _checkpoints(self) -> list[Path]:
        """Return the checkpoints in the order in which they were written, oldest first."""
        if not self._directory.exists():
            return []
        if not self._directory.is_dir():
            raise CheckpointError(f"{str(self._directory)!r} is a file: give a directory")
        paths = [path for path in self._directory.iterdir() if re.fullmatch(_NAME, path.name)]
        return sorted(paths, key=_serial)

    def _read(self, path: Path, like: PyTree, about: Mapping[str, Any], *, sized: bool) -> Saved:
        manifest = _manifest(path)
        if manifest["format"] != _FORMAT:
            raise CheckpointError(
                f"checkpoint {str(path)!r} has format {manifest['format']!r} and this version of "
                f"simplex_jax reads format {_FORMAT}: use the version that wrote it, or start "
                "again in another directory"
            )
        entries = manifest["leaves"]
        try:
            errors.compare(manifest["about"], output.plain(about))
            errors.compare(manifest["random"], _random_flags())
            leaves.check(like, entries, sized=sized)
        except CheckpointError as error:
            raise CheckpointError(f"checkpoint {str(path)!r} is not of this run: {error}") from None
        tree = leaves.rebuild(like, entries, _read_arrays(path, like, entries))
        try:
            errors.compare(manifest["versions"], _versions())
        except CheckpointError as error:
            warn_caller(
                f"samples from here on may differ from those of an uninterrupted run: {error}",
                CheckpointWarning,
            )
        return Saved(manifest["step"], tree, manifest["about"])


def _random_flags() -> dict[str, Any]:
    """Return the settings of JAX that affect its random numbers."""
    flags = ("jax_default_prng_impl", "jax_threefry_partitionable", "jax_enable_x64")
    return {flag: getattr(jax.config, flag) for flag in flags}


def _versions() -> dict[str, str]:
    """Return the versions that may change the rounding of a sample."""
    device = jax.devices()[0].device_kind
    return {"simplex_jax": __version__, "jax": jax.__version__, "device": device}


def _serial(path: Path) -> int:
    return int(path.name.split("-")[0])


def _sums(directory: Path) -> str:
    """Return the SHA-256 of every file except `SHA256SUMS` and hidden ones, one per line.

    Systems add hidden files of their own, such as .DS_Store.
    """
    lines = []
    for path in sorted(directory.rglob("*")):
        if output.is_hidden(path, directory):
            continue
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise Damaged(f"{path.name!r} is not a plain file")
        if path.is_file() and path != directory / _SUMS:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            lines.append(f"{digest}  {path.relative_to(directory).as_posix()}\n")
    return "".join(lines)


def _manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a checkpoint after checking that its files are as written."""
    try:
        if (path / _SUMS).read_bytes() != os.fsencode(_sums(path)):
            raise Damaged(f"its files do not match {_SUMS}")
        manifest = json.loads((path / _MANIFEST).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Damaged(_reason(error)) from None
    if not isinstance(manifest, dict) or not manifest.keys() >= _FIELDS:
        raise Damaged(f"{_MANIFEST} is not a manifest")
    return manifest


def _publish(path: Path, arrays: Mapping[str, np.ndarray], manifest: Mapping[str, Any]) -> None:
    """Publish a checkpoint, with the parts that other processes have staged."""
    with output.publishing(path) as directory:
        _write_arrays(directory / _ARRAYS.format(0), arrays, manifest["leaves"])
        for number in range(1, processes.count()):
            _staged(path, number).rename(directory / _ARRAYS.format(number))
        output.write_text(directory / _MANIFEST, json.dumps(manifest, indent=1))
        output.write_text(directory / _SUMS, _sums(directory))


def _staged(path: Path, number: int) -> Path:
    """Return where a process stages its arrays: a file that `output` treats as a leftover."""
    return path.with_name(f".{path.name}.{number:08x}.tmp")


def _write_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], entries: Sequence[leaves.Entry]
) -> None:
    """Write the arrays of entries and read them back, a piece at a time."""
    output.write_npz(path, arrays)
    with _opened(path) as archive:
        for name, array in arrays.items():
            with archive.zip.open(f"{name}.npy") as member:
                if not _holds(member, array):
                    entry = entries[int(name.partition("@")[0])]
                    raise Damaged(f"{leaves.path_name(entry['path'])} is not what was saved")


def _holds(file: IO[bytes], array: np.ndarray) -> bool:
    """Return whether an `.npy` file has the contents of an array."""
    shape, transposed, dtype = _header(file)
    expected = _bytes(array.T if transposed else array)
    pieces = (expected[first : first + _PIECE] for first in range(0, expected.size, _PIECE))
    same = all(file.read(piece.size) == piece.tobytes() for piece in pieces)
    # NumPy reads the dtypes of `ml_dtypes` as void.
    return same and (shape, dtype.itemsize) == (array.shape, array.itemsize)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read the shape of an `.npy` file, whether it is transposed, and the dtype."""
    np.lib.format.read_magic(file)
    return np.lib.format.read_array_header_1_0(file)


def _read_arrays(
    path: Path, like: PyTree, entries: Sequence[leaves.Entry]
) -> dict[str, np.ndarray | leaves.Parts]:
    """Return the arrays by the number of their entry."""
    files = sorted(path.glob(_ARRAYS.format("*")), key=lambda file: int(file.stem.split("-")[1]))
    try:
        return leaves.gathered(like, entries, [_mapped(file) for file in files])
    except (KeyError, IndexError, ValueError) as error:
        raise Damaged(f"{_ARRAYS.format(0)}: {_reason(error)}") from None


def _mapped(path: Path) -> dict[str, np.ndarray]:
    """Check the arrays of an archive, a piece at a time, and map them."""
    arrays = {}
    with _opened(path) as archive:
        content = np.asarray(np.memmap(path, np.uint8, "r"))
        for info in archive.zip.infolist():
            if info.compress_type != zipfile.ZIP_STORED:
                raise Damaged(f"{path.name}: {info.filename} is compressed")
            with archive.zip.open(info) as member:
                shape, transposed, dtype = _header(member)
                head = member.tell()
                while member.read(_PIECE):
                    pass  # the last piece compares the checksum
            first = _begin(content, info)
            numbers = content[first + head : first + info.file_size].view(dtype)
            name = info.filename.removesuffix(".npy")
            arrays[name] = numbers.reshape(shape, order="F" if transposed else "C")
    return arrays


def _begin(content: np.ndarray, info: zipfile.ZipInfo) -> int:
    """Return where a file in an archive begins: after a header, its name and an extra field."""
    sizes = content[info.header_offset + 26 : info.header_offset + 30].view("<u2")
    return info.header_offset + 30 + int(sizes.sum())


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open an archive; errors, also while it is read, become `Damaged`."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            yield archive
    except (MemoryError, Damaged):
        raise
    except Exception as error:  # damaged archives raise errors of all kinds
        raise Damaged(f"{path.name}: {_reason(error)}") from None


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _reason(error: BaseException) -> str:
    """Return why an operation failed, in a few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
