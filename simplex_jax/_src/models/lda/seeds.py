"""Seed words: a prior that expects some words in some topics.

The prior of a topic k with seed words is Dirichlet(beta + w s_k), where s_k is 1 at its seed words
and 0 elsewhere. Given counts n its posterior is Dirichlet(beta + n + w s_k), as if w tokens of each
seed word had been seen before. These pseudo-counts are added to the counts that a sampler uses.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.corpus.corpus import error_at, printable
from simplex_jax._src.corpus.files import text_lines
from simplex_jax._src.corpus.vocabulary import columns_of


class Seeds(NamedTuple):
    """Pseudo-counts of the prior, at n pairs of a topic and a word."""

    topics: jax.Array | np.ndarray  # int32 [n]
    words: jax.Array | np.ndarray  # int32 [n]
    weight: jax.Array | np.ndarray  # weight of each pair, a float

    def added(self, table: jax.Array) -> jax.Array:
        """Return a table [..., K, V] plus the pseudo-counts."""
        weight = jnp.asarray(self.weight, table.dtype)
        return table.at[..., self.topics, self.words].add(weight)

    def since(self, first: jax.Array) -> "Seeds":
        """Return the seeds for the rows of a table from `first` on, a uint32.

        The numbers of earlier rows wrap around to large values, which are dropped.
        """
        return self._replace(topics=jnp.asarray(self.topics).astype(jnp.uint32) - first)

    def totals(self, num_topics: int) -> jax.Array:
        """Return the pseudo-counts of each topic, [K]."""
        return jnp.zeros(num_topics).at[self.topics].add(self.weight)


def as_seeds(seeds: tuple[ArrayLike, ArrayLike, ArrayLike], shape: tuple[int, int]) -> Seeds:
    """Return topics, words and their pseudo-counts as seeds of topics of a shape, [K, V].

    Raises:
        ValueError: They are not such a triple, or out of range.
    """
    if not isinstance(seeds, tuple) or len(seeds) != 3:
        raise ValueError(f"seeds must be (topics, words, weight); it is a {type(seeds).__name__}")
    topics, words = np.asarray(seeds[0]), np.asarray(seeds[1])
    (weight,) = arguments.nonnegatives(weight=seeds[2])
    for name, value, size in (("topics", topics, shape[0]), ("words", words, shape[1])):
        if value.ndim != 1 or not np.issubdtype(value.dtype, np.integer):
            raise ValueError(
                f"the {name} of seeds must be integers [n]; they are {value.dtype} {value.shape}"
            )
        if (wrong := value[(value < 0) | (value >= size)]).size:
            raise ValueError(f"the {name} of seeds must be from 0 to {size - 1}; one is {wrong[0]}")
    if len(topics) != len(words) or weight.shape not in ((), topics.shape):
        shapes = f"{topics.shape}, {words.shape} and {weight.shape}"
        raise ValueError(f"seeds must be [n], [n] and a number or [n]; the shapes are {shapes}")
    return Seeds(topics.astype(np.int32), words.astype(np.int32), weight)


class Line(NamedTuple):
    """The seed words of a topic."""

    name: str  # "" for none
    words: tuple[str, ...]  # none for a topic without seeds


def lines_of(name: str, value: Any) -> tuple[str, ...] | None:
    """Return the lines of seed words, from a list or a file, or raise a ValueError."""
    if value is None:
        return None
    if isinstance(value, str | os.PathLike):
        source, lines = str(value), [line for _, line in text_lines(Path(value))]
    else:
        source, lines = name, list(value) if isinstance(value, Sequence) else [value]
    if not all(isinstance(line, str) for line in lines):
        raise ValueError(
            f"{name} must be a file, or a list with a line for each topic, such as "
            f"'economy: tax budget'; it is {printable(repr(value))}"
        )
    lines = [line.strip() for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    entries = parsed(lines)
    for number, (line, entry) in enumerate(zip(lines, entries, strict=True), start=1):
        if line and not entry.words:
            remedy = "give some, or leave the line blank for a topic without seeds"
            raise error_at(source, f"{printable(line)!r} has no word", remedy, line=number)
    if not entries:
        raise error_at(source, "no seed word", "give a line of words for each topic")
    return tuple(lines)


def parsed(lines: Sequence[str] | None) -> list[Line]:
    """Return the names and words in lines such as `economy: tax budget`.

    The name ends with a colon and a space. Words are separated by spaces or, if the line has
    commas, by commas, so that they may be phrases.

    Example:
        >>> parsed(["economy: tax budget", "", "new york, war"])[::2]
        [Line(name='economy', words=('tax', 'budget')), Line(name='', words=('new york', 'war'))]
    """
    entries = []
    for line in lines or ():
        name, colon, rest = f"{line} ".partition(": ")
        if not colon:
            name, rest = "", line
        words = [word.strip() for word in rest.split(",")] if "," in rest else rest.split()
        entries.append(Line(name.strip(), tuple(dict.fromkeys(filter(None, words)))))
    return entries


def check(lines: Sequence[str], num_topics: int, vocabulary: Sequence[str]) -> None:
    """Raise a ValueError for more lines than topics, or if no seed word is in the vocabulary."""
    if len(lines) > num_topics:
        raise ValueError(
            f"seed_words has {len(lines)} lines, one for each topic, and there are {num_topics} "
            "topics: give more topics, or fewer lines"
        )
    words = {word for line in parsed(lines) for word in line.words}
    if len(missing := unknown(lines, vocabulary)) == len(words):
        raise ValueError(
            f"none of the {len(words)} seed words is in the vocabulary, the first is "
            f"{printable(missing[0])!r}, and the first word of the vocabulary "
            f"{printable(vocabulary[0])!r}: write words as in the corpus, in lower case unless "
            "their case was kept (--keep-case), and name the columns of counts"
        )


def unknown(lines: Sequence[str] | None, vocabulary: Sequence[str]) -> list[str]:
    """Return the seed words that are not in the vocabulary, in order."""
    column_of = columns_of(vocabulary if lines else ())
    words = dict.fromkeys(word for line in parsed(lines) for word in line.words)
    return [word for word in words if column_of(word) is None]


def to_pseudocounts(settings: Any, vocabulary: Sequence[str]) -> Seeds | None:
    """Return the seeds of settled options as topic-word pairs; None if there are none."""
    if settings.seed_words is None:
        return None
    column_of = columns_of(vocabulary)
    pairs = dict.fromkeys(
        (topic, column)
        for topic, line in enumerate(parsed(settings.seed_words))
        for column in map(column_of, line.words)
        if column is not None
    )
    topics, words = np.array(list(pairs), np.int32).T
    return Seeds(topics, words, np.asarray(settings.seed_weight, np.float32))


def names(lines: Sequence[str] | None, num_topics: int, vocabulary: Sequence[str]) -> list[str]:
    """Return a name for each topic: the name of its seed line, or the first three seed words.

    Words outside the vocabulary are ignored; the name is "" for a topic without seed words.
    """
    missing = set(unknown(lines, vocabulary))
    named = []
    for line in parsed(lines):
        words = [word for word in line.words if word not in missing]
        named.append((line.name or " ".join(words[:3])) if words else "")
    return named + [""] * (num_topics - len(named))


def unseeded(lines: Sequence[str] | None, vocabulary: Sequence[str]) -> list[int]:
    """Return the topics whose seed words are all missing from the vocabulary."""
    missing = set(unknown(lines, vocabulary))
    entries = enumerate(parsed(lines))
    return [topic for topic, line in entries if line.words and missing.issuperset(line.words)]
