"""Files of a finished run, read again with every check; `directory` and `output` write them."""

import json
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax.corpus.files import unpacked_limit

_DAMAGED = (
    *(OSError, ValueError, LookupError, EOFError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
)


class RunError(ValueError):
    """A directory that is no run of this program, or a damaged one: one line that says what."""


def finished(directory: str | Path) -> bool:
    """Tell whether a run has come to its end, and not by an interruption.

    Raises:
        RunError: Its summary is damaged.
    """
    path = Path(directory) / "summary.json"
    return path.exists() and not load_json(path).get("interrupted", True)


def load_config(directory: str | Path, command: str, size: str = "num_topics") -> dict[str, Any]:
    """Read `config.json`.

    Args:
        directory: Of the run.
        command: The one that must have written it, say "lda".
        size: The setting that must be there, a positive whole number.

    Raises:
        RunError: It is missing or damaged, or of another program or command, which the message then
            names.
    """
    place, program = Path(directory), f"simplex-jax {command}"
    if not place.is_dir():
        raise RunError(f"{place}: there is no such directory")
    if not (place / "config.json").exists():
        raise RunError(
            f"{place}: this is no run of {program} (there is no config.json): "
            "give the directory that --out named"
        )
    config = load_json(place / "config.json")
    found = config.get("command")
    if isinstance(found, str) and found != command:
        raise RunError(f"{place}: this is a run of simplex-jax {found}, not of {program}")
    settings = config.get("settings")
    count = settings.get(size) if isinstance(settings, dict) else None
    sound = isinstance(count, int) and count > 0 and isinstance(config.get("corpus"), dict)
    if found != command or not sound:
        raise RunError(f"{place / 'config.json'}: this is no configuration of {program}")
    return config


def check_ended(directory: str | Path, command: str, result: str = "topics.npz") -> None:
    """Raise a RunError unless a run has written its results, of which `result` is one."""
    if not (Path(directory) / result).exists():
        raise RunError(
            f"{directory}: the run has not come to its end (there is no {result}): "
            f"continue it with simplex-jax {command} --resume {directory}"
        )


def load_vocabulary(directory: str | Path) -> tuple[str, ...]:
    """Read `vocabulary.txt`.

    Raises:
        RunError: It cannot be read.
    """
    return tuple(_load_text(Path(directory) / "vocabulary.txt").split("\n")[:-1])


def load_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        RunError: The file is missing or holds something else.
    """
    try:
        value = json.loads(_load_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(f"{path}: this is no JSON ({error}): the file is damaged") from None
    if not isinstance(value, dict):
        raise RunError(f"{path}: this is no JSON object: the file is damaged")
    return value


def load_metrics(directory: str | Path) -> list[dict[str, Any]]:
    """Read `metrics.jsonl`, one record an evaluation; a torn last line is left out.

    Raises:
        RunError: The file is missing or damaged.
    """
    path = Path(directory) / "metrics.jsonl"
    try:
        records = [json.loads(line) for line in _load_text(path).split("\n")[:-1]]
    except json.JSONDecodeError as error:
        raise RunError(f"{path}: this is no JSON ({error}): the file is damaged") from None
    if not all(isinstance(record, dict) and "step" in record for record in records):
        raise RunError(f"{path}: a line holds no evaluation: the file is damaged")
    return records


def load_arrays(
    path: Path, shapes: dict[str, tuple[int, ...]], told_by: str
) -> dict[str, np.ndarray]:
    """Read named arrays of floating point numbers from an `.npz`, unpickling nothing.

    Args:
        path: The file.
        shapes: The shape that each must have, by name.
        told_by: Of which files, for the message.

    Raises:
        RunError: The file is damaged, or an array has another shape or type.
    """
    arrays = _load_arrays(path, tuple(shapes))
    for name, array in arrays.items():
        if array.shape != shapes[name] or array.dtype.kind != "f":
            raise RunError(
                f"{path}: {name} is {array.dtype} {array.shape}, and {told_by} tell of "
                f"{shapes[name]}: the files are of different runs"
            )
    return arrays


def load_all_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read every array of an `.npz`, unpickling nothing.

    Raises:
        RunError: The file is damaged, or is none.
    """
    return _load_arrays(path, None)


def _load_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RunError(f"{path}: cannot be read ({reason.lower()})") from None


def _load_arrays(path: Path, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > unpacked_limit(path.stat().st_size):
            raise ValueError("unpacks to far more than its size")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in (arrays.files if names is None else names)}
    except _DAMAGED as error:
        raise RunError(f"{path}: the file is damaged ({' '.join(str(error).split())})") from None
