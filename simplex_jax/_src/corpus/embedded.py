"""The embedded corpus, the same on every machine: the State of the Union addresses."""

import functools
import lzma
from importlib import resources

from simplex_jax._src.corpus.corpus import Corpus
from simplex_jax._src.corpus.text import TextOptions, from_texts

EMBEDDED_OPTIONS = TextOptions(min_df=10, max_df=0.1)
"""Vocabulary limits of the embedded corpus, which keep about 3,500 words."""

EMBEDDED_NAME = "State of the Union addresses, 1914 to 2009"
"""What the embedded corpus is."""

_FILE = "state_of_the_union.tsv.xz"


def embedded_corpus(options: TextOptions = EMBEDDED_OPTIONS) -> Corpus:
    """Return the paragraphs of the State of the Union addresses, 1914 to 2009.

    The texts come with the package; `corpus/data/README.md` gives their source. A document name is
    the year of the address and the number of the paragraph, such as `1941-7`.

    Args:
        options: Tokens and vocabulary limits.

    Returns:
        The corpus, 9,743 documents in order of the addresses.

    Raises:
        CorpusError: `options` leave no word.

    Example:
        >>> texts = embedded_corpus()
        >>> texts.counts.shape[0], texts.names[0]
        (9743, '1914-1')
    """
    names, texts = zip(*_lines(), strict=True)
    return from_texts(texts, names, options=options, source="the embedded corpus")


def embedded_years() -> list[int]:
    """Return the year of each document of the embedded corpus.

    Example:
        >>> years = embedded_years()
        >>> len(years), years[0], years[-1]
        (9743, 1914, 2009)
    """
    return [int(name.split("-")[0]) for name, _ in _lines()]


@functools.cache
def _lines() -> list[tuple[str, str]]:
    """Return names and texts."""
    packed = resources.files("simplex_jax._src.corpus").joinpath("data", _FILE).read_bytes()
    lines = lzma.decompress(packed).decode("utf-8").splitlines()
    return [(name, text) for name, text in (line.split("\t", 1) for line in lines)]
