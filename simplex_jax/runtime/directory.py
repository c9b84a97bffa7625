"""The directory of a run, and what the runs of all models write alike; `saved` reads it again."""

import shutil
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from simplex_jax.runtime import output

CHECKPOINT, SAMPLES = "checkpoint", "samples"


def prepare(path: str | Path, files: Sequence[str], *, overwrite: bool = False) -> Path:
    """Make the directory of a run, without what an earlier run has left in it.

    Args:
        path: The directory.
        files: Names of all files that the run writes, besides checkpoints and samples.
        overwrite: Allow a directory that is not empty.

    Raises:
        FileExistsError: The directory is not empty and `overwrite` is false.
        NotADirectoryError: `path` is a file.
    """
    directory = output.prepare(path, files, overwrite=overwrite)
    for name in (CHECKPOINT, SAMPLES):
        if (directory / name).is_dir() and not (directory / name).is_symlink():
            shutil.rmtree(directory / name)
    return directory


def check_words(vocabulary: Sequence[str]) -> None:
    r"""Raise a ValueError if a word could not be written, one a line, in UTF-8.

    Example:
        >>> check_words(["fine", "not" + chr(10) + "fine"])
        Traceback (most recent call last):
        ValueError: word 1 (counted from 0), 'not\nfine', cannot stand on one line of a text file
    """
    for number, word in enumerate(vocabulary):
        if "\n" in word or not _writable(word):
            raise ValueError(
                f"word {number} (counted from 0), {word!a}, cannot stand on one line of a text file"
            )


def _writable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def write_vocabulary(directory: Path, vocabulary: Sequence[str]) -> None:
    """Write `vocabulary.txt`, a word a line, atomically."""
    output.write_text(directory / "vocabulary.txt", "".join(f"{word}\n" for word in vocabulary))


def write_proportions(
    path: str | Path, names: Sequence[str], num_topics: int, parts: Iterable[np.ndarray]
) -> None:
    """Write topic proportions part by part, atomically, as an `.npz` of two arrays.

    Args:
        path: The file; `proportions` float32 [D, K] and `documents`, D names, will be in it.
        names: D document names.
        num_topics: K.
        parts: The rows in order, [n, K] each.

    Raises:
        ValueError: The parts do not make D rows.
    """
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(names), num_topics)}
    rows = 0
    with output.replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open("proportions.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for part in parts:
                member.write(np.ascontiguousarray(part, "<f4").tobytes())
                rows += len(part)
        if rows != len(names):
            raise ValueError(f"parts: {rows} rows for {len(names)} documents")
        with archive.open("documents.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.asarray(names), allow_pickle=False)
