"""A finished run of the Dirichlet-process mixture, read from its directory with every check."""

from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from simplex_jax.dpm import files, variables
from simplex_jax.dpm.assignment import Samples
from simplex_jax.dpm.variables import Variables
from simplex_jax.models.dp_mixture import Mixture
from simplex_jax.runtime import saved
from simplex_jax.runtime.saved import RunError


class Model(NamedTuple):
    """A fitted mixture as it is on disk.

    Attributes:
        sizes: Posterior mean of the number of rows of each cluster, [C].
        lower: Lower bound of its 95 % interval, [C].
        upper: Upper bound, [C].
        present: Share of the samples that have it, [C].
        confusion: Mean shares of the rows of each cluster in all of them, [C, C].
        profiles: Posterior mean probabilities of the values, [C, V].
        profiles_sd: Their standard deviation, [C, V]; NaN where unknown.
        overall: Probabilities of the values in all rows, [V].
        samples: What rows are assigned by.
        variables: What rows consist of.
        config: What `config.json` holds: settings, how the input was read, versions.
    """

    sizes: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    present: np.ndarray
    confusion: np.ndarray
    profiles: np.ndarray
    profiles_sd: np.ndarray
    overall: np.ndarray
    samples: Samples
    variables: Variables
    config: dict[str, Any]


def load(directory: str | Path) -> Model:
    """Read the mixture of a run.

    Raises:
        RunError: The directory holds no finished run, or a file of it is damaged or does not go
            with the others.

    Example:
        >>> load("no/such/directory")
        Traceback (most recent call last):
        simplex_jax.runtime.saved.RunError: no/such/directory: there is no such directory
    """
    place = Path(directory)
    config = saved.load_config(place, "dpm", "capacity")
    saved.check_ended(place, "dpm", "clusters.npz")
    summary = saved.load_json(place / "summary.json")
    wanted = ("clusters", "samples", "components")
    sizes = [size for name in wanted if isinstance(size := summary.get(name), int) and size > 0]
    if len(sizes) < len(wanted):
        raise RunError(f"{place / 'summary.json'}: it does not say how many clusters there are")
    count = sizes[0]
    try:
        found = variables.from_json(saved.load_json(place / "variables.json"))
    except ValueError as error:
        if isinstance(error, RunError):
            raise
        raise RunError(f"{place / 'variables.json'}: {error}: the file is damaged") from None
    arrays = _clusters(place / "clusters.npz", count, sum(found.sizes))
    samples = _samples(place / "samples.npz", sizes, found)
    return Model(**arrays, samples=samples, variables=found, config=config)


def _clusters(path: Path, count: int, values: int) -> dict[str, np.ndarray]:
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(files.PER_CLUSTER, (count,))
    shapes |= {"confusion": (count, count), "overall": (values,)}
    shapes |= dict.fromkeys(("profiles", "profiles_sd"), (count, values))
    arrays = saved.load_arrays(path, shapes, "summary.json and variables.json")
    for name, array in arrays.items():
        sound = (array >= 0) & (array < np.inf)
        if name == "profiles_sd":  # unknown of a single sample
            sound |= np.isnan(array)
        if name in ("profiles", "overall", "confusion", "present"):
            sound &= array <= 1 + 1e-5
        if not sound.all():
            raise RunError(f"{path}: {name} has numbers out of range")
    return arrays


def _samples(path: Path, sizes: list[int], found: Variables) -> Samples:
    count, number, width = sizes
    shapes: dict[str, tuple[int, ...]] = {
        "log_weights": (number, width),
        "log_rest": (number,),
        "atoms": (number, width, sum(found.sizes)),
        "shares": (number, count, width),
    }
    arrays = saved.load_arrays(path, shapes, "summary.json and variables.json")
    for name, array in arrays.items():
        logs = name != "shares"
        sound = (array <= 1e-5) & ~np.isnan(array) if logs else (array >= 0) & (array <= 1 + 1e-5)
        if not sound.all():
            raise RunError(f"{path}: {name} has numbers out of range")
    log_weights, log_rest = jnp.asarray(arrays["log_weights"]), jnp.asarray(arrays["log_rest"])
    mixture = Mixture(log_weights, log_rest, found.tree(arrays["atoms"]))
    return Samples(mixture, arrays["shares"])
