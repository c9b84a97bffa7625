"""Reading the files of a finished run with full checks; `directory` and `output` write them.

A file that is missing, damaged or of another run raises a `RunError` that names it.
"""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.corpus.files import DAMAGED, unpacked_limit

VOCABULARY = "vocabulary.txt"
"""The file of the words of a run, one per line."""
FORMAT = 5
"""Version of the files of a run, increased when their contents change."""

_DIFFERENT = "the files belong to different runs"
_DAMAGED = (*DAMAGED, OSError, ValueError, LookupError, MemoryError)


class RunError(ValueError):
    """A directory that is not a run of this program, or a damaged one."""

    __module__ = "simplex_jax.errors"  # where users find it


def finished(directory: str | Path) -> bool:
    """Return whether a run has ended without an interruption."""
    path = Path(directory) / "summary.json"
    return path.exists() and not load_json(path).get("interrupted", True)


def load_config(directory: str | Path, command: str) -> dict[str, Any]:
    """Read `config.json`, or raise a RunError unless the command, such as "lda", wrote it."""
    place, program = Path(directory), f"simplex-jax {command}"
    if not place.is_dir():
        raise RunError(f"{place}: there is no such directory")
    if not (place / "config.json").exists():
        inner = min(place.glob("*/config.json"), default=None)  # of several numbers of topics
        remedy = "give the directory that --out named"
        if inner is not None:
            remedy = f"give one of the runs in it, such as {inner.parent}"
        raise RunError(
            f"{place}: this is not a run of {program} (there is no config.json): {remedy}"
        )
    config = load_json(place / "config.json")
    writer = config.get("command")
    if isinstance(writer, str) and writer != command:
        raise RunError(f"{place}: this is a run of simplex-jax {writer}, not of {program}")
    sound = all(isinstance(config.get(part), dict) for part in ("settings", "corpus", "versions"))
    if writer != command or not sound:
        raise RunError(f"{place / 'config.json'}: this is not a configuration of {program}")
    if config.get("format") != FORMAT:
        version = config["versions"].get("simplex_jax", "(unknown)")
        raise RunError(
            f"{place}: the files of this run have another format: read them with simplex_jax "
            f"{version}, the version that wrote them, or fit again"
        )
    return config


def load_vocabulary(directory: str | Path) -> tuple[str, ...]:
    """Read `vocabulary.txt`."""
    return tuple(_load_text(Path(directory) / VOCABULARY).split("\n")[:-1])


def load_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    text = _load_text(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: this is not JSON ({error}): the file is damaged") from None
    if not isinstance(value, dict):
        raise RunError(f"{path}: this is not a JSON object: the file is damaged")
    return value


def load_metrics(directory: str | Path) -> list[dict[str, Any]]:
    """Read `metrics.jsonl`, one record per evaluation; a torn last line is left out."""
    path = Path(directory) / "metrics.jsonl"
    try:
        records = [json.loads(line) for line in _load_text(path).split("\n")[:-1]]
    except json.JSONDecodeError as error:
        raise RunError(f"{path}: this is not JSON ({error}): the file is damaged") from None
    if not all(isinstance(record, dict) and "step" in record for record in records):
        raise RunError(f"{path}: a line holds no evaluation: the file is damaged")
    return records


def load_arrays(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Read floating point arrays by name from an `.npz`, and check their shapes."""
    arrays = load_npz(path, tuple(shapes))
    for name, array in arrays.items():
        if array.shape != shapes[name] or array.dtype.kind != "f":
            raise RunError(
                f"{path}: {name} is {array.dtype} {array.shape}, but the other files of the run "
                f"imply floating point numbers of shape {shapes[name]}: {_DIFFERENT}"
            )
    return arrays


def load_proportions(path: Path, columns: int) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Read names, shares float32 [n, columns] and errors [n] of `directory.write_proportions`.

    They are empty if there is no file, and errors are NaN if none were written.
    """
    if not path.exists():
        return (), np.empty((0, columns), np.float32), np.empty(0, np.float32)
    arrays = load_npz(path)
    if missing := {"proportions", "documents"} - arrays.keys():
        raise RunError(f"{path}: the file is damaged ({', '.join(sorted(missing))} is missing)")
    names, shares = arrays["documents"], arrays["proportions"]
    if shares.shape != (len(names), columns) or shares.dtype != np.float32:
        raise RunError(f"{path}: {shares.shape} shares for {len(names)} names: {_DIFFERENT}")
    errors = arrays.get("error", np.full(len(names), np.nan, np.float32))
    if errors.shape != (len(names),):
        raise RunError(f"{path}: {len(errors)} errors for {len(names)} names: {_DIFFERENT}")
    return tuple(map(str, names.tolist())), shares, errors


def _load_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RunError(f"{path}: cannot be read ({reason.lower()})") from None


def load_npz(path: Path, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Read some or all arrays of an `.npz`, without unpickling."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > unpacked_limit(path.stat().st_size):
            raise ValueError("unpacks to far more than its size")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in (arrays.files if names is None else names)}
    except _DAMAGED as error:
        if (reason := getattr(error, "strerror", None)) is not None:
            raise RunError(f"{path}: cannot be read ({reason.lower()})") from None
        raise RunError(f"{path}: the file is damaged ({' '.join(str(error).split())})") from None
