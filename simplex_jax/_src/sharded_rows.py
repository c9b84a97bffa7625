"""Rows of arrays sharded over devices: each moves its shard, and all see the whole.

The result is bit-identical on any number of devices if the work on a shard is: native draws and
additions are. Other arithmetic is rounded as the compiler combines it (fused multiply-adds), which
depends on the size of the arrays.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

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
        """Return this device's shard of a sum of integers over devices; rows past the end are 0.

        Not by `lax.psum_scatter`: what a process sends before another has begun it keeps gloo's
        thread there polling, which takes a third of the core from the work that the other is at.
        """
        spare = self.devices * self.number - self.total
        padded = jnp.pad(terms, [(0, spare)] + [(0, 0)] * (terms.ndim - 1))
        parts = padded.reshape(self.devices, self.number, *terms.shape[1:])
        received = lax.all_to_all(parts, self.axis, split_axis=0, concat_axis=0)
        return received.sum(axis=0, dtype=terms.dtype)


# Arrays of a run on several devices: replicated, or with sharded rows.


def on_first_device(tree: PyTree) -> PyTree:
    """Return the first device's copy or part of every array, without copying.

    Computations on the result run once, on that device, rather than on all devices.
    """

    def part(leaf: jax.Array) -> jax.Array:
        # JAX keeps the data of a new array object alive for longer than the object.
        return leaf if len(leaf.sharding.device_set) == 1 else leaf.addressable_data(0)

    return jax.tree.map(part, tree)


def gather_rows(array: jax.Array, rows: int) -> jax.Array:
    """Return an array [..., rows, n], whose rows may be sharded, on one device of each process.

    Padding rows, which give all devices equally many, are left out. With several processes this is
    a collective operation that all of them must call.
    """
    if array.shape[-2] == rows and array.is_fully_replicated:
        return array
    shared: Any = array.sharding
    if array.is_fully_addressable:
        return jax.device_put(array, shared.mesh.devices.flat[0])[..., :rows, :]
    everywhere = jax.device_put(array, NamedSharding(shared.mesh, P()))
    return on_first_device(everywhere)[..., :rows, :]


def place_rows(array: np.ndarray, rows: int, like: jax.Array | jax.ShapeDtypeStruct) -> jax.Array:
    """Return an array placed like `like`, from one saved by any number of devices.

    Raises:
        ValueError: The array does not have this number of rows.
    """
    spare = like.shape[-2] - rows
    # Padded only if necessary, as arrays are large.
    padding = [(0, 0)] * (array.ndim - 2) + [(0, spare), (0, 0)]
    padded: Any = array[..., :rows, :]
    padded = np.pad(padded, padding) if spare else padded
    if array.dtype != like.dtype or padded.shape != like.shape:
        raise ValueError(
            f"there must be {rows} rows, {like.dtype} {list(like.shape)}; they are {array.dtype} "
            f"{list(array.shape)}"
        )
    if len(like.sharding.device_set) == 1:
        return jax.device_put(padded, like.sharding)
    return jax.make_array_from_callback(like.shape, like.sharding, padded.__getitem__)


def zeros(shape: tuple[int, ...], sharding: NamedSharding | None) -> jax.Array:
    """Return zeros [..., rows, n] with sharded rows, padded to equally many on each device.

    Without a sharding they are on one device.
    """
    if sharding is not None:
        devices = sharding.mesh.size
        shape = (*shape[:-2], -(-shape[-2] // devices) * devices, shape[-1])
    elif jax.default_backend() == "cpu":
        return jax.device_put(np.zeros(shape, jnp.result_type(float)))  # which compiles nothing
    return jnp.zeros(shape, device=sharding)
