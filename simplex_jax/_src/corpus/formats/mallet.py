"""MALLET's texts, one `name label text` a line, and its sampling states (`topic-state.gz`)."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import files
from simplex_jax._src.corpus.corpus import MAX_WORDS, Corpus, error_at
from simplex_jax._src.corpus.files import MAX_UNUSED, Encoding, shown, text_lines
from simplex_jax._src.corpus.formats import tables
from simplex_jax._src.corpus.formats.matrices import corpus_of
from simplex_jax._src.corpus.frames import TEXT
from simplex_jax._src.corpus.reading import Format, Metadata, Reading, Source, text_format

_LINE = re.compile(r"(\S*)[\s,]*(\S*)[\s,]*(.*)")
"""The regular expression by which `mallet import-file` divides lines."""

_INSPECTED = 64  # lines
_LONGEST = 2**20
_LETTERS = re.compile(rb"[a-zA-Z\x80-\xff]{2}")
_FIELDS = ("typeindex", "type", "topic")


def recognises(source: Source) -> bool:
    """Recognise lines that all begin with a name of their own and one of a few labels."""
    return not source.folder and _separator(source.path) is not None


def resolve(path: Path, reading: Reading) -> Reading:
    """Return the options, or raise a CorpusError if they do not say which format this is."""
    kind = _separator(path) if reading.format is None else "tabs"
    if kind == "header":
        problem = "the first line seems to have column names"
        raise error_at(path, problem, "give --format (format) tsv, or mallet if it is a document")
    if kind == "blanks":
        raise error_at(
            path,
            "each line begins with a name and one of a few labels, as MALLET's do, or is all text",
            "give --format (format) mallet to leave name and label out of the texts, or lines",
        )
    return reading


def texts(path: Path, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the names, the first words of lines, and the texts, without the labels.

    Where blanks instead of tabs follow name and label, the line may be a text as well, and the
    format must be named.
    """
    for name, _, text in _instances(path, reading):
        yield name, text


def metadata(path: Path, reading: Reading, wanted: Sequence[str]) -> Metadata:
    """Read the labels, a column called `label`."""
    chosen = tables.find_columns(["label"], wanted, path, None)
    instances = list(_instances(path, reading))
    names = tuple(name for name, _, _ in instances)
    return Metadata(names, {column: [label for _, label, _ in instances] for column in chosen})


def describe(path: Path, reading: Reading) -> str:
    """Return from which fields of the lines texts and names come."""
    return "text after name and label; other columns, for --by: label"


INSTANCES = text_format(
    "mallet",
    "MALLET's `name label text` lines",
    recognises,
    texts,
    resolve=resolve,
    columns=metadata,
    describe=describe,
)


def _instances(path: Path, reading: Reading) -> Iterator[tuple[str, str, str]]:
    resolve(path, reading)
    for number, line in text_lines(path, reading.coding):
        if not line.strip():
            continue  # as in MALLET
        fields = _LINE.fullmatch(line.strip())
        name, label, text = fields.groups() if fields else ("", "", "")
        if not label:
            raise error_at(path, "no label", "write `name label text`", line=number)
        yield name, label, text


def _separator(path: Path) -> str | None:
    """Return whether `tabs` or `blanks` follow names and labels; None if these are other lines.

    It is `header` if the first line has the name of a column of texts.
    """
    with files.reading(path, Encoding(errors="replace")) as (stream, _):
        start = [stream.readline(_LONGEST).strip(b"\r\n") for _ in range(_INSPECTED)]
    lines = [line for line in start if line.strip()]
    for kind, separator, fewest, share in (("tabs", b"\t", 2, 2), ("blanks", None, 6, 3)):
        found = list(takewhile(bool, (_fields(line, separator) for line in lines)))
        if not len(found) == len(lines) >= fewest:
            continue
        names, labels = Counter(row[0] for row in found), Counter(row[1] for row in found)
        often = min(labels.values()) > 1 or len(labels) == 1
        own = len(names) == len(found) or (kind == "blanks" and _apart(found))
        if own and len(labels) * share <= len(found) and (often or kind == "tabs"):
            title = found[0][2].strip().lower().decode("latin-1")
            return "header" if title in TEXT else kind
    return None


