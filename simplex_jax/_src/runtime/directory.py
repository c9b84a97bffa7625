"""The directory of a run, and the files that all models write; `saved` reads them."""

import itertools
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from simplex_jax._src.corpus.corpus import printable
from simplex_jax._src.runtime import contents, devices, lock, output
from simplex_jax._src.runtime.contents import CHECKPOINT, CONFIG, SAMPLES, SHARES, Contents
from simplex_jax._src.runtime.saved import VOCABULARY

__all__ = ["CHECKPOINT", "SAMPLES", "SHARES", "check", "check_words", "claim", "reopen"]


def check(
    path: str | Path | None, command: str, files: Sequence[str], *, overwrite: bool = False
) -> None:
    """Raise the errors of `claim` without changing anything, for a check before work begins.

    To find out whether a directory can be created, it is created and removed again.
    """
    place = None if path is None else Path(path)
    if place is None or not place.exists():
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
    """Create the directory of a new run, locked against other processes within the block.

    It is created with its parents if needed; without a path it is the first of simplex-jax-COMMAND,
    simplex-jax-COMMAND-2 and so on that does not exist. An earlier run of the same command is
    removed from it, so that two never mix; if it has results, only with `overwrite`, else it is a
    FileExistsError. So are a run of another command, and other files without a run or under names
    of its files; files beside a run are left alone. Call it after reading the input, so that bad
    input leaves the earlier run unchanged. If the block fails before writing any of the `files` of
    a run except `config.json`, the directory is removed again.
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
                left = contents.scan(place, files)
                if not left.results:
                    contents.remove(place, left)
    finally:
        _unmake(made)


@contextmanager
def reopen(path: str | Path, files: Sequence[str]) -> Iterator[Path]:
    """Lock the directory of a run that is resumed within the block.

    Unfinished files are removed. Parts of the shares of documents stay until `remove_shares`, since
    the run may still be refused.
    """
    place = Path(path)
    with lock.locked(place):
        contents.remove(place, Contents(unfinished=contents.scan(place, files).unfinished))
        yield place


def remove_shares(place: Path, files: Sequence[str]) -> None:
    """Remove the parts of the shares of documents, before a resumed run writes new ones."""
    contents.remove(place, Contents(shares=contents.scan(place, files).shares))


def _make(path: str | Path | None, command: str) -> tuple[Path, list[Path]]:
    """Create a directory; return it and all directories created, the innermost first."""
    if path is not None:
        place = Path(path)
        made = [folder for folder in (place, *place.parents) if not folder.exists()]
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _unmake(made)
            raise type(error)(
                f"output directory {str(place)!r} cannot be created ({error.strerror}): choose "
                "another one (--out)"
            ) from None
        return place, made
    name = f"simplex-jax-{command}"
    for place in map(Path, itertools.chain([name], (f"{name}-{i}" for i in itertools.count(2)))):
        try:
            place.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise type(error)(
                f"a run cannot be created in the current folder, {str(Path.cwd())!r} "
                f"({error.strerror}): choose another place (--out)"
            ) from None
        return place, [place]
    raise AssertionError("there are infinitely many names")


def _unmake(folders: Sequence[Path]) -> None:
    """Remove the directories that are empty, the innermost first."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _look(place: Path, command: str, files: Sequence[str], overwrite: bool) -> Contents:
    """Return the contents of a directory, if a new run may use it."""
    present = contents.scan(place, files)
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
            "them (min_df, max_df and drop_words of corpus.TextOptions, or --min-df, ...), or give "
            "other documents"
        )
    for number, word in enumerate(vocabulary):
        if "\n" in word or word.encode("utf-8", "ignore").decode() != word:
            raise ValueError(
                f"word {number} (counted from 0), {word!a}, cannot stand on one line of "
                f"{VOCABULARY}: give it another name"
            )


# Bytes of an array of names, and how many times those of its characters
_MOST_NAMES, _MOST_PADDED = 2**31, 10


