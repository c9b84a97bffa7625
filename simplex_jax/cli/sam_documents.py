"""New documents for a fitted spherical model: read, and put to the words that it knows."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplex_jax.cli import documents, sam_jobs, sam_options
from simplex_jax.corpus import tfidf
from simplex_jax.corpus.vectors import UnitVectors
from simplex_jax.runtime.saved import RunError
from simplex_jax.spherical.saved import Model


class Mapped(NamedTuple):
    """Documents over the vocabulary of a model.

    Attributes:
        vectors: Those that have a direction.
        names: The names of all.
        rows: Which of all those are.
        said: How much of them the model knows, in words.
    """

    vectors: UnitVectors
    names: tuple[str, ...]
    rows: np.ndarray
    said: str


def read(model: Model, path: Path, reading: dict[str, Any]) -> Mapped:
    """Read documents as those of a model were read, with its words and their weights.

    Args:
        model: The model.
        path: The documents: of counts if the model is of counts, or unit vectors.
        reading: The options of `sam_options.FILE_OPTIONS`.

    Raises:
        ValueError: The documents cannot be read, or do not go with the model.
        click.UsageError: An option was given that does nothing for such documents.
    """
    job = model.config.get("job")
    if not isinstance(job, dict) or not isinstance(job.get("vectors"), bool):
        raise RunError("config.json of the model does not say what its documents were")
    vectors = sam_jobs.holds_vectors(path, reading["format"])
    sam_options.check_typed(tuple(reading), vectors=vectors, embedded=False)
    if vectors:
        found = _same_words(sam_jobs.read_vectors(path, reading), model, path)
        everything = np.arange(len(found.names))
        return Mapped(found, found.names, everything, f"{len(found.names):,} unit vectors")
    if job["vectors"]:
        raise ValueError(
            f"{path}: the model is one of unit vectors, and this has counts, whose weights it does "
            "not know: give unit vectors (an .npz of them with --format vectors)"
        )
    counted = documents.read_as(model.vocabulary, job["reading"]["stop_words"], path, reading)
    weighed = tfidf.vectors(counted.corpus, model.idf)
    said = documents.described(counted)
    return Mapped(weighed.vectors, counted.corpus.names, weighed.rows, said)


def _same_words(found: UnitVectors, model: Model, path: Path) -> UnitVectors:
    words, known = found.vocabulary, model.vocabulary
    unnamed = words == tuple(f"w{i}" for i in range(len(words)))
    if len(words) != len(known) or not (unnamed or words == known):
        raise ValueError(
            f"{path}: its {len(words)} words are not the {len(known)} of the model, in their "
            "order: give vectors over the vocabulary.txt of the model"
        )
    return found._replace(vocabulary=known)
