"""The registry of input formats: a line each, in the order in which they are tried."""

from simplex_jax.corpus.formats import (
    arrays,
    categories,
    folder,
    h5ad,
    jsonl,
    ldac,
    lines,
    matrix_market,
    npz,
    stored,
    svmlight,
    table,
    uci,
)
from simplex_jax.corpus.formats.format import Format, Kind, Source

_ALL = (
    stored.FORMAT,
    folder.FORMAT,
    npz.FORMAT,
    h5ad.FORMAT,
    matrix_market.FORMAT,
    table.CSV,
    table.TSV,
    jsonl.FORMAT,
    uci.FORMAT,
    ldac.FORMAT,
    svmlight.FORMAT,
    lines.FORMAT,
    arrays.FORMAT,
    categories.FORMAT,
)

FORMATS = {entry.name: entry for entry in _ALL}
"""All formats by name."""


def formats_of(*kinds: Kind) -> list[Format]:
    """Formats whose contents are of some kinds, those of the first kind first."""
    return [entry for kind in kinds for entry in _ALL if entry.kind == kind]


def recognised(source: Source, *kinds: Kind) -> Format:
    """Format of a file: the first of some kinds that recognises it, or else the last of all."""
    candidates = formats_of(*kinds)
    return next((entry for entry in candidates if entry.recognises(source)), candidates[-1])


def having(option: str) -> str:
    """Names of the formats that have an option, for its help."""
    return ", ".join(entry.name for entry in _ALL if option in entry.options)


def described(*kinds: Kind) -> str:
    """Descriptions and names of the formats of some kinds, for helps and docs."""
    return "; ".join(f"{entry.description} (`{entry.name}`)" for entry in formats_of(*kinds))


def named(name: str, kind: Kind) -> Format:
    """Format of a name, or a ValueError where there is none of this kind."""
    names = [entry.name for entry in formats_of(kind)]
    if name not in names:
        raise ValueError(f"format={name!r}: give one of {', '.join(names)}")
    return FORMATS[name]
