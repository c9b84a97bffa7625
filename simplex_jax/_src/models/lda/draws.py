"""Draws that a run has kept: of its topics, and of topic proportions of documents given these."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax._src import arguments, draws
from simplex_jax._src.corpus.device import Documents
from simplex_jax._src.draws.keys import fold_in
from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.models.topics import engine as engines
from simplex_jax._src.models.topics.fits import leading_words
from simplex_jax._src.models.topics.proportions import SHARD, cuts, side_by_side, token_ends
from simplex_jax._src.options import option, options
from simplex_jax._src.runtime import saved
from simplex_jax._src.runtime.saved import RunError

_FEW_DRAWS = 10
_STREAM = 0x7368  # keeps the random numbers apart from those of a fit with the same seed


@options
class DrawOptions:
    """Options of what is computed from draws of the proportions of documents."""

    level: float = option("Probability of the intervals.", default=0.95, below=1.0)
    sweeps: int = option(
        "Gibbs sweeps over the documents before each draw of their proportions.",
        default=25,
        least=1,
    )
    seed: int = option("Seed of all randomness.", default=0, least=0, most=arguments.MOST_SEED)
    samples: Any = option(
        "Directory with the kept samples of a loaded fit, such as run/samples.",
        default=None,
        unset="the samples in the fit",
        command=False,
    )


def titles_of(fitted: Any) -> tuple[str, ...]:
    """Return the number of each topic with its name or, if it has none, its leading words."""
    words = leading_words(fitted.topics, fitted.vocabulary, most=3)
    named = enumerate(zip(fitted.titles, words, strict=True))
    return tuple(f"{topic}: {name or leading}" for topic, (name, leading) in named)


def doubts(fitted: Any, draws: int) -> Iterator[str]:
    """Yield sentences on why intervals over some draws of the topics may be too narrow."""
    if draws < _FEW_DRAWS:
        yield (
            f"{draws} draws of the topics say little about their uncertainty: keep more "
            "(keep_samples, --keep-samples)"
        )
    rough = np.flatnonzero(diagnostics.rough(fitted.diagnostics, fitted.shared))
    if rough.size:
        absent = "are not in all chains, or " if len(fitted.shared) > 1 else ""
        yield (
            f"topics {diagnostics.listed(rough)} {absent}mix so slowly that their intervals are "
            "too narrow: a longer run helps"
        )


class Kept(NamedTuple):
    """A draw of one chain, with its topics matched to those of the first chain, as trained."""

    chain: int
    topics: np.ndarray  # [K, V]
    alpha: np.ndarray  # [K]
    prevalence: np.ndarray  # share of the tokens in each topic, [K]


def load_samples(fitted: Any, directory: str | Path | None = None) -> list[Mapping[str, Any]]:
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
            f"{place} has no samples of its topics, which show how uncertain they are: of a loaded "
            "fit give their directory, samples='run/samples', or fit again with, say, "
            "--keep-samples 50 (keep_samples=50)"
        )
    return samples


_NAMES = ("topics", "alpha", "prevalence")


def of_chains(fitted: Any, sample: Mapping[str, Any]) -> Iterator[Kept]:
    """Yield the draw of each chain in one sample.

    Raises:
        RunError: A file is damaged, or belongs to another run.
    """
    if "path" in sample:
        place, sample = sample["path"], saved.load_npz(sample["path"], _NAMES)
        shape = (len(fitted.order), *fitted.draws()[0].topics.shape)
        if sample["topics"].shape != shape or sample["alpha"].shape != shape[:2]:
            raise RunError(
                f"{place}: topics {sample['topics'].shape}, not {shape}: the file belongs to a "
                "different run"
            )
    for chain, order in enumerate(fitted.order):
        yield Kept(chain, *(sample[name][chain][order] for name in _NAMES))


class ProportionDraws:
    """Draws of the topic proportions of some documents, given topics and their concentrations.

    The labels of the tokens are drawn by collapsed Gibbs sweeps, and the proportions given the
    labels, Dirichlet(alpha + n_d). The random numbers of a document depend on its row, so documents
    with the same words get independent draws.

    Args:
        counts: The documents, [D, V].
        sweeps: Sweeps before each draw.
        engine: Engine of the sweeps, "native" or "xla"; by default native if available.

    Example:
        >>> import jax, numpy as np, scipy.sparse as sp
        >>> proportions = ProportionDraws(sp.csr_array([[30, 0], [0, 30]]), sweeps=5)
        >>> topics = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
        >>> draw = proportions.draw(jax.random.key(0), topics, np.array([0.1, 0.1]))
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
            self._parts.append(
                (documents._replace(ids=jax.device_put(rows.astype(np.uint32))), rows, last)
            )

    def draw(self, key: jax.Array, topics: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """Return proportions, float32 [D, K], given topics [K, V] and alpha [K]."""
        log_topics = _log(jax.device_put(np.asarray(topics, np.float32)))
        concentrations = jnp.asarray(alpha, jnp.float32)
        engine = engines.resolve(self._engine, len(topics))
        result = np.empty((self._size, len(topics)), np.float32)
        first = 0
        for documents, rows, last in self._parts:
            part = _draw(
                fold_in(key, first),
                log_topics,
                concentrations,
                documents,
                self._sweeps,
                engine,
            )
            result[rows[: last - first]] = np.asarray(part)[: last - first]
            first = last
        return result


def draw_key(seed: int, number: int) -> jax.Array:
    """Return the key of a draw from its number."""
    return fold_in(fold_in(jax.random.key(seed), _STREAM), number)


@jax.jit
def _log(topics: jax.Array) -> jax.Array:
    return jnp.log(jnp.maximum(topics, jnp.finfo(jnp.float32).tiny))


@partial(jax.jit, static_argnames=("sweeps", "engine"))
def _draw(
    key: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    sweeps: int,
    engine: str,
) -> jax.Array:
    key_labels, key_proportions = jax.random.split(key)
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
    return jnp.exp(draws.log_dirichlet(key_proportions, alpha + result.documents.T))


def shares_of(
    fitted: Any,
    counts: sp.csr_array,
    asked: DrawOptions,
    progress: Callable[[str, int, int], None] = lambda task, done, total: None,
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the chain and the topic proportions of documents [D, V], [D, k], in each kept draw.

    Topics are as trained.
    """
    samples = load_samples(fitted, asked.samples)
    sampler = ProportionDraws(counts, sweeps=asked.sweeps)
    total, number = len(samples) * len(fitted.order), 0
    for sample in samples:
        for draw in of_chains(fitted, sample):
            key = draw_key(asked.seed, number)
            yield draw.chain, sampler.draw(key, draw.topics, draw.alpha)
            number += 1
            progress("draws of proportions", number, total)
