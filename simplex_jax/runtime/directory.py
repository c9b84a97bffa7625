"""The directory of a run, and the files that all models write; `saved` reads them again."""

import itertools
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from simplex_jax.runtime import contents, lock, output
from simplex_jax.runtime.contents import CHECKPOINT, CONFIG, SAMPLES, SHARES, Contents
from simplex_jax.runtime.saved import VOCABULARY

__all__ = ["CHECKPOINT", "SAMPLES", "SHARES", "check", "check_words", "claim", "reopen"]


def check(path: str | Path, command: str, files: Sequence[str], *, overwrite: bool = False) -> None:
    """Raise the errors of `claim`, and leave all as it is: for a check before the work begins.

    Whether a directory can be made is known only when it has been: it is, and removed again.
    """
    place = Path(path)
    if not place.exists():
        _unmake(_make(place, command)[1])
        return
    if not place.is_dir():
        raise NotADirectoryError(f"output {str(place)!r} is a file: give a directory")
    lock.check(place)
    _look(place, command, files, overwrite)


@contextmanager
def claim(
    path: str | Path | None,
    config: Mapping[str, Any],
    files: Sequence[str],
    *,
    overwrite: bool = False,
    say: Callable[[str], object] = lambda line: None,
) -> Iterator[Path]:
    """Make the directory of a new run, which is that of no other process within the block.

    It is made with its parents if it does not exist; without a path it is the first of
    simplex-jax-COMMAND, simplex-jax-COMMAND-2 and so on that does not. An earlier run of the same
    command, with results only if `overwrite` is true, is removed from it, so that two never mix;
    any other file is left alone, and without `overwrite` a FileExistsError. Call it after the input
    has been read: bad input then leaves the earlier run as it was. Where the block fails before it
    has written one of the `files` of a run, besides its `config.json`, the directory is removed
    again.
    """
    command = config["command"]
    if path is not None:
        check(path, command, files, overwrite=overwrite)
    place, made = _make(path, command)
    try:
        with lock.locked(place):
            earlier = _look(place, command, files, overwrite)
            if earlier.results:
                say(f"removing the earlier run in {place}: {earlier.described()}")
            contents.remove(place, earlier)
            output.write_json(place / CONFIG, config)
            try:
                yield place
            finally:
                left = contents.look(place, files)
                if not left.results:
                    contents.remove(place, left)
    finally:
        _unmake(made)


@contextmanager
def reopen(path: str | Path, files: Sequence[str]) -> Iterator[Path]:
    """Lock the directory of a run that goes on within the block.

    Unfinished files go; parts of the shares of documents stay until `remove_shares`, for the run
    may be refused yet.
    """
    place = Path(path)
    with lock.locked(place):
        contents.remove(place, Contents(unfinished=contents.look(place, files).unfinished))
        yield place


def remove_shares(place: Path, files: Sequence[str]) -> None:
    """Remove the parts of the shares of documents, before a run that has gone on has others."""
    contents.remove(place, Contents(shares=contents.look(place, files).shares))


def _make(path: str | Path | None, command: str) -> tuple[Path, list[Path]]:
    """Return a directory that exists, and those that had to be made, the innermost first."""
    if path is not None:
        place = Path(path)
        made = [folder for folder in (place, *place.parents) if not folder.exists()]
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _unmake(made)
            raise type(error)(
                f"output directory {str(place)!r} cannot be made ({error.strerror}): choose "
                "another one (--out)"
            ) from None
        return place, made
    name = f"simplex-jax-{command}"
    for place in map(Path, itertools.chain([name], (f"{name}-{i}" for i in itertools.count(2)))):
        with suppress(FileExistsError):
            place.mkdir()
            return place, [place]
    raise AssertionError("there are infinitely many names")


