"""A finished run of the spherical admixture model, read from its directory with every check."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplex_jax.runtime import saved
from simplex_jax.runtime.saved import RunError
from simplex_jax.spherical import files


class Model(NamedTuple):
    """A fitted model as it is on disk.

    Attributes:
        mean: Posterior mean directions of the topics, unit rows, float32 [K, V].
        sd: Posterior standard deviation of the entries of the topics, about their posterior mean
            `length[:, None] * mean`, [K, V]; NaN where unknown.
        length: Mean resultant length of each topic, [K].
        prevalence: Mean share of each topic in the documents, [K].
        prevalence_sd: Its standard deviation, [K].
        stability: Mean cosine of each topic with its partners in other chains, [K]; NaN for one.
        alpha: Concentration of topic proportions.
        alpha_sd: Its standard deviation, 0 where it was given.
        sigma: Concentration of the topics.
        sigma_sd: Its standard deviation.
        kappa1: Concentration of the documents.
        kappa1_sd: Its standard deviation.
        idf: Weight of each word, [V].
        vocabulary: The V words.
        config: What `config.json` holds: settings, how the corpus was read, versions.
    """

    mean: np.ndarray
    sd: np.ndarray
    length: np.ndarray
    prevalence: np.ndarray
    prevalence_sd: np.ndarray
    stability: np.ndarray
    alpha: float
    alpha_sd: float
    sigma: float
    sigma_sd: float
    kappa1: float
    kappa1_sd: float
    idf: np.ndarray
    vocabulary: tuple[str, ...]
    config: dict[str, Any]


def load(directory: str | Path) -> Model:
    """Read the model of a run.

    Raises:
        RunError: The directory holds no finished run, or a file of it is damaged or does not go
            with the others.

    Example:
        >>> load("no/such/directory")
        Traceback (most recent call last):
        simplex_jax.runtime.saved.RunError: no/such/directory: there is no such directory
    """
    place = Path(directory)
    config = saved.load_config(place, "sam")
    saved.check_ended(place, "sam")
    vocabulary = saved.load_vocabulary(place)
    topics, words = config["settings"]["num_topics"], len(vocabulary)
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(files.WIDE, (topics, words))
    shapes |= dict.fromkeys(files.PER_TOPIC, (topics,)) | dict.fromkeys(files.SCALARS, ())
    path = place / "topics.npz"
    told = "config.json and vocabulary.txt"
    arrays = saved.load_arrays(path, shapes | {"idf": (words,)}, told)
    for name, array in arrays.items():
        sound = np.abs(array) < np.inf
        if name not in ("mean", "stability"):
            sound &= array >= 0
        if name in ("alpha", "sigma", "kappa1"):
            sound &= array > 0
        if name.endswith("sd") or name == "stability":  # unknown of a single sample or chain
            sound |= np.isnan(array)
        if not sound.all():
            raise RunError(f"{path}: {name} has numbers out of range")
    if not np.allclose(np.linalg.norm(arrays["mean"].astype(np.float64), axis=1), 1, atol=1e-3):
        raise RunError(f"{path}: the topics of mean are not of length 1")
    found: dict[str, Any] = dict(arrays)
    found |= {name: float(arrays[name]) for name in files.SCALARS}
    return Model(**found, vocabulary=vocabulary, config=config)
