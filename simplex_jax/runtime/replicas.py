"""Arrays of a run on several devices: copies on each of them, or rows that they share."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from simplex_jax.base import PyTree


def first(tree: PyTree) -> PyTree:
    """Return the copy, or the part, of every array that the first device has; nothing is copied.

    Computations on the result are done once, on that device, and not by all of them.
    """

    def part(leaf: jax.Array) -> jax.Array:
        # JAX keeps the data of another array object for longer than that object is in use.
        return leaf if len(leaf.sharding.device_set) == 1 else leaf.addressable_data(0)

    return jax.tree.map(part, tree)


def whole(array: jax.Array, rows: int) -> jax.Array:
    """Return an array [..., rows, n] whose rows devices may share, on one device of each process.

    Where they do, all of them have as many, and there may be more than asked for, which are left
    out. With several processes this is a collective operation: all of them call it.
    """
    if array.shape[-2] == rows and array.is_fully_replicated:
        return array
    shared: Any = array.sharding
    if array.is_fully_addressable:
        return jax.device_put(array, shared.mesh.devices.flat[0])[..., :rows, :]
    everywhere = jax.device_put(array, NamedSharding(shared.mesh, P()))
    return first(everywhere)[..., :rows, :]


def share(array: np.ndarray, rows: int, like: jax.Array | jax.ShapeDtypeStruct) -> jax.Array:
    """Return an array as `like` is, from one whose rows any number of devices had.

    Raises:
        ValueError: It is not one of so many rows.
    """
    spare = like.shape[-2] - rows
    # Not padded for nothing: they are large.
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
    """Return zeros [..., rows, n] whose rows devices share, filled up to as many on each.

    Without a sharding they are on one device.
    """
    if sharding is not None:
        devices = sharding.mesh.size
        shape = (*shape[:-2], -(-shape[-2] // devices) * devices, shape[-1])
    return jnp.zeros(shape, device=sharding)
