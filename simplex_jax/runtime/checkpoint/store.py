"""A directory of checkpoints of one run.

A checkpoint is a directory `<serial>-step-<step>` with

- `arrays/`, by Orbax;
- `manifest.json`: the step, what the run is about, the versions, and of every leaf its name and
  value, or its dtype, shape and SHA-256;
- `SHA256SUMS` of all other files, as `sha256sum -c` reads it.

It is written under a hidden name, read back, flushed to the disk and renamed: a reader, or what is
left after a crash, sees it whole or not at all. One process at a time may write to a directory.
"""

import json
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplex_jax.base import PyTree
from simplex_jax.draws import arguments
from simplex_jax.runtime import output
from simplex_jax.runtime.checkpoint import arrays as array_files
from simplex_jax.runtime.checkpoint import files, leaves, match
from simplex_jax.runtime.checkpoint.errors import CheckpointError, CheckpointWarning, Damaged

_NAME = re.compile(r"(\d+)-step-\d+")
_MANIFEST = "manifest.json"
_FORMAT = 1
_FIELDS = {"format", "step", "about", "random", "versions", "leaves"}


class Saved(NamedTuple):
    """A checkpoint.

    Attributes:
        step: The step that it was saved at.
        tree: What was saved.
        about: What the run is about.
    """

    step: int
    tree: PyTree
    about: dict[str, Any]


class Store:
    """The newest checkpoints of one run.

    Args:
        directory: Where they are; made by the first `save`.
        keep: How many to keep. A new one is read back before an old one goes, so that there is
            always one that was verified.

    Raises:
        ValueError: `keep` is not a positive integer.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from simplex_jax.runtime.checkpoint import Store
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     store = Store(directory)
        ...     path = store.save(100, {"p": np.array([0.25, 0.75])}, {"alpha": 0.1})
        ...     saved = store.latest({"p": np.zeros(2)}, {"alpha": 0.1})
        >>> path.name, saved.step, saved.tree["p"].tolist()
        ('000001-step-100', 100, [0.25, 0.75])
    """

    def __init__(self, directory: str | os.PathLike[str], keep: int = 3) -> None:
        self._directory = Path(directory)
        self._keep = arguments.at_least("keep", keep, 1)

    def save(self, step: int, tree: PyTree, about: Mapping[str, Any]) -> Path:
        """Save a pytree.

        Args:
            step: The step that it belongs to.
            tree: A pytree whose leaves are arrays of numbers, typed PRNG keys, or what JSON can
                hold (None, booleans, numbers, strings, and lists and dicts of these).
            about: Everything that a run must have in common with this one to go on from here:
                settings, sizes, a digest of the data; what `output.write_json` takes.

        Returns:
            The directory of the checkpoint.

        Raises:
            CheckpointError: It cannot be written; the earlier ones are left as they were.
        """
        described, arrays = leaves.flatten(tree)
        digests = iter([array_files.digest(array) for array in arrays])
        for entry in described.values():
            if "value" not in entry:
                entry["sha256"] = next(digests)
        manifest = {
            "format": _FORMAT,
            "step": step,
            "about": output.plain(about),
            "random": match.random_flags(),
            "versions": match.versions(),
            "leaves": described,
        }
        try:
            found = self._found()
            serial = 1 + (_serial(found[-1]) if found else 0)
            path = self._directory / f"{serial:06d}-step-{step}"
            with files.publishing(path) as directory:
                array_files.write(directory / "arrays", arrays)
                (directory / _MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")
                files.seal(directory)
                _arrays(directory, described)
        except Exception as error:
            raise CheckpointError(
                f"cannot save step {step} in {str(self._directory)!r}: {files.reason(error)} "
                "(earlier checkpoints are as they were)"
            ) from error
        for old in self._found()[: -self._keep]:
            files.remove(old)
        return path

    def latest(self, like: PyTree, about: Mapping[str, Any]) -> Saved | None:
        """Return the newest checkpoint that is as it was written.

        Damaged ones are passed over, each with a `CheckpointWarning`.

        Args:
            like: A pytree of the structure that was saved, with arrays (or `jax.ShapeDtypeStruct`)
                of its shapes and dtypes; `checkpoint.ANY` stands for anything.
            about: What this run is about; see `save`.

        Returns:
            The checkpoint, or None where there is none. Its leaves are JAX or NumPy arrays as
            those of `like` are; what `ANY` stands for comes as dicts and lists of NumPy arrays,
            keys and values.

        Raises:
            CheckpointError: It is that of another run (the message names what differs), or all
                checkpoints are damaged.
        """
        found = self._found()
        for path in reversed(found):
            try:
                return self._read(path, like, about)
            except Damaged as error:
                warnings.warn(
                    f"checkpoint {str(path)!r} is damaged ({error}): trying the one before",
                    CheckpointWarning,
                    stacklevel=2,
                )
        if found:
            raise CheckpointError(
                f"all {len(found)} checkpoints in {str(self._directory)!r} are damaged: "
                "remove them to start anew"
            )
        return None

    def _found(self) -> list[Path]:
        """Return the checkpoints, oldest first: in the order of writing, not of their steps."""
        if not self._directory.exists():
            return []
        if not self._directory.is_dir():
            raise CheckpointError(f"{str(self._directory)!r} is a file: give a directory")
        found = [path for path in self._directory.iterdir() if _NAME.fullmatch(path.name)]
        return sorted(found, key=_serial)

    def _read(self, path: Path, like: PyTree, about: Mapping[str, Any]) -> Saved:
        files.verify(path)
        manifest = _manifest(path)
        described = manifest["leaves"]
        try:
            match.check({"format": manifest["format"]}, {"format": _FORMAT})
            match.check(manifest["about"], output.plain(about))
            match.check(manifest["random"], match.random_flags())
            leaves.check(like, described)
        except CheckpointError as error:
            raise CheckpointError(f"checkpoint {str(path)!r} is not of this run: {error}") from None
        tree = leaves.rebuild(like, described, _arrays(path, described))
        try:
            match.check(manifest["versions"], match.versions())
        except CheckpointError as error:
            warnings.warn(
                f"samples from here on may differ from those of an uninterrupted run: {error}",
                CheckpointWarning,
                stacklevel=3,
            )
        return Saved(manifest["step"], tree, manifest["about"])


def _serial(path: Path) -> int:
    return int(path.name.split("-")[0])


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((path / _MANIFEST).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Damaged(f"{_MANIFEST}: {files.reason(error)}") from None
    if not isinstance(manifest, dict) or not manifest.keys() >= _FIELDS:
        raise Damaged(f"{_MANIFEST} is not a manifest")
    return manifest


def _arrays(path: Path, described: Mapping[str, Mapping[str, Any]]) -> list[np.ndarray]:
    """Read the arrays and compare them with what was given to `save`."""
    entries = {name: entry for name, entry in described.items() if "value" not in entry}
    shapes = [(tuple(entry["shape"]), entry["dtype"]) for entry in entries.values()]
    try:
        arrays = array_files.read(path / "arrays", shapes)
    except Exception as error:
        raise Damaged(f"arrays: {files.reason(error)}") from None
    for (name, entry), array in zip(entries.items(), arrays, strict=True):
        if array_files.digest(array) != entry["sha256"]:
            raise Damaged(f"{name} is not what was saved")
    return arrays
