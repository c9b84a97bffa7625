"""Estimators: the counts for a simplex kernel, estimated from a batch.

The counts are those of the full data, one leaf [..., K] for each leaf of the position: how often
each category of each simplex was drawn, in expectation. Categorical data are counted directly;
latent assignments are drawn, or averaged over, given the position.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from simplex_jax._src import arguments
from simplex_jax._src.base import Batch, Position, PyTree, bind, static
from simplex_jax._src.batches import Indexed, length
from simplex_jax._src.geometry import simplex

Counts: TypeAlias = PyTree
"""Counts per category, leaves [..., K] like those of the position."""

CountsOf: TypeAlias = Callable[[jax.Array, Position, Batch], Counts]
"""`(key, position, batch) -> counts`, summed over the batch, without scaling."""


class Estimator(NamedTuple):
    """An estimate of the full-data counts, with a memory between batches.

    Attributes:
        init: `(key) -> memory`.
        estimate: `(key, memory, position, batch) -> (counts, memory)`; the position holds
            log-probabilities. Counts should be nonnegative; SCIR sets negative ones to 0.
        scale: `(batch) -> N / n`, the factor by which the counts of a batch of n of N data are
            scaled, 1 if the counts are those of all data. None if their noise is not known from it.
    """

    init: Callable[[jax.Array], PyTree]
    estimate: Callable[[jax.Array, PyTree, Position, Batch], tuple[Counts, PyTree]]
    scale: Callable[[Batch], float | jax.Array] | None = None


def subsampled(counts_of: CountsOf, size: float) -> Estimator:
    """Scale the counts of a batch of n data by `size / n`: unbiased, as in the papers.

    Args:
        counts_of: `(key, position, batch) -> counts` of the batch, leaves [..., K].
        size: Number of data in the full data set. n is the length of the batch's leading axis.

    Raises:
        ValueError: `size` is not positive.

    Example: expected counts for sampling the weights of a mixture of two known coins (heads with
    probability 0.2 and 0.9); data are 0 or 1.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> likelihood = jnp.log(jnp.array([[0.8, 0.1], [0.2, 0.9]]))  # [outcome, coin]
        >>> def counts_of(key, log_weights, batch):
        ...     return jax.nn.softmax(log_weights + likelihood[batch]).sum(axis=0)
        >>> estimator = estimators.subsampled(counts_of, size=100)
        >>> log_weights = jnp.log(jnp.array([0.5, 0.5]))
        >>> counts, memory = estimator.estimate(
        ...     jax.random.key(0), (), log_weights, jnp.array([0, 1]))
        >>> print(counts.round())
        [54. 46.]
    """
    size = arguments.size(size)
    return Estimator(no_memory, bind(_subsampled, counts_of, size), bind(_scale, size))


def _scale(size: float, batch: Batch) -> float | jax.Array:
    return size / length(batch, "batch")


def _subsampled(
    counts_of: CountsOf,
    size: float,
    key: jax.Array,
    memory: PyTree,
    position: Position,
    batch: Batch,
) -> tuple[Counts, PyTree]:
    scale = _scale(size, batch)
    return jax.tree.map(lambda n: n * scale, counts_of(key, position, batch)), memory


def categorical(size: float) -> Estimator:
    """Scaled counts of observed categories.

    Batches have the structure of the position; for a position leaf [..., K] the batch leaf holds n
    labels in 0..K-1 for each simplex, an integer array [n, ...]. Under `jit` labels out of range
    give NaN.

    Args:
        size: Number of data in the full data set.

    Raises:
        ValueError: `size` is not positive; when used, the labels do not fit the position, or one is
            out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> estimator = estimators.categorical(size=100)
        >>> counts, _ = estimator.estimate(
        ...     jax.random.key(0), (), jnp.zeros(3), jnp.array([0, 2, 2, 2, 2]))
        >>> counts.tolist()
        [20.0, 0.0, 80.0]
    """
    return subsampled(_label_counts, size)


def multinomial(size: float) -> Estimator:
    """Scaled sums of observed count rows.

    Batches have the structure of the position; for a position leaf [..., K] the batch leaf holds n
    rows of counts for each simplex, [n, ..., K]. Under `jit` negative counts give NaN.

    Args:
        size: Number of rows in the full data set.

    Raises:
        ValueError: `size` is not positive; when used, the rows do not fit the position, or a count
            is negative.

    Example: two of 100 rows.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> estimator = estimators.multinomial(size=100)
        >>> rows = jnp.array([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0]])
        >>> counts, _ = estimator.estimate(jax.random.key(0), None, jnp.zeros(3), rows)
        >>> counts.tolist()
        [50.0, 250.0, 0.0]
    """
    return subsampled(_row_counts, size)


def control_variate(
    counts_of: CountsOf,
    size: float,
    reference: Position,
    reference_counts: Counts,
    *,
    of: str = "counts",
) -> Estimator:
    r"""Correct scaled counts of a batch by their known error at a reference position.

    With c the counts of the batch, scaled by `size / n`, and :math:`n^*` those of all data at the
    reference :math:`\omega^*`,

    .. math::
        \hat n = c(\omega) + r\, (n^* - c(\omega^*)), \qquad
        r_j = 1 \text{ or } \omega_j / \omega^*_j

    with both c from one batch and one key: unbiased, with small variance near the reference. With r
    = 1 it is a control variate for the counts (Barile and Nemeth 2024 use one in SCIR), exact if
    labels are certain. In almost empty categories its noise is large relative to the counts, and
    SCIR sets negative ones to 0, which is a bias: with 1,000 data and seven of ten categories empty
    it did more harm than batches do (`docs/experiments.md`). The other choice is a control variate
    for the derivatives with respect to omega, as counts are omega times these: its noise vanishes
    with omega.

    Args:
        counts_of: `(key, position, batch) -> counts`. If it is not random (expected counts),
            `reference_counts` can be exact, and then so is the estimate at the reference.
            Derivatives need this, as the ratio of two omegas is unbounded.
        size: Number of data in the full data set.
        reference: Log-probabilities, like a kernel's position, ideally a mode; finite for
            derivatives.
        reference_counts: `counts_of` there, over the full data.
        of: "counts" (r = 1), or "derivatives".

    Raises:
        ValueError: `size` is not positive, `of` is unknown, or the reference of derivatives has a
            probability of 0; when used, the reference or its counts do not fit the position.

    Example: at the reference, the estimate of any batch is that of all data.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> data = jnp.array([0, 0, 1, 1, 1])
        >>> def counts_of(key, log_weights, batch):
        ...     return jnp.zeros(2).at[batch].add(1.0)
        >>> mode = jnp.log(jnp.array([0.4, 0.6]))
        >>> estimator = estimators.control_variate(counts_of, 5, mode, jnp.array([2.0, 3.0]))
        >>> counts, _ = estimator.estimate(jax.random.key(0), None, mode, data[:2])
        >>> counts.tolist()
        [2.0, 3.0]
    """
    size = arguments.size(size)
    arguments.choice("of", of, ("counts", "derivatives"))
    if of == "derivatives":
        for leaf in map(jnp.asarray, jax.tree.leaves(reference)):
            needs = "finite, as derivatives are compared by ratios of probabilities"
            arguments.require("reference", leaf, jnp.isfinite(leaf), needs)
    estimate = static(_control_variate, of=of)
    return Estimator(no_memory, bind(estimate, counts_of, size, reference, reference_counts))


def _control_variate(
    counts_of: CountsOf,
    size: float,
    reference: Position,
    reference_counts: Counts,
    key: jax.Array,
    memory: PyTree,
    position: Position,
    batch: Batch,
    *,
    of: str,
) -> tuple[Counts, PyTree]:
    reference, full_counts = (
        jax.tree.unflatten(jax.tree.structure(position), simplex.broadcast(name, tree, position))
        for name, tree in (("reference", reference), ("reference_counts", reference_counts))
    )
    scale = _scale(size, batch)
    counts_at_position = counts_of(key, position, batch)
    counts_at_reference = counts_of(jax.random.clone(key), reference, batch)
    counts = (full_counts, counts_at_position, counts_at_reference)
    if of == "counts":
        corrected = jax.tree.map(lambda n, a, b: n + scale * (a - b), *counts)
    else:
        corrected = jax.tree.map(
            lambda n, a, b, at, ref: scale * a + jnp.exp(at - ref) * (n - scale * b),
            *(*counts, position, reference),
        )
    return corrected, memory


class Memory(NamedTuple):
    """Memory of the memoised estimator.

    Attributes:
        assignments: The current assignment of every datum, leaves [N, ...].
        counts: Their counts, leaves [..., K].
    """

    assignments: PyTree
    counts: Counts


Assign: TypeAlias = Callable[[jax.Array, Position, PyTree, PyTree], PyTree]
"""`(key, position, data, previous) -> assignments`, leaves [n, ...], for n data."""

Count: TypeAlias = Callable[[PyTree, PyTree], Counts]
"""`(assignments, data) -> counts`, summed over the data."""


def memoised(assign: Assign, count: Count, assignments: PyTree, counts: Counts) -> Estimator:
    """Store the assignments of all data, and so their exact counts.

    A batch's new assignments replace its old ones in the running counts. If `assign` draws from the
    conditional given the position, or by any step that leaves it invariant, then SCIR with a
    refreshed total is an exact minibatch Gibbs sampler: no discretisation and no subsampling error.

    Make the stream of batches from `batches.indexed(data)`. The data of one batch must be distinct:
    use `batches.shuffled`, or `batches.uniform` without replacement. Integer counts stay exact in
    float32 up to 2^24.

    Args:
        assign: `(key, position, data, previous) -> assignments` for the data of a batch, given
            their previous assignments.
        count: `(assignments, data) -> counts`, a sum over data.
        assignments: Initial assignments of all data, leaves [N, ...].
        counts: `count(assignments, data)` over all data.

    Example: the weights of a mixture of two coins, as in `subsampled`, with drawn assignments.

        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import batches, draws, estimators
        >>> likelihood = jnp.array([[0.8, 0.1], [0.2, 0.9]])  # [outcome, coin]
        >>> def assign(key, log_weights, data, previous):
        ...     return draws.categorical(key, jnp.exp(log_weights) * likelihood[data])
        >>> def count(coins, data):
        ...     return jnp.zeros(2).at[coins].add(1.0)
        >>> data, coins = jnp.array([0, 0, 1, 1, 1]), jnp.array([0, 0, 0, 1, 1])
        >>> estimator = estimators.memoised(assign, count, coins, count(coins, data))
        >>> memory = estimator.init(jax.random.key(0))
        >>> batch = jax.tree.map(lambda leaf: leaf[jnp.array([0, 4])], batches.indexed(data))
        >>> counts, memory = estimator.estimate(
        ...     jax.random.key(1), memory, jnp.log(jnp.array([0.5, 0.5])), batch)
        >>> float(counts.sum()), bool((counts == count(memory.assignments, data)).all())
        (5.0, True)
    """
    memory = jax.tree.map(jnp.asarray, Memory(assignments, counts))
    return Estimator(bind(_recall, memory), bind(_memoised, assign, count), bind(_all_data))


def _recall(memory: Memory, key: jax.Array) -> Memory:
    return memory


def _memoised(
    assign: Assign,
    count: Count,
    key: jax.Array,
    memory: Memory,
    position: Position,
    batch: Indexed,
) -> tuple[Counts, Memory]:
    if not isinstance(batch, Indexed):
        raise ValueError(
            "batch must be batches.Indexed: make the stream from batches.indexed(data)"
        )
    old = jax.tree.map(lambda leaf: leaf[batch.ids], memory.assignments)
    new = assign(key, position, batch.data, old)
    counts = jax.tree.map(
        lambda total, added, removed: total + (added - removed).astype(total.dtype),
        memory.counts,
        count(new, batch.data),
        count(old, batch.data),
    )
    assignments = jax.tree.map(
        lambda leaf, values: leaf.at[batch.ids].set(values.astype(leaf.dtype)),
        memory.assignments,
        new,
    )
    return counts, Memory(assignments, counts)


def _all_data(batch: Batch) -> float:
    return 1.0


def no_memory(key: jax.Array) -> tuple:
    """Return the memory of an estimator without one."""
    return ()


def _label_counts(key: jax.Array, position: Position, batch: Batch) -> Counts:
    return _by_leaf(_histogram, position, batch)


def _histogram(leaf: jax.Array, labels: jax.Array) -> jax.Array:
    """Count labels [n, ...] into the categories of `leaf` [..., K]."""
    labels = jnp.asarray(labels)
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise ValueError(f"batch must hold integer labels, not {labels.dtype}")
    if labels.shape[1:] != leaf.shape[:-1]:
        raise ValueError(
            f"batch of labels of shape {labels.shape} does not fit a position of shape "
            f"{leaf.shape}: it must be [{', '.join(map(str, ('n', *leaf.shape[:-1])))}]"
        )
    k = leaf.shape[-1]
    rows = leaf.size // k
    # Widened, as K may not fit the labels' dtype, nor a sum of ones that of the position; int64
    # labels are not narrowed, or 2^32 would become 0.
    wide = labels if labels.dtype.itemsize > 4 else labels.astype(jnp.uint32)
    valid = (labels >= 0) & (wide < k)
    arguments.require("batch", labels, valid, f"labels from 0 to {k - 1}, of {k} categories")
    flat, valid = (x.reshape(labels.shape[0], rows) for x in (labels, valid))
    first = k * jnp.arange(rows, dtype=jnp.int32)[None]
    cell = jnp.where(valid, flat.astype(jnp.int32) + first, leaf.size)
    cells = jnp.zeros(leaf.size, jnp.int32).at[cell].add(1, mode="drop")
    counts = cells.reshape(rows, k).astype(leaf.dtype)
    return jnp.where(valid.all(axis=0)[:, None], counts, jnp.nan).reshape(leaf.shape)


def _row_counts(key: jax.Array, position: Position, batch: Batch) -> Counts:
    return _by_leaf(_sum_rows, position, batch)


def _by_leaf(
    count: Callable[[jax.Array, Any], jax.Array], position: Position, batch: Batch
) -> Counts:
    structure: Any = jax.tree.structure(position)
    try:
        parts = structure.flatten_up_to(batch)
    except (TypeError, ValueError):
        raise ValueError(
            f"batch must have the structure of the position, {structure}; its structure is "
            f"{jax.tree.structure(batch)}"
        ) from None
    return structure.unflatten(map(count, jax.tree.leaves(position), parts))


def _sum_rows(leaf: jax.Array, rows: jax.Array) -> jax.Array:
    rows = jnp.asarray(rows)
    if rows.shape[1:] != leaf.shape:
        raise ValueError(
            f"batch of rows of shape {rows.shape} does not fit a position of shape {leaf.shape}"
        )
    arguments.require("batch", rows, rows >= 0, "counts of at least 0")
    return jnp.where((rows >= 0).all(axis=0), rows.sum(axis=0, dtype=leaf.dtype), jnp.nan)
