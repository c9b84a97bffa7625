"""How a corpus is read: what `corpus.read` was told besides the path and the format."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import scipy.sparse as sp

from simplex_jax.corpus.corpus import Corpus
from simplex_jax.corpus.text import TextOptions, from_texts
from simplex_jax.corpus.vocabulary import read_vocabulary


@dataclass(frozen=True)
class Reading:
    """The options of all readers; `corpus.read` says what each means and which format has it."""

    vocabulary: Path | None = None
    text: TextOptions = field(default_factory=TextOptions)
    encoding: str = "utf-8"
    names: Path | None = None
    transpose: bool = False
    layer: str | None = None
    zero_based: bool = False
    text_column: str | None = None
    id_column: str | None = None


class Blocks(NamedTuple):
    """A corpus that is read a few documents at a time.

    Attributes:
        vocabulary: V words.
        counts: of successive documents, [n, V] each; to be read while the file is open.
    """

    vocabulary: Sequence[str]
    counts: Iterator[sp.csr_array]


def corpus_of_texts(texts: Iterable[str], names: Sequence[str], path: Path, how: Reading) -> Corpus:
    """Make a corpus of the texts in a file; see `from_texts`, which looks at `names` last."""
    words = None if how.vocabulary is None else read_vocabulary(how.vocabulary)
    return from_texts(texts, names, options=how.text, vocabulary=words, source=str(path))
