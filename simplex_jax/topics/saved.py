"""A finished run of LDA, read from its directory again with every check."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplex_jax.runtime import saved
from simplex_jax.runtime.saved import RunError
from simplex_jax.topics.files import ARRAYS


class Model(NamedTuple):
    """A fitted topic model as it is on disk.

    Attributes:
        mean: Posterior mean of the topics, float32 [K, V].
        sd: Their posterior standard deviation, float32 [K, V]; NaN where unknown.
        prevalence: Share of the tokens in each topic, float64 [K].
        prevalence_sd: Its standard deviation, float64 [K].
        alpha: Concentration of topic proportions, per topic, float64 [K].
        alpha_sd: Its standard deviation, 0 where it was given, float64 [K].
        beta: Concentration of the words, per word, float64 [V].
        beta_sd: Its standard deviation, float64 [V].
        stability: How alike each topic is in all chains, float64 [K]; NaN for one chain.
        vocabulary: The V words.
        config: What `config.json` holds: settings, how the corpus was read, versions.
    """

    mean: np.ndarray
    sd: np.ndarray
    prevalence: np.ndarray
    prevalence_sd: np.ndarray
    alpha: np.ndarray
    alpha_sd: np.ndarray
    beta: np.ndarray
    beta_sd: np.ndarray
    stability: np.ndarray
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
    config = saved.load_config(place, "lda")
    saved.check_ended(place, "lda")
    vocabulary = saved.load_vocabulary(place)
    topics, words = config["settings"]["num_topics"], len(vocabulary)
    shapes: dict[str, tuple[int, ...]] = {
        name: (words,) if name.startswith("beta") else (topics,) for name in ARRAYS
    }
    shapes |= {"mean": (topics, words), "sd": (topics, words)}
    told = "config.json and vocabulary.txt"
    arrays = saved.load_arrays(place / "topics.npz", shapes, told)
    for name, array in arrays.items():
        positive = name in ("alpha", "beta")
        spread = name.endswith("sd") or name == "stability"
        sound = (array > 0 if positive else array >= 0) & (array < np.inf)
        if not (sound | np.isnan(array) if spread else sound).all():
            raise RunError(f"{place / 'topics.npz'}: {name} has numbers out of range")
    if not np.allclose(arrays["mean"].sum(axis=1, dtype=np.float64), 1, atol=1e-3):
        raise RunError(f"{place / 'topics.npz'}: the topics of mean do not sum to 1")
    return Model(**arrays, vocabulary=vocabulary, config=config)
