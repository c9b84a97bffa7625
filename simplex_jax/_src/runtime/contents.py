"""The files of a run in a directory, told apart from all others."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from simplex_jax._src.runtime import lock, output

CONFIG, CHECKPOINT, SAMPLES, SHARES = "config.json", "checkpoint", "samples", "doc_topics"

_SAVED = re.compile(r"\d+-step-\d+")
_SAMPLE = re.compile(r"sample-\d+\.npz")
_SHARE = re.compile(r"part-\d+-of-\d+\.npz")
_SUMS = "SHA256SUMS"
_SHOWN = 3
_FOLDERS = (CHECKPOINT, SAMPLES, SHARES)


class Contents(NamedTuple):
    """Contents of a directory."""

    command: str | None = None  # the command whose run is in it, or None
    files: Sequence[Path] = ()  # files that runs of the command write, `config.json` last
    checkpoints: Sequence[Path] = ()  # its checkpoints
    samples: Sequence[Path] = ()  # files of its samples
    shares: Sequence[Path] = ()  # files of the shares of documents, one per process
    unfinished: Sequence[Path] = ()  # files of interrupted writes
    others: Sequence[Path] = ()  # all other files in the directory, which are left alone
    # Foreign files in places of the run: others with a name of its files, and files in its
    # checkpoints that are neither in the checksums nor hidden.
    clashes: Sequence[Path] = ()

    @property
    def results(self) -> bool:
        """True if the run has written anything besides its configuration."""
        return bool(self.files[:-1] or self.checkpoints or self.samples or self.shares)

    def described(self) -> str:
        """Name the files that `remove` removes."""
        parts = [path.name for path in self.files]
        folders = (self.checkpoints, self.samples, self.shares)
        for paths, noun in zip(folders, ("checkpoint", "sample", "part"), strict=True):
            if paths:
                parts.append(f"{len(paths)} {noun}{'s' if len(paths) > 1 else ''}")
        return ", ".join(parts)


def named(paths: Iterable[Path]) -> str:
    """Return the names of the first few paths."""
    names = sorted(path.name for path in paths)
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


class _Folder(NamedTuple):
    """Contents of a folder of a run."""

    own: Sequence[Path]  # what runs write there
    unfinished: Sequence[Path]  # files of interrupted writes


def scan(directory: Path, names: Collection[str]) -> Contents:
    """Classify the contents of a directory; without a run's `config.json`, all are others.

    `names` are the files that a run writes, including `config.json`, besides checkpoints and
    samples.
    """
    command = _command(directory / CONFIG)
    entries = [path for path in sorted(directory.iterdir()) if path.name != lock.NAME]
    if command is None:
        unfinished = [path for path in entries if output.final_name(path) == CONFIG]
        others = [path for path in entries if path not in unfinished]
        return Contents(unfinished=unfinished, others=others)
    files = [path for path in entries if path.name in names and path.is_file()]
    files.sort(key=lambda path: path.name == CONFIG)
    unfinished = [path for path in entries if output.final_name(path) in names]
    folders = [directory / name for name in _FOLDERS]
    others = [path for path in entries if path not in [*files, *unfinished, *folders]]
    checkpoints, samples, shares = map(_look_into, folders, (_SAVED, _SAMPLE, _SHARE))
    return Contents(
        command=command,
        files=files,
        checkpoints=checkpoints.own,
        samples=[path for path in samples.own if path.is_file()],
        shares=[path for path in shares.own if path.is_file()],
        unfinished=[
            *(*unfinished, *checkpoints.unfinished),
            *(*samples.unfinished, *shares.unfinished),
        ],
        others=others,
        clashes=[
            *(path for path in others if path.name in names),
            *(path for path in folders if path.exists() and not path.is_dir()),
            *(path for checkpoint in checkpoints.own for path in _foreign(checkpoint)),
        ],
    )


def _look_into(folder: Path, name: re.Pattern[str]) -> _Folder:
    """Classify the contents of a folder, if it exists, by a pattern of names."""
    paths = list(folder.iterdir()) if folder.is_dir() else []
    return _Folder(
        [path for path in paths if name.fullmatch(path.name)],
        [path for path in paths if name.fullmatch(output.final_name(path))],
    )


def remove(directory: Path, contents: Contents) -> None:
    """Remove a run and nothing else, its configuration last."""
    arrays = [*contents.samples, *contents.shares]
    for path in [*arrays, *contents.checkpoints, *contents.unfinished]:
        output.remove(path)
    for name in _FOLDERS:
        with suppress(OSError):  # absent, or not empty
            (directory / name).rmdir()
    for path in contents.files:
        path.unlink()


def _command(config: Path) -> str | None:
    """Return the command that wrote a `config.json`, or None if no run did."""
    try:
        values = json.loads(config.read_bytes())
        return str(values["command"]) if "simplex_jax" in values["versions"] else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _foreign(checkpoint: Path) -> list[Path]:
    """Return the files of a checkpoint that are not in its checksums, without hidden ones."""
    if not checkpoint.is_dir():
        return [checkpoint]
    sums = checkpoint / _SUMS
    lines = sums.read_text("utf-8", "replace").splitlines() if sums.is_file() else []
    own = {checkpoint / line[66:] for line in lines} | {sums}
    others = [path for path in checkpoint.rglob("*") if path not in own and not path.is_dir()]
    return [path for path in others if not output.is_hidden(path, checkpoint)]
