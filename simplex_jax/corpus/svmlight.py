"""The SVMlight (libsvm) format: a document a line, `label index:count ... # comment`."""

import re
from pathlib import Path

from simplex_jax.corpus import pairs
from simplex_jax.corpus.corpus import Corpus
from simplex_jax.corpus.reading import Reading
from simplex_jax.corpus.vocabulary import read_vocabulary

_COMMENTS = rb"(?:[ \t]*(?:#[^\n]*)?\r?\n)*"
_LABEL = rb"[-+]?\d[\d.eE+,-]*(?:[ \t]+qid:\d+)?"
_PAIRS = rb"(?:[ \t]+\d+:[-+]?[\d.][\d.eE+-]*)+"
_END = rb"(?:[ \t]*(?:#[^\n]*)?\r?\n|[ \t][\d:.]*$)"
_FIRST_LINE = re.compile(_COMMENTS + _LABEL + _PAIRS + _END)


def recognises(path: Path, head: bytes) -> bool:
    """Whether the first line that is no comment is a label and pairs of numbers."""
    return _FIRST_LINE.match(head) is not None


def read(path: Path, how: Reading) -> Corpus:
    """Read documents, numbered from 1 unless names are given; labels and `qid` are left out.

    Indices count from 1, as SVMlight defines it, and an index 0 is an error; with `how.zero_based`
    they count from 0, as scikit-learn writes them by default. Nothing is guessed from the smallest
    index of a file, so that two files of one corpus never differ. Indices may come in any order,
    those there twice are summed. Without a vocabulary the words are `w0, w1, ...` up to the largest
    in the file.

    Raises:
        CorpusError: naming the file and the line.
    """
    words = None if how.vocabulary is None else read_vocabulary(how.vocabulary)
    size = None if words is None else len(words)
    layout = pairs.Layout(0 if how.zero_based else 1, size, svmlight=True)
    return pairs.read(path, how, layout, words)
