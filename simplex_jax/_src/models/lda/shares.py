"""Draws of the topic shares of documents from their posterior, given draws of the topics."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax._src import draws
from simplex_jax._src.corpus.device import Documents
from simplex_jax._src.models.lda.fitting import Fit
from simplex_jax._src.models.topics import engine as engines
from simplex_jax._src.models.topics.proportions import SHARD, cuts, side_by_side, token_ends
from simplex_jax._src.runtime import saved
from simplex_jax._src.runtime.saved import RunError

_STREAM = 0x7368  # keeps the random numbers apart from those of a fit with the same seed


class Kept(NamedTuple):
    """A draw of topics and alpha from one chain, with topics numbered as in the fit."""

    chain: int
    topics: np.ndarray  # [K, V]
    alpha: np.ndarray  # [K]


def kept(fitted: Fit, directory: str | Path | None = None) -> list[Mapping[str, Any]]:
    """Return the kept samples of a fit, to be read by `of_chains`.

    Samples in a directory, `samples/` of a run, stay on disk until then.

    Raises:
        ValueError: There are none.
    """
    if directory is not None:
        paths = sorted(Path(directory).glob("sample-*.npz"))
        samples: list[Mapping[str, Any]] = [{"path": path} for path in paths]
    else:
        number = len(fitted.samples.get("topics", ()))
        samples = [{name: fitted.samples[name][i] for name in _NAMES} for i in range(number)]
    if not samples:
        place = "the fit" if directory is None else str(Path(directory).parent)
        raise ValueError(
            f"{place} has kept no samples of its topics, which show how uncertain they are: fit "
            "again with, say, --keep-samples 50 (keep_samples=50), or for a loaded fit give their "
            "directory: samples='run/samples'"
        )
    return samples


_NAMES = ("topics", "alpha")


def of_chains(fitted: Fit, sample: Mapping[str, Any]) -> Iterator[Kept]:
    """Yield the draw of each chain in one sample.

    Raises:
        RunError: A file is damaged, or belongs to another run.
    """
    if "path" in sample:
        place, sample = sample["path"], saved.load_npz(sample["path"], _NAMES)
        shape = (len(fitted.order), *fitted.topics.shape)
        if sample["topics"].shape != shape or sample["alpha"].shape != shape[:2]:
            raise RunError(
                f"{place}: topics {sample['topics'].shape}, not {shape}: the file belongs to a "
                "different run"
            )
    for chain, order in enumerate(fitted.order):
        yield Kept(chain, sample["topics"][chain][order], sample["alpha"][chain][order])


class Shares:
    """Draws of the topic shares of some documents, given topics and their concentrations.

    The labels of the tokens are drawn by collapsed Gibbs sweeps, and the shares given the labels,
    Dirichlet(alpha + n_d). The random numbers of a document depend on its row, so documents with
    the same words get independent draws.

    Args:
        counts: The documents, [D, V].
        sweeps: Sweeps before each draw.
        engine: Engine of the sweeps, "native" or "xla"; by default native if available.

    Example:
        >>> import jax, numpy as np, scipy.sparse as sp
        >>> shares = Shares(sp.csr_array([[30, 0], [0, 30]]), sweeps=5)
        >>> topics = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
        >>> draw = shares.draw(jax.random.key(0), topics, np.array([0.1, 0.1]))
        >>> draw.argmax(axis=1).tolist(), draw.sum(axis=1).round(5).tolist()
        ([0, 1], [1.0, 1.0])
    """

    def __init__(self, counts: sp.csr_array, *, sweeps: int, engine: str | None = None) -> None:
        engines.resolve(engine)
        self._sweeps, self._engine = sweeps, engine
        self._size, self._parts = counts.shape[0], []
        width = min(SHARD, self._size)
        for first, last in cuts(token_ends(counts), SHARD):
            documents, order = side_by_side(counts[first:last], width)
            rows = np.pad(first + order, (0, width - len(order)))
            self._parts.append((documents._replace(ids=jnp.asarray(rows, jnp.uint32)), rows, last))

    def draw(self, key: jax.Array, topics: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """Return shares, float32 [D, K], whose rows sum to 1, given topics [K, V] and alpha [K]."""
        tiny = np.finfo(np.float32).tiny
        log_topics = jnp.log(jnp.maximum(jnp.asarray(topics, jnp.float32), tiny))
        concentrations = jnp.asarray(alpha, jnp.float32)
        engine = engines.resolve(self._engine, len(topics))
        shares = np.empty((self._size, len(topics)), np.float32)
        first = 0
        for documents, rows, last in self._parts:
            part = _draw(
                jax.random.fold_in(key, first),
                log_topics,
                concentrations,
                documents,
                self._sweeps,
                engine,
            )
            shares[rows[: last - first]] = np.asarray(part)[: last - first]
            first = last
        return shares


def stream(seed: int, number: int) -> jax.Array:
    """Return the key of a draw from its number."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), _STREAM), number)


@partial(jax.jit, static_argnames=("sweeps", "engine"))
def _draw(
    key: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    sweeps: int,
    engine: str,
) -> jax.Array:
    key_labels, key_shares = jax.random.split(key)
    result = engines.sweeps(
        key_labels,
        log_topics,
        alpha,
        documents,
        None,
        times=sweeps,
        burn_in=sweeps - 1,
        tally=True,
        engine=engine,
    )
    return jnp.exp(draws.log_dirichlet(key_shares, alpha + result.documents.T))
