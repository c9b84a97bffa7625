"""The registry of input formats, in the order in which they are tried."""

from dataclasses import fields
from pathlib import Path

from simplex_jax._src.corpus import files
from simplex_jax._src.corpus.corpus import printable
from simplex_jax._src.corpus.formats import (
    folder,
    hdf5,
    jsonl,
    ldac,
    lines,
    mallet,
    matrices,
    stored,
    svmlight,
    tables,
    uci,
)
from simplex_jax._src.corpus.reading import Format, Kind, Reading, source_of
from simplex_jax._src.corpus.text import TextOptions

_ALL = (
    stored.FORMAT,
    hdf5.TENX,
    folder.FORMAT,
    matrices.NPZ,
    hdf5.H5AD,
    matrices.MTX,
    tables.TRIPLES,
    tables.CSV,
    tables.TSV,
    jsonl.FORMAT,
    uci.FORMAT,
    ldac.FORMAT,
    svmlight.FORMAT,
    tables.DENSE,
    mallet.STATE,
    mallet.INSTANCES,
    lines.FORMAT,
    matrices.VECTORS,
)

_COMMON = ("format", "vocabulary", "text", "encoding", "encoding_errors")
"""Options of reading that all formats share and none lists; `_OF_TEXTS` restricts `text`."""

_OF_TEXTS = tuple(field.name for field in fields(TextOptions))
"""Options of words in texts, which formats of counts do not support."""

FORMATS = {entry.name: entry for entry in _ALL}
"""All formats by name."""


def formats_of(*kinds: Kind) -> list[Format]:
    """Return the formats of some kinds, those of the first kind first."""
    return [entry for kind in kinds for entry in _ALL if entry.kind == kind]


def names(*kinds: Kind) -> list[str]:
    """Return the names of the formats of some kinds."""
    return [entry.name for entry in formats_of(*kinds)]


def recognised(path: Path, *kinds: Kind) -> Format:
    """Return the first format of these kinds that recognises a file, or else the last one."""
    source, candidates = source_of(path), formats_of(*kinds)
    return next((entry for entry in candidates if entry.recognises(source)), candidates[-1])


def having(option: str) -> str:
    """Return the names of the formats that support an option, for its help text."""
    texts = option in _OF_TEXTS
    return ", ".join(
        entry.name for entry in _ALL if option in entry.options or (texts and entry.texts)
    )


def described(*kinds: Kind) -> str:
    """Return descriptions and names of the formats of some kinds, for help texts and docs."""
    return "; ".join(f"{entry.description} (`{entry.name}`)" for entry in formats_of(*kinds))


def named(name: str, kind: Kind) -> Format:
    """Return the format with this name and kind, or raise a ValueError."""
    if name not in names(kind):
        raise ValueError(f"format={name!r}: give one of {', '.join(names(kind))}")
    return FORMATS[name]


def selected(path: Path, reading: Reading, kind: Kind) -> Format:
    """Return the format of a file, named or recognised.

    Raises a ValueError for an option that the format does not support.
    """
    files.ascii_compatible(reading.encoding)  # before any file is read
    entry = recognised(path, kind) if reading.format is None else named(reading.format, kind)
    unsupported = {
        field.name: value
        for field in fields(reading)
        if field.name not in (*_COMMON, *entry.options)
        and (value := getattr(reading, field.name)) != field.default
    }
    if entry.texts is None:
        text, default = reading.text or TextOptions(), TextOptions()
        unsupported |= {
            option: value
            for option in _OF_TEXTS
            if (value := getattr(text, option)) != getattr(default, option)
        }
    if unsupported:
        option, value = next(iter(unsupported.items()))
        raise ValueError(
            f"{option}={printable(value)}: not supported by format {entry.name}; "
            f"supported by {having(option)}"
        )
    return entry
