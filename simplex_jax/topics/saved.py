"""A finished run, read from its directory again with every check."""

import json
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplex_jax.corpus.files import unpacked_limit
from simplex_jax.topics.files import ARRAYS

_DAMAGED = (
    *(OSError, ValueError, LookupError, EOFError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
)


class RunError(ValueError):
    """A directory that is no run of this program, or a damaged one: one line that says what."""


class Model(NamedTuple):
    """A fitted topic model as it is on disk.

    Attributes:
        mean: Posterior mean of the topics, float32 [K, V].
        sd: Their posterior standard deviation, float32 [K, V]; NaN where unknown.
        prevalence: Share of the tokens in each topic, float64 [K].
        prevalence_sd: Its standard deviation, float64 [K].
        alpha: Concentration of topic proportions, per topic, float64 [K].
        alpha_sd: Its standard deviation, 0 where it was given, float64 [K].
        beta: Concentration of the words, per word, float64 [V].
        beta_sd: Its standard deviation, float64 [V].
        stability: How alike each topic is in all chains, float64 [K]; NaN for one chain.
        vocabulary: The V words.
        config: What `config.json` holds: settings, how the corpus was read, versions.
    """

    mean: np.ndarray
    sd: np.ndarray
    prevalence: np.ndarray
    prevalence_sd: np.ndarray
    alpha: np.ndarray
    alpha_sd: np.ndarray
    beta: np.ndarray
    beta_sd: np.ndarray
    stability: np.ndarray
    vocabulary: tuple[str, ...]
    config: dict[str, Any]


def load(directory: str | Path) -> Model:
    """Read the model of a run.

    Raises:
        RunError: The directory holds no finished run, or a file of it is damaged or does not go
            with the others.

    Example:
        >>> load("no/such/directory")
        Traceback (most recent call last):
        simplex_jax.topics.saved.RunError: no/such/directory: there is no such directory
    """
    place = Path(directory)
    config = load_config(place)
    if not (place / "topics.npz").exists():
        raise RunError(
            f"{place}: the run has not come to its end (there is no topics.npz): "
            f"continue it with simplex-jax lda --resume {place}"
        )
    arrays = _load_arrays(place / "topics.npz", ARRAYS)
    vocabulary = tuple(_load_text(place / "vocabulary.txt").split("\n")[:-1])
    topics, words = config["settings"]["num_topics"], len(vocabulary)
    for name, array in arrays.items():
        wide = name in ("mean", "sd")
        shape = (topics, words) if wide else (words if name.startswith("beta") else topics,)
        if array.shape != shape or array.dtype.kind != "f":
            raise RunError(
                f"{place / 'topics.npz'}: {name} is {array.dtype} {array.shape}, and config.json "
                f"and vocabulary.txt tell of {shape}: the files are of different runs"
            )
        positive = name in ("alpha", "beta")
        spread = name.endswith("sd") or name == "stability"
        sound = (array > 0 if positive else array >= 0) & (array < np.inf)
        if not (sound | np.isnan(array) if spread else sound).all():
            raise RunError(f"{place / 'topics.npz'}: {name} has numbers out of range")
    if not np.allclose(arrays["mean"].sum(axis=1, dtype=np.float64), 1, atol=1e-3):
        raise RunError(f"{place / 'topics.npz'}: the topics of mean do not sum to 1")
    return Model(**arrays, vocabulary=vocabulary, config=config)


def finished(directory: str | Path) -> bool:
    """Tell whether a run has come to its end, and not by an interruption.

    Raises:
        RunError: Its summary is damaged.
    """
    path = Path(directory) / "summary.json"
    return path.exists() and not load_json(path).get("interrupted", True)


def load_config(directory: str | Path) -> dict[str, Any]:
    """Read `config.json`.

    Raises:
        RunError: It is missing or damaged, or of another program.
    """
    place = Path(directory)
    if not place.is_dir():
        raise RunError(f"{place}: there is no such directory")
    if not (place / "config.json").exists():
        raise RunError(
            f"{place}: this is no run of simplex-jax lda (there is no config.json): "
            "give the directory that --out named"
        )
    config = load_json(place / "config.json")
    settings = config.get("settings")
    count = settings.get("num_topics") if isinstance(settings, dict) else None
    if not isinstance(count, int) or count < 1 or not isinstance(config.get("corpus"), dict):
        raise RunError(f"{place / 'config.json'}: this is no configuration of simplex-jax lda")
    return config


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


def _load_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RunError(f"{path}: cannot be read ({reason.lower()})") from None


def _load_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > unpacked_limit(path.stat().st_size):
            raise ValueError("unpacks to far more than its size")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except _DAMAGED as error:
        raise RunError(f"{path}: the file is damaged ({' '.join(str(error).split())})") from None
