"""Pytrees as a list of leaves: arrays, and JSON values."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src.base import PyTree
from simplex_jax._src.runtime.checkpoint import errors
from simplex_jax._src.runtime.checkpoint.errors import CheckpointError

KeyPath = tuple[str | int, ...]
Entry = Mapping[str, Any]


ANY: Final = object()
"""A leaf of `like` that accepts anything: dicts and lists of NumPy arrays and values."""

MAPPED: Final = object()
"""A leaf of `like` that returns an array of numbers of any size as `Parts`, mapped from disk."""


@dataclasses.dataclass(frozen=True)
class Parts:
    """An array in the files of a checkpoint, memory-mapped: only the parts read enter memory.

    Read it before the next checkpoint is saved, which may remove these files.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    parts: Mapping[tuple[int, ...], np.ndarray]  # the parts saved by processes, by start index

    def whole(self) -> np.ndarray:
        """Return the array in memory."""
        array = np.empty(self.shape, self.dtype)
        for begins, part in self.parts.items():
            inside = (slice(first, first + n) for first, n in zip(begins, part.shape, strict=True))
            array[tuple(inside)] = part
        return array


def flatten(tree: PyTree) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Flatten a pytree as given to `Store.save`.

    There is an entry for each leaf: its `path`, and its `value` or, for an array, `dtype` and
    `shape`; for PRNG keys those of their data, and their implementation, `key`. Arrays are named by
    the number of their entry. Of an array sharded over processes, each process has its own parts,
    named by the number and their start, such as `3@2,0`.
    """
    entries: dict[KeyPath, dict[str, Any]] = {}
    arrays: dict[str, np.ndarray] = {}
    for path, leaf in _leaves(tree):
        if path in entries:
            name = path_name(path)
            raise CheckpointError(f"cannot save two leaves under the name {name!r}: rename one")
        if not _is_value(leaf):
            arrays.update(_parts(str(len(entries)), path, leaf))
        entries[path] = {"path": list(path), **_describe(leaf)}
    return list(entries.values()), arrays


def check(like: PyTree, entries: Sequence[Entry], *, sized: bool = True) -> None:
    """Raise a CheckpointError that names the leaves in which a saved tree differs from `like`."""
    saved = {tuple(entry["path"]): entry for entry in entries}
    old = {path_name(path): _text(entry, sized=sized) for path, entry in saved.items()}
    new: dict[str, str] = {}
    for path, leaf in _leaves(like):
        name = path_name(path)
        if _takes_any(leaf):
            below = [path_name(other) for other in saved if _below(other, path)]
            new |= {name: old[name] for name in below} or {name: "of any kind"}
        else:
            new[name] = _text(_describe(leaf), sized=sized)
    errors.compare(old, new, show=str)


def rebuild(
    like: PyTree, entries: Sequence[Entry], arrays: Mapping[str, np.ndarray | Parts]
) -> PyTree:
    """Unflatten the results of `flatten` into the structure of `like`, which passed `check`.

    Leaves are NumPy arrays if those of `like` are, else JAX arrays on the same devices.
    """
    saved = {
        tuple(entry["path"]): _restored(entry, arrays.get(str(number)))
        for number, entry in enumerate(entries)
    }
    leaves = [
        _nested({other[len(path) :]: saved[other] for other in saved if _below(other, path)})
        if _takes_any(leaf)
        else _placed(leaf, saved[path])
        for path, leaf in _leaves(like)
    ]
    return jax.tree.unflatten(jax.tree.structure(like, is_leaf=_is_leaf), leaves)


def path_name(path: Sequence[str | int]) -> str:
    """Return a unique name of a leaf for messages."""
    parts = [
        f"[{part}]" if isinstance(part, int) else part if part.isidentifier() else repr(part)
        for part in path
    ]
    return "/".join(parts) or "the tree"


def _leaves(tree: PyTree) -> list[tuple[KeyPath, Any]]:
    leaves = jax.tree.leaves_with_path(tree, is_leaf=_is_leaf)
    return [(tuple(map(_component, path)), leaf) for path, leaf in leaves]


def _component(key: Any) -> str | int:
    if isinstance(key, jax.tree_util.SequenceKey):
        return key.idx
    return jax.tree_util.keystr((key,), simple=True)


def _is_leaf(node: Any) -> bool:
    return _takes_any(node) or _is_value(node)


def _takes_any(leaf: Any) -> bool:
    return leaf is ANY or leaf is MAPPED


def _is_value(node: Any) -> bool:
    """Return whether a node is stored as JSON; nonempty dicts are flattened instead."""
    return node == {} if isinstance(node, dict) else _is_plain(node)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(entry) for key, entry in value.items())
    # NumPy's float64 is a float too.
    plain = value is None or isinstance(value, bool | int | float | str)
    return plain and not isinstance(value, np.generic)


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)


def gathered(
    like: PyTree, entries: Sequence[Entry], files: Sequence[Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray | Parts]:
    """Return the arrays of the entries by number, from the mapped files of the processes.

    They are in memory unless `like` has `MAPPED` in their place. A missing part raises a KeyError.
    """
    mapped = {path for path, leaf in _leaves(like) if leaf is MAPPED}
    arrays: dict[str, np.ndarray | Parts] = {}
    for number, entry in enumerate(entries):
        if "value" not in entry:
            parts = _parts_of(str(number), entry, files)
            arrays[str(number)] = parts if tuple(entry["path"]) in mapped else parts.whole()
    return arrays


def _parts_of(number: str, entry: Entry, files: Sequence[Mapping[str, np.ndarray]]) -> Parts:
    # NumPy reads the dtypes of `ml_dtypes` as void.
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    if number in files[0]:
        return Parts(shape, dtype, {(0,) * len(shape): files[0][number].view(dtype).reshape(shape)})
    parts = {
        tuple(map(int, name.partition("@")[2].split(","))): file[name].view(dtype)
        for file in files
        for name in file
        if name.startswith(f"{number}@")
    }
    if sum(part.size for part in parts.values()) != math.prod(shape):
        raise KeyError(f"a part of {path_name(entry['path'])} is missing")
    return Parts(shape, dtype, parts)


def _parts(number: str, path: KeyPath, leaf: Any) -> dict[str, np.ndarray]:
    """Return a leaf by its number, or this process's parts of it."""
    if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable or leaf.is_fully_replicated:
        return {number: _to_numpy(path, leaf)}
    parts = {}
    for shard in leaf.addressable_shards:
        if shard.replica_id == 0:
            begins = ",".join(str(cut.start or 0) for cut in shard.index)
            parts[f"{number}@{begins}"] = _to_numpy(path, shard.data)
    return parts