def _fields(line: bytes, separator: bytes | None) -> tuple[bytes, ...]:
    """Return the first two fields of a line and the text after them; nothing without a text."""
    name, label, text = (*line.split(separator, 2), b"", b"", b"")[:3]
    single = len(name.split()) == len(label.split()) == 1
    return (name, label, text) if single and _LETTERS.search(text) else ()


def _apart(found: list[tuple[bytes, ...]]) -> bool:
    """Return whether names and labels, each several and with several texts, are no words of texts.

    A text may begin with any words, but seldom with ones that it has nowhere else. A line that is
    repeated, as in a made-up example, says no more than one.
    """
    lines = set(found)
    words = {word for *_, text in lines for word in text.lower().split()}
    return all(
        len(kind) > 1 and min(kind.values()) > 1 and words.isdisjoint(map(bytes.lower, kind))
        for kind in (Counter(line[field] for line in lines) for field in (0, 1))
    )


def recognises_state(source: Source) -> bool:
    """Recognise the first line of a sampling state."""
    return source.head.startswith(b"#doc ")


def read_state(path: Path, reading: Reading) -> Corpus:
    """Read the counts of words in documents from a sampling state; its topics are not used.

    Documents are named by their sources if these are distinct, and by their numbers otherwise.
    Documents without a token, which the state leaves out, are empty.
    """
    entries = Counter[tuple[int, int]]()
    words, sources = dict[int, str](), dict[int, str]()
    lines = text_lines(path, reading.coding)
    _, header = next(lines)
    title = header.removeprefix("#").split()
    if tuple(title[-3:]) != _FIELDS or title[:1] != ["doc"]:
        remedy = "give a state that mallet train-topics --output-state wrote"
        raise error_at(path, "not the first line of a state", remedy, line=1)
    last = len(title) - title.index("pos") if "pos" in title else 3  # fields after the source
    for number, line in lines:
        if line.startswith("#"):
            continue
        fields = line.rsplit(" ", last)
        document, _, source = fields[0].partition(" ")
        if len(fields) != last + 1 or not (document.isdecimal() and fields[-3].isdecimal()):
            problem = f"{shown(line.encode())} is not a token"
            raise error_at(path, problem, f"write `{' '.join(title)}`", line=number)
        row, column, word = int(document), int(fields[-3]), fields[-2]
        if max(row, column) >= MAX_WORDS:
            raise error_at(path, f"{line[:40]!r} is out of range", "correct the line", line=number)
        if words.setdefault(column, word) != word:
            problem = f"word {column} is {word!r} here and {words[column]!r} before"
            raise error_at(path, problem, "give one whole state", line=number)
        sources[row] = source
        entries[row, column] += 1
    if not entries:
        raise error_at(path, "no token in the file", "give one whole state")
    documents = max(sources) + 1
    if documents > len(entries) + MAX_UNUSED:
        problem = f"{documents} documents, {len(entries)} entries"
        raise error_at(path, problem, "correct the numbers")
    order = sorted(words)
    place = {column: index for index, column in enumerate(order)}
    rows, used = np.array(list(entries), np.int64).T
    parts = (list(entries.values()), (rows, [place[column] for column in used.tolist()]))
    table = sp.csr_array(parts, shape=(documents, len(order)))
    names = [sources.get(row) or str(row) for row in range(documents)]
    if len(set(names)) < documents:
        names = [str(row) for row in range(documents)]
    return corpus_of(table, path, reading, [words[column] for column in order], names)


STATE = Format(
    "mallet-state",
    "counts",
    "MALLET's topic-state.gz",
    recognises_state,
    read_state,
    options=("names",),
)
