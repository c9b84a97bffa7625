"""Rows of a position sharded over devices: each moves its shard, and all see the whole.

The result is bit-identical on any number of devices if the work on a shard is: native draws and
additions are. Other arithmetic is rounded as the compiler combines it (fused multiply-adds), which
depends on the size of the arrays.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src.base import PyTree


def sums(array: jax.Array) -> jax.Array:
    """Return sums along the last axis, [..., 1], in an order that depends only on its length.

    The order of `jnp.sum` also depends on the surrounding program and the number of rows.
    """
    while (size := array.shape[-1]) > 1:
        half = -(-size // 2)
        rest = jnp.pad(array[..., half:], [(0, 0)] * (array.ndim - 1) + [(0, size % 2)])
        array = array[..., :half] + rest
    return array


class Rows(NamedTuple):
    """This device's rows of arrays [total, ...]; only for use inside `shard_map`.

    All devices hold equally many; rows past the end are copies of the last row and are dropped.
    """

    axis: str  # name of the mesh axis
    devices: int  # number along that axis
    total: int

    @property
    def number(self) -> int:
        """Number of rows on each device."""
        return -(-self.total // self.devices)

    def first(self) -> jax.Array:
        """Return the index of the first row, uint32."""
        return lax.axis_index(self.axis).astype(jnp.uint32) * self.number

    def own(self, whole: jax.Array) -> jax.Array:
        """Return this device's shard of a replicated array."""
        index = self.first() + lax.iota(jnp.uint32, self.number)
        return whole.at[index].get(mode="clip")

    def gathered(self, own: jax.Array) -> jax.Array:
        """Return the whole array, given each device's shard."""
        return lax.all_gather(own, self.axis, tiled=True)[: self.total]

    def gathered_together(self, own: PyTree) -> PyTree:
        """Return a tree of whole arrays, given each device's shards, leaves [number].

        Their dtypes have 32 bits. Uses one collective: across processes each takes milliseconds,
        however small.
        """
        leaves, structure = jax.tree.flatten(own)
        words = [lax.bitcast_convert_type(leaf, jnp.uint32) for leaf in leaves]
        table = self.gathered(jnp.stack(words, axis=1))
        columns = zip(table.T, leaves, strict=True)
        whole = [lax.bitcast_convert_type(column, leaf.dtype) for column, leaf in columns]
        return jax.tree.unflatten(structure, whole)

    def summed(self, terms: jax.Array) -> jax.Array:
        """Return this device's shard of a sum over devices; rows past the end are 0."""
        spare = self.devices * self.number - self.total
        padded = jnp.pad(terms, [(0, spare)] + [(0, 0)] * (terms.ndim - 1))
        return lax.psum_scatter(padded, self.axis, tiled=True)
