"""JSON lines, `.jsonl`: an object a line, with fields for the document's name and its text."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simplex_jax.corpus import columns
from simplex_jax.corpus.corpus import Corpus, error_at, printable
from simplex_jax.corpus.files import text_lines
from simplex_jax.corpus.reading import Reading, corpus_of_texts


def recognises(path: Path, head: bytes) -> bool:
    """Whether the name ends in `.jsonl` or `.ndjson`, or the file starts with an object."""
    name = path.name.lower().removesuffix(".gz")
    return name.endswith((".jsonl", ".ndjson")) or bool(re.match(rb'\s*\{\s*"', head))


def read(path: Path, how: Reading) -> Corpus:
    """Read objects that all have the text in one field, and the name, if any, in another.

    The fields are those of the first object, chosen by `how` or recognised (`columns.TEXT` and
    `columns.IDENTITY`). A text is a string, or null for an empty document; a name is a string or a
    number. Without a field of names, documents are numbered from 1. Blank lines are passed over.

    Raises:
        CorpusError: naming the file and the line.
    """
    names: list[str] = []

    def documents() -> Iterator[str]:
        text = name = None
        for line, found in _objects(path, how.encoding):
            if text is None:
                text = columns.text_column(list(found), how.text_column, path, line)
                name = columns.id_column(list(found), how.id_column, path, line)
            value = _field(found, text, path, line)
            if value is not None and not isinstance(value, str):
                raise _wrong(path, line, text, value, "give a string")
            names.append(str(len(names) + 1) if name is None else _name(found, name, path, line))
            yield value or ""

    return corpus_of_texts(documents(), names, path, how)


def _objects(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in text_lines(path, encoding):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except RecursionError:
            raise error_at(path, "nested too deeply", "give flat objects", line=number) from None
        except ValueError as error:
            raise error_at(
                path, f"not JSON ({printable(error)})", "write one object a line", line=number
            ) from None
        if not isinstance(found, dict):
            raise error_at(path, "not a JSON object", "write one object a line", line=number)
        yield number, found


def _field(found: dict[str, Any], name: str, path: Path, line: int) -> Any:
    if name not in found:
        raise error_at(path, f"no field {printable(name)!r}", "give it in every object", line=line)
    return found[name]


def _name(found: dict[str, Any], name: str, path: Path, line: int) -> str:
    value = _field(found, name, path, line)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _wrong(path, line, name, value, "give a string or a number")
    # An escape such as \ud800 is half a character, which no file could hold.
    return str(value).encode("utf-8", "backslashreplace").decode()


def _wrong(path: Path, line: int, name: str, value: Any, remedy: str) -> Exception:
    what = f"field {printable(name)!r} is {printable(json.dumps(value))}"
    return error_at(path, what[:200], remedy, line=line)
