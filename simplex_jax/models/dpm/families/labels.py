"""Sums of features of rows by the label of the row."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

# Numbers of the features that are at hand at once.
_ROOM = 2**20

# Rows summed at once, and bits of the grid up to the largest feature: a sum has fewer than 24 bits.
_PIECE = 4096
_GRID_BITS = 10


def sums(
    features: Callable[[jax.Array], jax.Array],
    width: int,
    rows: jax.Array,
    labels: jax.Array,
    num_clusters: int,
) -> jax.Array:
    """Return the sums of the rows' features in each cluster, [K, ...], to rounding of the result.

    Summed in float32 one after the other, features that are alike are off in the same direction:
    by 3e-6 after 400 rows, which for directions about one mean is all that they vary. So a
    feature is taken apart into a multiple of a grid, whose sums are exact, and a small rest; and
    the sums of pieces of the rows are added with what rounding takes from them. The features of
    rows [m, p] are [m, ...], `width` numbers a row; rows with labels [n] outside of 0..K-1 count
    nowhere.
    """
    n, p = rows.shape
    piece = max(1, min(n, _PIECE, _ROOM // width))
    pieces = -(-n // piece)
    # A negative index would count from the end.
    labels = jnp.where(labels < 0, num_clusters, labels)
    rows = jnp.pad(rows, ((0, pieces * piece - n), (0, 0)))
    labels = jnp.pad(labels, (0, pieces * piece - n), constant_values=num_clusters)

    def by_label(values: jax.Array, where: jax.Array) -> jax.Array:
        none = jnp.zeros((num_clusters, *values.shape[1:]), values.dtype)
        # Kept apart: XLA makes a scatter onto the other sum of a sum of two scatters.
        return lax.optimization_barrier(none.at[where].add(values, mode="drop"))

    def add(carry, part):
        total, lost = carry
        some, where = part
        values = features(some)
        # A NaN affects the sums of its own cluster alone.
        peak = jnp.max(jnp.where(jnp.isfinite(values), jnp.abs(values), 0), axis=0)
        # A power of two, and exactly so, which exp2 need not be in compiled code.
        grid = jnp.ldexp(jnp.ones_like(peak), jnp.frexp(peak)[1] - _GRID_BITS)
        coarse = jnp.round(values / grid) * grid
        added = by_label(coarse, where)
        new = total + added
        # What rounding took from the larger of the two (Knuth's two-sum).
        back = new - total
        lost = lost + ((total - (new - back)) + (added - back)) + by_label(values - coarse, where)
        return (new, lost), None

    shape = jax.eval_shape(features, jax.ShapeDtypeStruct((1, p), rows.dtype))
    none = jnp.zeros((num_clusters, *shape.shape[1:]), shape.dtype)
    parts = rows.reshape(pieces, piece, p), labels.reshape(pieces, piece)
    total, lost = lax.scan(add, (none, none), parts)[0]
    return total + lost


def counts(present: jax.Array, labels: jax.Array, num_clusters: int) -> jax.Array:
    """Return the number of present rows in each cluster, int32 [K]; `present` is bool [n].

    Of cells, bool [n, p], it is that of each column, [K, p].
    """
    labels = jnp.where(labels < 0, num_clusters, labels)
    none = jnp.zeros((num_clusters, *present.shape[1:]), jnp.int32)
    return none.at[labels].add(present.astype(jnp.int32), mode="drop")
