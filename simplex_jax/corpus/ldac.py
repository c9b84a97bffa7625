"""The lda-c format: a document a line, `M id:count id:count ...`, M pairs with ids from 0."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from simplex_jax.corpus import pairs
from simplex_jax.corpus.corpus import Corpus, error_at
from simplex_jax.corpus.reading import Blocks, Reading
from simplex_jax.corpus.vocabulary import read_vocabulary, vocabulary_beside

_LINE = re.compile(rb"(\d{1,9})((?:[ \t]+\d+:\d+)*)[ \t]*\r?")


def recognises(path: Path, head: bytes) -> bool:
    """Whether every line starts with the number of its pairs of whole numbers.

    A first line that is longer than `head` starts with more than there are in it.
    """
    *whole, last = head.split(b"\n")
    if not whole:
        found = _LINE.match(last)
        return found is not None and int(found[1]) >= found[2].count(b":") > 0
    lines = [_LINE.fullmatch(line) for line in whole if line.strip()]
    pairs_there = any(line[2] for line in lines if line)
    return pairs_there and all(line and int(line[1]) == line[2].count(b":") for line in lines)


def read(path: Path, how: Reading) -> Corpus:
    """Read documents, named by the numbers of their lines unless names are given.

    `0` is an empty document. The vocabulary is the one given, or the first there next to `path` of
    `vocab.NAME.txt`, `NAME.vocab` and `vocab.txt` (each also with `.gz`); without one the words are
    `w0, w1, ...` up to the largest in the file.

    Raises:
        CorpusError: naming the file and the line.
    """
    words = _vocabulary(path, how)
    if words is None:
        return pairs.read(path, how, pairs.Layout(0, None, svmlight=False))
    return pairs.read(path, how, pairs.Layout(0, len(words), svmlight=False), words)


@contextmanager
def blocks(path: Path, how: Reading) -> Iterator[Blocks]:
    """Read a few documents at a time; there must be a vocabulary.

    Raises:
        CorpusError: as `read`, or there is no vocabulary.
    """
    words = _vocabulary(path, how)
    if words is None:
        raise error_at(path, "no vocabulary next to it", "give a vocabulary file to store it")
    layout = pairs.Layout(0, len(words), svmlight=False)

    def tables() -> Iterator[sp.csr_array]:
        for sizes, ids, counts in pairs.documents(path, layout):
            ends = np.concatenate([[0], np.cumsum(sizes)])
            yield sp.csr_array((counts, ids, ends), shape=(len(sizes), len(words)))

    yield Blocks(words, tables())


def _vocabulary(path: Path, how: Reading) -> tuple[str, ...] | None:
    name = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    tried = [f"vocab.{name}.txt", f"{name}.vocab", "vocab.txt"]
    found = how.vocabulary or vocabulary_beside(path, tried)
    return None if found is None else read_vocabulary(found)