def _unmake(folders: Sequence[Path]) -> None:
    """Remove directories, the innermost first, that are empty."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _look(place: Path, command: str, files: Sequence[str], overwrite: bool) -> Contents:
    """Return the contents of a directory, if a new run may have it."""
    present = contents.look(place, files)
    shown, other = f"output directory {str(place)!r}", "choose another one (--out)"
    if present.command is None and present.others:
        raise FileExistsError(
            f"{shown} is not empty ({contents.named(present.others)}) and holds no run: {other}"
            + ("; --overwrite replaces runs only" if overwrite else "")
        )
    if present.command not in (None, command):
        raise FileExistsError(f"{shown} holds a run of simplex-jax {present.command}: {other}")
    if present.clashes:
        raise FileExistsError(
            f"{shown} holds files that simplex-jax has not written where it writes "
            f"({contents.named(present.clashes)}): move them away, or {other}"
        )
    if present.results and not overwrite:
        raise FileExistsError(
            f"{shown} holds a run: {other}, or pass --overwrite (overwrite=True), which removes "
            f"{present.described()}"
        )
    return present


def check_words(vocabulary: Sequence[str]) -> None:
    """Raise a ValueError if a vocabulary has one word, or one that no line of UTF-8 can store."""
    if len(vocabulary) < 2:
        raise ValueError(
            f"the vocabulary has {len(vocabulary)} word, and topics need at least 2: keep more of "
            "them (--min-df, --max-df, --drop-words), or give other documents"
        )
    for number, word in enumerate(vocabulary):
        if "\n" in word or word.encode("utf-8", "ignore").decode() != word:
            raise ValueError(
                f"word {number} (counted from 0), {word!a}, cannot stand on one line of "
                f"{VOCABULARY}: give it another name"
            )


def write_vocabulary(directory: Path, vocabulary: Sequence[str]) -> None:
    """Write `vocabulary.txt`, a word a line, atomically."""
    output.write_text(directory / VOCABULARY, "".join(f"{word}\n" for word in vocabulary))


Part: TypeAlias = tuple[np.ndarray, np.ndarray | None]
"""Topic proportions [n, K] and their Monte-Carlo errors [n], where these are known."""


def write_proportions(
    path: str | Path, names: Sequence[str], num_topics: int, parts: Iterable[Part]
) -> None:
    """Write topic proportions of documents part by part, atomically.

    A `.csv` file has a line for each document; any other is an `.npz` of arrays, `proportions`
    float32 [D, K], `documents`, their names, and `error` float32 [D] where errors are known.
    """
    write = _write_csv if Path(path).suffix == ".csv" else _write_npz
    write(path, names, num_topics, _counted(parts, len(names)))


def _counted(parts: Iterable[Part], total: int) -> Iterator[Part]:
    """Yield the parts; raise a ValueError after the last unless they have `total` rows."""
    rows = 0
    for part in parts:
        rows += len(part[0])
        yield part
    if rows != total:
        raise ValueError(f"parts: {rows} rows for {total} documents")


def _write_csv(
    path: str | Path, names: Sequence[str], num_topics: int, parts: Iterable[Part]
) -> None:
    def rows() -> Iterator[Sequence[object]]:
        remaining = iter(names)
        for shares, errors in parts:
            written = np.full(len(shares), np.nan) if errors is None else errors
            # Names come last: where a part ends, none of the next may be taken.
            for error, row, name in zip(written, shares, remaining, strict=False):
                yield name, "" if np.isnan(error) else f"{error:.2g}", *(f"{x:.5g}" for x in row)

    topics = (f"topic_{topic}" for topic in range(num_topics))
    output.write_csv(path, ["document", "error", *topics], rows())


def _write_npz(
    path: str | Path, names: Sequence[str], num_topics: int, parts: Iterable[Part]
) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(names), num_topics)}
    arrays, errors = {"documents": np.asarray(names)}, []
    with output.replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open("proportions.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for shares, error in parts:
                member.write(np.ascontiguousarray(shares, "<f4").tobytes())
                if error is not None:
                    errors.append(error)
        if errors:
            arrays["error"] = np.concatenate(errors).astype(np.float32)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
