"""The SVMlight (libsvm) format: one document a line, `label index:count ... # comment`."""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import files
from simplex_jax._src.corpus.corpus import Corpus, error_at, printable
from simplex_jax._src.corpus.formats.matrices import corpus_of
from simplex_jax._src.corpus.reading import Format, Reading, Source
from simplex_jax._src.corpus.vocabulary import read_vocabulary
from simplex_jax._src.extras import needed

_COMMENTS = rb"(?:[ \t]*(?:#[^\n]*)?\r?\n)*"
_LABEL = rb"[-+]?\d[\d.eE+,-]*(?:[ \t]+qid:\d+)?"
_PAIRS = rb"(?:[ \t]+\d+:[-+]?[\d.][\d.eE+-]*)+"
_END = rb"(?:[ \t]*(?:#[^\n]*)?\r?\n|[ \t][\d:.]*$)"
_FIRST_LINE = re.compile(_COMMENTS + _LABEL + _PAIRS + _END)


def recognises(source: Source) -> bool:
    """Recognise a label and pairs of numbers on the first line that is not a comment."""
    return _FIRST_LINE.match(source.head) is not None


def read(path: Path, reading: Reading) -> Corpus:
    """Read documents, by default numbered from 1; labels and `qid` are ignored.

    Indices start at 1, as SVMlight defines them, and 0 is an error; with `reading.first_index` of 0
    they start at 0, as scikit-learn writes them by default. This is never guessed from the smallest
    index, which could differ between two files of one corpus. Indices may be in any order; repeated
    ones are summed. Without a vocabulary the words are `w0, w1, ...` up to the largest index.
    """
    words = None if reading.vocabulary is None else read_vocabulary(reading.vocabulary)
    with files.reading(path) as (stream, _):
        blocks = files.line_blocks(stream, path, 1, files.MAX_DOCUMENT)
        parts = [part for block in blocks for part in _parts(block, path, reading)]
    columns = max((part.shape[1] for part in parts if part.nnz), default=1)
    if not sum(part.shape[0] for part in parts):
        raise error_at(path, "no document in the file", "give one a line")
    if words is not None and columns > len(words):
        largest = columns - (reading.first_index == 0)
        problem = f"word id {largest}, and the vocabulary has {len(words)} words"
        raise error_at(path, problem, "give the vocabulary that belongs to this file")
    for part in parts:
        part.resize((part.shape[0], columns if words is None else len(words)))
    table = sp.vstack(parts, format="csr")
    return corpus_of(table, path, replace(reading, vocabulary=None), words, first=1)


FORMAT = Format("svmlight", "counts", "SVMlight", recognises, read, ("names", "first_index"))


def _parts(block: tuple[int, bytes], path: Path, reading: Reading) -> Iterator[sp.csr_array]:
    """Yield the documents of some lines; if scikit-learn rejects one, the error names the line."""
    line, content = block
    for load in (_load, _load_unsorted):
        try:
            yield load(content, reading)
            return
        except (ValueError, OverflowError):
            pass
    for number, text in enumerate(content.split(b"\n"), start=line):
        try:
            _load_unsorted(text, reading)
        except (ValueError, OverflowError) as error:
            remedy = "write `label index:count index:count ...`"
            if "Invalid index 0" in str(error):
                remedy = "give --first-index 0 (first_index=0) if indices count from 0"
            problem = printable(str(error).lower().rstrip("."))
            raise error_at(path, problem, remedy, line=number) from None


def _load(content: bytes, reading: Reading) -> sp.csr_array:
    with needed("reading SVMlight"):  # slow to import, and other formats do not need it
        from sklearn.datasets import load_svmlight_file

    table, _ = load_svmlight_file(
        io.BytesIO(content), dtype=np.float64, zero_based=reading.first_index == 0, multilabel=True
    )
    return sp.csr_array(table)


def _load_unsorted(content: bytes, reading: Reading) -> sp.csr_array:
    """Return documents with unsorted or repeated indices, which scikit-learn rejects.

    It is given the labels alone, and then each pair on a line of its own.
    """
    lines = [text.partition(b"#")[0].split() for text in content.split(b"\n")]
    documents = [
        [field for field in line if not field.startswith(b"qid:")] for line in lines if line
    ]
    labels = _load(b"\n".join(label for label, *_ in documents), reading)
    pairs = [pair for _, *pairs in documents for pair in pairs]
    entries = _load(b"".join(b"0 %b\n" % pair for pair in pairs), reading)
    if labels.nnz or entries.nnz != len(pairs):
        raise ValueError("a line without a label")
    starts = np.cumsum([0, *(len(document) - 1 for document in documents)])
    return sp.csr_array(
        (entries.data, entries.indices, starts), shape=(len(documents), entries.shape[1])
    )
