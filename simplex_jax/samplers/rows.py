"""The rows of a position that devices share: each moves a part of them, and all see the whole.

The result is the same to the last bit on any number of devices if what a device does with its part
is: draws in native code, and additions. Other arithmetic is rounded as the compiler combines it
(fused multiply-adds), which depends on the size of the arrays.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax.base import PyTree


def sums(array: jax.Array) -> jax.Array:
    """Return sums along the last axis, [..., 1], in an order that is that of its length alone.

    The order of `jnp.sum` is that of the program around it, and of the number of rows.
    """
    while (size := array.shape[-1]) > 1:
        half = -(-size // 2)
        rest = jnp.pad(array[..., half:], [(0, 0)] * (array.ndim - 1) + [(0, size % 2)])
        array = array[..., :half] + rest
    return array


class Rows(NamedTuple):
    """The rows of arrays [total, ...] that are this device's; inside `shard_map` only.

    All devices have as many. Where these are more than there are, those past the end are copies of
    the last row, which nobody sees.
    """

    axis: str  # name of the axis of the mesh
    devices: int  # along that axis
    total: int

    @property
    def number(self) -> int:
        """Number of rows on each device."""
        return -(-self.total // self.devices)

    def first(self) -> jax.Array:
        """Return the number of the first one, uint32."""
        return lax.axis_index(self.axis).astype(jnp.uint32) * self.number

    def own(self, whole: jax.Array) -> jax.Array:
        """Return this device's part of an array that all devices have."""
        index = self.first() + lax.iota(jnp.uint32, self.number)
        return whole.at[index].get(mode="clip")

    def gathered(self, own: jax.Array) -> jax.Array:
        """Return the whole array from the parts on the devices."""
        return lax.all_gather(own, self.axis, tiled=True)[: self.total]

    def gathered_together(self, own: PyTree) -> PyTree:
        """Return a tree of whole arrays, of which every device has its part, leaves [number].

        Their numbers have 32 bits. By one collective: several processes wait some milliseconds for
        each, however small.
        """
        leaves, structure = jax.tree.flatten(own)
        words = [lax.bitcast_convert_type(leaf, jnp.uint32) for leaf in leaves]
        table = self.gathered(jnp.stack(words, axis=1))
        columns = zip(table.T, leaves, strict=True)
        whole = [lax.bitcast_convert_type(column, leaf.dtype) for column, leaf in columns]
        return jax.tree.unflatten(structure, whole)

    def summed(self, terms: jax.Array) -> jax.Array:
        """Return this device's part of a sum over the devices; past the end it is 0."""
        spare = self.devices * self.number - self.total
        padded = jnp.pad(terms, [(0, spare)] + [(0, 0)] * (terms.ndim - 1))
        return lax.psum_scatter(padded, self.axis, tiled=True)
