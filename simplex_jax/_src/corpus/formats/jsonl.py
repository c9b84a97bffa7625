"""JSON lines, `.jsonl`: one object a line, with fields for a document's name and text."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from simplex_jax._src.corpus.corpus import error_at, printable
from simplex_jax._src.corpus.files import Encoding, text_lines
from simplex_jax._src.corpus.formats import tables
from simplex_jax._src.corpus.reading import Metadata, Reading, Source, text_format

_START = re.compile(rb'\s*(?:\[\s*)?\{\s*"')
_ONE_A_LINE = "write one object a line, as `jq -c '.[]'` does of an array"


def recognises(source: Source) -> bool:
    """Recognise JSON by the name, or by an object or array of objects at the start."""
    named = source.named(".jsonl", ".ndjson", ".json")
    return named or (not source.folder and _START.match(source.head) is not None)


def resolve(path: Path, reading: Reading) -> Reading:
    """Fill in the fields of the first object; see `tables.resolve_columns`."""
    for line, entry in _objects(path, reading.coding):
        return tables.resolve_columns(list(entry), reading, path, line)
    return reading


def describe(path: Path, reading: Reading) -> str:
    """Return from which fields texts and names come, and which others the first object has."""
    entry = next((entry for _, entry in _objects(path, reading.coding)), dict[str, Any]())
    return tables.describe_columns(list(entry), reading)


def metadata(path: Path, reading: Reading, wanted: Sequence[str]) -> Metadata:
    """Read fields of the objects; documents are named as by `texts`.

    A field may be missing or null. Other values must be strings, numbers or booleans.
    """
    names, values = [], dict[str, list[Any]]((name, []) for name in wanted)
    fields, name = dict[str, None](), None
    for number, (line, entry) in enumerate(_objects(path, reading.coding), start=1):
        if number == 1:
            name = tables.find_id_column(list(entry), reading.id_column, path, line)
        names.append(str(number) if name is None else _name(entry, name, path, line))
        fields |= dict.fromkeys(entry)
        for field, collected in values.items():
            value = entry.get(field)
            if not isinstance(value, str | int | float | None):
                raise _field_error(path, line, field, value, "give a string or a number")
            collected.append(_escape_surrogates(value) if isinstance(value, str) else value)
    tables.find_columns(list(fields), wanted, path, None)
    return Metadata(tuple(names), dict(values), numbered=name is None)


def texts(path: Path, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the objects, with the text in one field and the name in another.

    The fields are chosen from the first object by `tables.resolve_columns`. A text is a string, or
    null for an empty document; a name is a string or a number. Without a field of names, documents
    are numbered from 1. Blank lines are skipped.
    """
    text = name = None
    for number, (line, entry) in enumerate(_objects(path, reading.coding), start=1):
        if text is None:
            chosen = tables.resolve_columns(list(entry), reading, path, line)
            text, name = chosen.text_column or "", chosen.id_column
        value = _field(entry, text, path, line)
        if value is not None and not isinstance(value, str):
            remedy = "give a string"
            if isinstance(value, list) and all(isinstance(token, str) for token in value):
                remedy += ", of tokens as `jq -c '.tokens |= join(\" \")'`, and --tokens blanks"
            raise _field_error(path, line, text, value, remedy)
        yield str(number) if name is None else _name(entry, name, path, line), value or ""


FORMAT = text_format(
    "jsonl",
    "JSON lines with a field of texts",
    recognises,
    texts,
    options=("text_column", "id_column"),
    resolve=resolve,
    columns=metadata,
    describe=describe,
)


def _objects(path: Path, encoding: Encoding) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in text_lines(path, encoding):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except RecursionError:
            raise error_at(path, "nested too deeply", "give flat objects", line=number) from None
        except ValueError as error:
            problem = f"not JSON on one line ({printable(error)})"
            raise error_at(path, problem, _ONE_A_LINE, line=number) from None
        if not isinstance(entry, dict):
            raise error_at(path, "not a JSON object", _ONE_A_LINE, line=number)
        yield number, entry


def _field(entry: dict[str, Any], name: str, path: Path, line: int) -> Any:
    if name not in entry:
        raise error_at(path, f"no field {printable(name)!r}", "give it in every object", line=line)
    return entry[name]


def _name(entry: dict[str, Any], name: str, path: Path, line: int) -> str:
    value = _field(entry, name, path, line)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _field_error(path, line, name, value, "give a string or a number")
    return _escape_surrogates(str(value))


def _escape_surrogates(text: str) -> str:
    r"""Return a text with lone surrogates such as \ud800 escaped: UTF-8 cannot encode them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _field_error(path: Path, line: int, name: str, value: Any, remedy: str) -> Exception:
    shown = json.dumps(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    problem = f"field {printable(name)!r} is {printable(shown)}"
    return error_at(path, problem, remedy, line=line)