def check_names(names: Sequence[str]) -> None:
    """Raise a ValueError if a long name would make the array of all names much too large.

    In an `.npz` of proportions, each name takes the room of the longest, 4 bytes a character.
    """
    longest = max(names, key=len, default="")
    size = 4 * len(longest) * len(names)
    if size > _MOST_NAMES and len(longest) * len(names) > _MOST_PADDED * sum(map(len, names)):
        raise ValueError(
            f"the name of document {names.index(longest) + 1}, {printable(longest[:40])!r}..., has "
            f"{len(longest):,} characters, and the file of proportions would give each of "
            f"{len(names):,} names as many, {devices.size(size)}: shorten it, or give other names "
            "(--id-column or --names)"
        )


def write_vocabulary(directory: Path, vocabulary: Sequence[str]) -> None:
    """Write `vocabulary.txt`, a word a line, atomically."""
    output.write_text(directory / VOCABULARY, "".join(f"{word}\n" for word in vocabulary))


Part: TypeAlias = tuple[np.ndarray, np.ndarray | None]
"""Topic proportions [n, K] and their Monte-Carlo errors [n], where these are known."""


def remainder(proportions: np.ndarray) -> np.ndarray:
    """Return what proportions [D, K] leave of 1, [D]."""
    return np.maximum(1 - proportions.sum(axis=1), 0)


def write_proportions(
    path: str | Path,
    names: Sequence[str],
    num_topics: int,
    parts: Iterable[Part],
    *,
    with_errors: bool = True,
    rest: bool = False,
    titles: Sequence[str] = (),
) -> None:
    """Write topic proportions of documents part by part, atomically.

    A `.csv` file has a line for each document, and heads the column of topic 7 `topic_7`, with the
    name of the topic after it if `titles` [K] has one; any other is an `.npz` of arrays,
    `proportions` float32 [D, K], `documents`, their names, and `error` float32 [D] where errors are
    known; a `.csv` file has a column of them `with_errors`. With `rest` both have a column `other`,
    what the proportions of a document leave of 1.
    """
    counted = _counted(parts, len(names))
    if Path(path).suffix.lower() == ".csv":
        own = titles or [""] * num_topics
        columns = [f"topic_{topic} {own[topic]}".rstrip() for topic in range(num_topics)]
        _write_csv(path, names, columns, counted, with_errors, rest)
    else:
        _write_npz(path, names, num_topics, counted, rest)


def _counted(parts: Iterable[Part], total: int) -> Iterator[Part]:
    """Yield the parts; raise a ValueError after the last unless they have `total` rows."""
    rows = 0
    for part in parts:
        rows += len(part[0])
        yield part
    if rows != total:
        raise ValueError(f"parts: {rows} rows for {total} documents")


def _write_csv(
    path: str | Path,
    names: Sequence[str],
    columns: Sequence[str],
    parts: Iterable[Part],
    with_errors: bool,
    rest: bool,
) -> None:
    def rows() -> Iterator[Sequence[object]]:
        remaining = iter(names)
        for shares, errors in parts:
            written = np.full(len(shares), np.nan) if errors is None else errors
            if rest:
                shares = np.column_stack([shares, remainder(shares)])
            # Names come last in zip, so that the end of a part does not consume a name.
            for error, row, name in zip(written, shares, remaining, strict=False):
                told = "" if np.isnan(error) else f"{error:.2g}"
                yield name, *[told][:with_errors], *(f"{x:.5g}" for x in row)

    titles = "document", *["error"][:with_errors], *columns, *["other"][:rest]
    output.write_csv(path, titles, rows())


def _write_npz(
    path: str | Path, names: Sequence[str], num_topics: int, parts: Iterable[Part], rest: bool
) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(names), num_topics)}
    arrays, errors, others = {"documents": np.asarray(names)}, [], []
    with output.replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open("proportions.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for shares, error in parts:
                member.write(np.ascontiguousarray(shares, "<f4").tobytes())
                if error is not None:
                    errors.append(error)
                if rest:
                    others.append(remainder(shares))
        if errors:
            arrays["error"] = np.concatenate(errors).astype(np.float32)
        if rest:
            arrays["other"] = np.concatenate(others).astype(np.float32)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
