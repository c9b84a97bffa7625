"""Files of thinned samples, each with the mark of the run that drew it."""

import hashlib
import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplex_jax._src.runtime import output, processes, saved

_MARK = "run"


def mark_of(about: Mapping[str, Any]) -> str:
    """Return the mark of all runs with the same `about`, as in `Store.save`."""
    text = json.dumps(output.plain(about), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def name_of(number: int) -> str:
    """Return the name of the file of a sample."""
    return f"sample-{number:05d}.npz"


def copy(source: Path, target: Path) -> None:
    """Copy the samples of a run, if it has any; on one disk they take no further space."""
    paths = sorted(source.glob("sample-*.npz"))
    if paths:
        target.mkdir(exist_ok=True)
    for path in paths:
        # A sample is replaced as a whole, never changed, so that both runs may have one file.
        try:
            (target / path.name).hardlink_to(path)
        except OSError:  # another disk, or one without links
            shutil.copyfile(path, target / path.name)


class Folder(NamedTuple):
    """The directory of the samples of a run; process 0 writes to it."""

    path: Path
    mark: str

    def begin(self, *, over: bool) -> None:
        """Raise a FileExistsError if there are samples already, which would stay there.

        If a run starts `over`, because it had no checkpoint yet, its own samples are removed.
        """
        if not over:
            self._refuse(self._files())
        else:
            self.check()
            self.keep(())

    def check(self) -> None:
        """Raise a FileExistsError if there are samples of another run."""
        self._refuse([path for path in self._files() if not self._is_own(path)])

    def step_of(self, number: int) -> int:
        """Return the step of a sample, or -1 if it has no file."""
        path, step = self.path / name_of(number), -1
        if processes.is_first() and path.exists():
            step = int(saved.load_npz(path, ["step"])["step"])
        return int(processes.broadcast(step))

    def write(self, number: int, sample: Mapping[str, np.ndarray]) -> None:
        """Write a sample."""
        if processes.is_first():
            marked = {**sample, _MARK: np.asarray(self.mark)}
            output.write_npz(self.path / name_of(number), marked)

    def remove(self, number: int) -> None:
        """Remove a sample."""
        if processes.is_first():
            (self.path / name_of(number)).unlink(missing_ok=True)

    def keep(self, numbers: Collection[int]) -> None:
        """Remove all samples except those with these numbers."""
        names = {name_of(number) for number in numbers}
        for path in self._files():
            if path.name not in names:
                path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("sample-*.npz")) if processes.is_first() else []

    def _is_own(self, path: Path) -> bool:
        try:
            return str(saved.load_npz(path, [_MARK])[_MARK]) == self.mark
        except saved.RunError:  # from an earlier version, `Fit.save` or another program
            return False

    def _refuse(self, paths: Sequence[Path]) -> None:
        with processes.raise_together(OSError):
            if paths:
                number = f"{len(paths)} sample{'s' if len(paths) > 1 else ''}"
                raise FileExistsError(
                    f"samples_dir {str(self.path)!r} holds {number} of another run, such as "
                    f"{paths[0].name}: give another directory, or remove them"
                )
