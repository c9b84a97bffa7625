"""Arrays of a run on several devices: replicated, or with sharded rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from simplex_jax._src.base import PyTree


def first(tree: PyTree) -> PyTree:
    """Return the first device's copy or part of every array, without copying.

    Computations on the result run once, on that device, rather than on all devices.
    """

    def part(leaf: jax.Array) -> jax.Array:
        # JAX keeps the data of a new array object alive for longer than the object.
        return leaf if len(leaf.sharding.device_set) == 1 else leaf.addressable_data(0)

    return jax.tree.map(part, tree)


def whole(array: jax.Array, rows: int) -> jax.Array:
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
    return first(everywhere)[..., :rows, :]


def share(array: np.ndarray, rows: int, like: jax.Array | jax.ShapeDtypeStruct) -> jax.Array:
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
    return jnp.zeros(shape, device=sharding)