def is_part(name: str) -> bool:
    """Return whether an array of `flatten` is a part, rather than the same in all processes."""
    return "@" in name


def _to_numpy(path: KeyPath, leaf: Any) -> np.ndarray:
    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
    if not (jnp.issubdtype(array.dtype, np.number) or array.dtype == bool):
        kind = type(leaf).__name__ if array.dtype.hasobject else f"an array of {array.dtype}"
        raise CheckpointError(
            f"cannot save {path_name(path)}, {kind}: give arrays of numbers, PRNG keys or JSON "
            "values"
        )
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _describe(leaf: Any) -> dict[str, Any]:
    if _is_value(leaf):
        return {"value": leaf}
    impl: dict[str, str] = {}

    def data(key: jax.Array) -> jax.Array:
        impl["key"] = str(jax.random.key_impl(key))  # does not accept a ShapeDtypeStruct
        return jax.random.key_data(key)

    array = jax.eval_shape(data, leaf) if _is_key(leaf) else leaf
    dtype = np.dtype(array.dtype) if hasattr(array, "dtype") else np.asarray(array).dtype
    return {"dtype": dtype.name, "shape": list(np.shape(array)), **impl}


def _text(entry: Entry, *, sized: bool) -> str:
    if "value" in entry:
        return "a plain value"
    kind = f"{entry['key']} keys of " if "key" in entry else ""
    sizes = [str(size) if sized else "any" for size in entry["shape"]]
    return f"{kind}{entry['dtype']} [{', '.join(sizes)}]"


def _restored(entry: Entry, array: np.ndarray | Parts | None) -> Any:
    if array is None:
        return entry["value"]
    if "key" in entry:
        return jax.random.wrap_key_data(jnp.asarray(array), impl=entry["key"])
    return array


def _placed(like: Any, saved: Any) -> Any:
    if _is_value(like) or isinstance(like, np.ndarray | np.generic):
        return saved
    if isinstance(like, jax.Array) and like.committed:
        if like.is_fully_addressable:
            return jax.device_put(saved, like.sharding)
        array = np.asarray(saved)
        return jax.make_array_from_callback(array.shape, like.sharding, lambda cut: array[cut])
    return jnp.asarray(saved)


def _below(path: KeyPath, prefix: KeyPath) -> bool:
    return path[: len(prefix)] == prefix


def _nested(values: Mapping[KeyPath, Any]) -> Any:
    """Return leaves keyed by path as nested dicts and lists."""
    if () in values:
        return values[()]
    children: dict[str | int, dict[KeyPath, Any]] = {}
    for (first, *rest), value in values.items():
        children.setdefault(first, {})[tuple(rest)] = value
    nodes = {name: _nested(below) for name, below in children.items()}
    return list(nodes.values()) if all(isinstance(name, int) for name in nodes) else nodes
