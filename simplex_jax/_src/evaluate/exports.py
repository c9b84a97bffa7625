"""Fits for other libraries: pyLDAvis and ArviZ."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.base import PyTree
from simplex_jax._src.corpus.corpus import Corpus, checked_counts
from simplex_jax._src.evaluate.fits import Fitted, Mixture, Record, Topics
from simplex_jax._src.evaluate.matching import as_topics
from simplex_jax._src.extras import needed


def to_pyldavis(
    topics: ArrayLike,
    proportions: ArrayLike,
    counts: Corpus | sp.csr_array,
    vocabulary: Sequence[str],
    *,
    top_terms: int = 3000,
) -> dict[str, Any]:
    """Return the arguments of `pyLDAvis.prepare`.

    Its pages become slow with large vocabularies, so only the most frequent words are kept, and
    topics are rescaled to sum to 1 over them, and so are proportions, of which a fit may have left
    out topics. Empty documents are omitted, as pyLDAvis rejects them.

    Args:
        topics: Word probabilities, [K, V], such as `Fit.topics`.
        proportions: Topic proportions of the documents, [D, K], such as `Fit.proportions`.
        counts: The documents, a `Corpus` or counts [D, V].
        vocabulary: The V words.
        top_terms: Number of words to keep, at least 2.

    Returns:
        `topic_term_dists` [K, T], `doc_topic_dists` [D', K], `doc_lengths` [D'], `vocab` (T words,
        the most frequent first) and `term_frequency` [T].

    Raises:
        ValueError: An argument is out of range or the shapes do not go together.

    Example:
        >>> import scipy.sparse as sp
        >>> prepared = to_pyldavis(
        ...     [[0.5, 0.4, 0.1]], [[1.0], [1.0]], sp.csr_array([[3, 4, 0], [0, 0, 0]]),
        ...     ["sun", "moon", "star"], top_terms=2)
        >>> prepared["vocab"], prepared["term_frequency"].tolist(), prepared["doc_lengths"].tolist()
        (['moon', 'sun'], [4, 3], [7])
        >>> prepared["topic_term_dists"].round(4).tolist()
        [[0.4444, 0.5556]]
    """
    table = as_topics("topics", topics).astype(np.float64)
    shares = np.asarray(proportions, np.float64)
    counts = checked_counts(counts.counts if isinstance(counts, Corpus) else counts, "counts")
    if counts.shape[1] != table.shape[1] or shares.shape != (counts.shape[0], len(table)):
        raise ValueError(
            f"topics {table.shape}, proportions {shares.shape} and counts {counts.shape} must be "
            "[K, V], [D, K] and [D, V]"
        )
    if len(vocabulary) != table.shape[1]:
        raise ValueError(f"vocabulary has {len(vocabulary)} words for {table.shape[1]} columns")
    frequency = counts.sum(axis=0, dtype=np.int64)
    words = np.argsort(-frequency, kind="stable")[: arguments.at_least("top_terms", top_terms, 2)]
    lengths = counts.sum(axis=1, dtype=np.int64)
    nonempty = lengths > 0
    weights = table[:, words]
    if not (weights.sum(axis=1) > 0).all():
        raise ValueError(f"a topic has no word among the {len(words)} kept: raise top_terms")
    totals = shares[nonempty].sum(axis=1, keepdims=True)
    if not (totals > 0).all():
        row = int(np.flatnonzero(nonempty)[np.argmin(totals > 0)])
        raise ValueError(f"proportions of document {row} sum to {shares[row].sum():g}")
    return {
        "topic_term_dists": weights / weights.sum(axis=1, keepdims=True),
        "doc_topic_dists": shares[nonempty] / totals,
        "doc_lengths": lengths[nonempty],
        "vocab": [str(vocabulary[word]) for word in words],
        "term_frequency": frequency[words],
    }


# Samples as trees of labelled arrays, [chain, draw, ...], for ArviZ.
#
# All of ArviZ works with them: `arviz_stats` for summaries, rank-normalised R-hat and effective
# sample sizes, `arviz_plots`, `tree.to_netcdf(...)`. This needs `pip install arviz-base`;
# `diagnostics.summary` gives R-hat and effective sizes of plain arrays without it.

_NONE = (
    "no samples are stored: give `fit` keep_samples (and no samples_dir); a fit that was streamed "
    "or loaded from a file has none, and those of `dtm` cannot be exported: see its `samples`"
)

_MEASURED = ("log_predictive",)  # traces of evaluations, which may be fewer than the samples


def run_to_arviz(
    positions: PyTree,
    info: PyTree = None,
    *,
    chains: bool = False,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Sequence] | None = None,
) -> Any:
    """Return the trace of a run as a tree with the groups `posterior` and `sample_stats`.

    Args:
        positions: Positions collected by `run`, leaves [draws, ...], or [draws, chains, ...] for a
            kernel of `simplex_jax.chains`; log-probabilities are not transformed.
        info: Infos it collected, leaves with the same leading axes, or None; use `run(...,
            collect=lambda state, info: (state.position, info))`.
        chains: Whether the leaves have a chain axis.
        dims: Names of the other axes, by variable. A variable is named by its path in the tree,
            such as "weights" or "atoms.mean"; a position that is a single array is "position".
        coords: Labels along named axes.

    Returns:
        An `xarray.DataTree`.

    Raises:
        ImportError: arviz-base is not installed.
        ValueError: The leaves differ in their numbers of draws or chains, or `dims` has a variable
            that they are not.

    Example:
        >>> import numpy as np
        >>> trace = {"weights": np.zeros((50, 4, 3))}
        >>> tree = run_to_arviz(trace, chains=True, dims={"weights": ["colour"]},
        ...                 coords={"colour": ["red", "green", "blue"]})
        >>> dict(tree["posterior"]["weights"].sizes)
        {'chain': 4, 'draw': 50, 'colour': 3}
    """
    groups = {"posterior": _named(positions)}
    if info is not None:
        groups["sample_stats"] = _named(info)
    leading = 2 if chains else 1
    arrays = {name: array for group in groups.values() for name, array in group.items()}
    shapes = {array.shape[:leading] for array in arrays.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != leading:
        described = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        axes = "[draws, chains, ...]" if chains else "[draws, ...]"
        raise ValueError(f"the leaves must all be {axes}; they are {described or 'none'}")
    if unknown := sorted(set(dims or ()) - set(arrays)):
        raise ValueError(
            f"dims names axes of {', '.join(unknown)}, but the variables are {', '.join(arrays)}"
        )
    for group in groups.values():
        for name, array in group.items():
            group[name] = np.swapaxes(array, 0, 1) if chains else array[None]
    return _tree(groups, dims, coords)


def to_arviz(fitted: Fitted | Record, vocabulary: Sequence[str] | None = None) -> Any:
    """Return the posterior samples stored by a fit or a fitted estimator.

    Args:
        fitted: A fit of `lda.fit` or `sam.fit` with `keep_samples` and no directory for them, or of
            `hdp.fit` or `dpm.fit`; or an estimator of `simplex_jax.sklearn`.
        vocabulary: The words that label the entries of topics; by default those of the fit.

    Returns:
        An `xarray.DataTree`. For topics, the group `posterior` has `topics` (chain, draw, topic,
        word), matched over the chains, and the concentrations; `sample_stats` has the training step
        and, with held-out documents, each chain's measure on them, such as `perplexity`. For a
        mixture, `posterior` has the traces, which mean the same in every chain: `alpha`,
        `num_clusters` and `largest`; `sample_stats` has `log_predictive` of held-out rows, one draw
        an evaluation.
        `partitions` has the stored partitions, fewer than the traces: `labels` (chain, draw, row),
        with their `alpha` and `step`. `hdp.fit`, whose topics are born and die, is similar: the
        traces are `alpha`, `gamma` and `topics`, and the partitions those of the tokens, `labels`
        (chain, draw, token), with the `concentrations` (chain, draw, label).

    Raises:
        ImportError: arviz-base is not installed.
        ValueError: No samples are stored.

    Example:
        >>> import numpy as np
        >>> from simplex_jax import evaluate
        >>> fitted = evaluate.Topics(  # lda.fit(counts, 2, chains=2, keep_samples=5)
        ...     topics=np.full((2, 3), 1 / 3), order=[[0, 1], [1, 0]],
        ...     samples={"topics": np.full((5, 2, 2, 3), 1 / 3), "step": np.arange(5)})
        >>> tree = evaluate.to_arviz(fitted, ["sun", "moon", "cat"])
        >>> tree["posterior"]["topics"].sel(word=["sun", "moon"]).shape
        (2, 5, 2, 2)
    """
    record = fitted.to_record() if isinstance(fitted, Fitted) else fitted
    if isinstance(record, Mixture):
        return _of_mixture(record)
    if record.mixture is not None:
        return _of_mixture(record.mixture)
    return _of_topics(record, record.vocabulary if vocabulary is None else vocabulary)


def _of_mixture(fitted: Mixture) -> Any:
    """Return traces [T, chains] and the stored partitions."""
    if not fitted.partitions:
        raise ValueError(_NONE)
    # A run that ended before its second half stored only its last partition.
    partitions = dict(fitted.partitions)
    steps = partitions.pop("step", None)
    traces = dict(fitted.traces)
    measured = {name: traces.pop(name) for name in _MEASURED if name in traces}
    groups = {
        group: {name: np.swapaxes(np.asarray(x), 0, 1) for name, x in arrays.items() if len(x)}
        for group, arrays in (
            ("posterior", traces),
            ("sample_stats", measured),
            ("partitions", partitions),
        )
    }
    groups = {group: arrays for group, arrays in groups.items() if arrays}
    if steps is not None:
        chains = len(groups["partitions"]["labels"])
        groups["partitions"]["step"] = np.tile(steps, (chains, 1))
    return _tree(groups, fitted.dims, None)


def _of_topics(fitted: Topics, vocabulary: Sequence[str] | None) -> Any:
    if not fitted.samples:
        raise ValueError(_NONE)
    posterior = {
        name: np.swapaxes(array, 0, 1) for name, array in fitted.samples.items() if name != "step"
    }
    if len(fitted.order) != (chains := len(posterior["topics"])):
        raise ValueError(
            f"order must have a row for each of the {chains} chains; it has {len(fitted.order)}"
        )
    dims: dict[str, Sequence[str]] = {}
    for name, array in posterior.items():
        if name == "topics":
            dims[name] = ["topic", "word"]
        elif array.ndim == 3:
            dims[name] = ["word" if name == "beta" else "topic"]
        if "topic" in dims.get(name, ()):
            posterior[name] = np.stack(
                [chain[:, order] for chain, order in zip(array, fitted.order, strict=True)]
            )
    steps = fitted.samples["step"]
    stats = {"step": np.tile(steps, (chains, 1))}
    records = {record["step"]: record for record in fitted.metrics}
    for measure in ("perplexity", "log_perplexity"):
        names = [f"{measure}_chain_{c}" if chains > 1 else measure for c in range(chains)]
        table = [[records.get(step, {}).get(name, np.nan) for step in steps] for name in names]
        if np.isfinite(table).any():
            stats[measure] = np.array(table)
    coords = None if vocabulary is None else {"word": list(vocabulary)}
    return _tree({"posterior": posterior, "sample_stats": stats}, dims, coords)


def _named(tree: PyTree) -> dict[str, np.ndarray]:
    """Return the leaves by path."""
    named = jax.tree.leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator=".") or "position": np.asarray(leaf)
        for path, leaf in named
    }


def _tree(
    groups: dict[str, dict[str, np.ndarray]],
    dims: Mapping[str, Sequence[str]] | None,
    coords: Mapping[str, Sequence] | None,
) -> Any:
    with needed("an ArviZ tree", "arviz"):
        import arviz_base  # here, since it is optional and takes a second
    return arviz_base.from_dict(
        groups,
        dims=None if dims is None else {name: list(axes) for name, axes in dims.items()},
        coords=None if coords is None else dict(coords),
    )
