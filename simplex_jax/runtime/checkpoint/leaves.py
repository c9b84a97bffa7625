"""Pytrees to and from named leaves: arrays, and values that JSON can hold."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax.base import PyTree
from simplex_jax.runtime.checkpoint import match
from simplex_jax.runtime.checkpoint.errors import CheckpointError


class _Any:
    def __repr__(self) -> str:
        return "checkpoint.ANY"


ANY: Final = _Any()
"""A leaf of `like` that takes whatever was saved there: dicts and lists of NumPy arrays, values."""


class AnySize:
    """A leaf of `like` that takes an array of its dtype and number of axes, of whatever size.

    Args:
        leaf: An array like it.
    """

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf


_INDEX = re.compile(r"\[\d+\]")
_ESCAPES = (("~", "~0"), ("/", "~1"), ("[", "~2"))  # what else would be structure


def flatten(tree: PyTree) -> tuple[dict[str, dict[str, Any]], list[np.ndarray]]:
    """Take a pytree apart.

    Args:
        tree: Leaves are arrays of numbers, typed PRNG keys, or what JSON can hold: None, booleans,
            integers, floats, strings, and lists and dicts of only these, also empty.

    Returns:
        What each leaf is, by name: `{"value": ...}`, or for an array its dtype and shape, and of a
        key its implementation. And the arrays, in the order of the names.

    Raises:
        CheckpointError: A leaf is none of these, or two have one name.
    """
    described: dict[str, dict[str, Any]] = {}
    arrays = []
    for name, leaf in _named(tree):
        if name in described:
            raise CheckpointError(f"cannot save two things under the name {name!r}: rename one")
        if _is_value(leaf):
            described[name] = {"value": leaf}
            continue
        described[name], array = _array(name, leaf)
        arrays.append(array)
    return described, arrays


def check(like: PyTree, described: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise a CheckpointError that names the leaves in which a saved tree differs from `like`."""
    wanted = _named(like)
    found = [_difference(name, leaf, described) for name, leaf in wanted]
    differences = [
        f"{_label(name)} {text}" for (name, _), text in zip(wanted, found, strict=True) if text
    ]
    open_names = [name for name, leaf in wanted if leaf is ANY]
    known = {name for name, _ in wanted}
    for name in described:
        if name not in known and not any(_below(name, prefix) for prefix in open_names):
            differences.append(f"{_label(name)} is in the checkpoint and not in this run")
    match.refuse(differences)


def rebuild(
    like: PyTree, described: Mapping[str, Mapping[str, Any]], arrays: Sequence[np.ndarray]
) -> PyTree:
    """Put together what `flatten` took apart, in the structure of `like`, which `check` passed.

    Leaves are NumPy arrays where those of `like` are, else JAX arrays on the same devices.
    """
    numbered = iter(arrays)
    found = {
        name: entry["value"] if "value" in entry else _keyed(entry, next(numbered))
        for name, entry in described.items()
    }
    leaves = [
        _nested({other: found[other] for other in found if _below(other, name)}, name)
        if leaf is ANY
        else _placed(leaf, found[name])
        for name, leaf in _named(like)
    ]
    return jax.tree.unflatten(jax.tree.structure(like, is_leaf=_is_leaf), leaves)


def _is_plain(value: Any) -> bool:
    if isinstance(value, np.generic):  # NumPy's float64 is a float too
        return False
    if isinstance(value, list):
        return all(_is_plain(entry) for entry in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(entry) for key, entry in value.items())
    return value is None or isinstance(value, bool | int | float | str)


def _is_value(leaf: Any) -> bool:
    """Return whether a node is kept as JSON; dicts are, unless empty, taken apart."""
    return leaf == {} if isinstance(leaf, dict) else _is_plain(leaf)


def _is_leaf(node: Any) -> bool:
    return node is ANY or _is_value(node)


def _named(tree: PyTree) -> list[tuple[str, Any]]:
    leaves = jax.tree.leaves_with_path(tree, is_leaf=_is_leaf)
    return [("/".join(_component(key) for key in path), leaf) for path, leaf in leaves]


def _component(key: Any) -> str:
    if isinstance(key, jax.tree_util.SequenceKey):
        return f"[{key.idx}]"
    name = jax.tree_util.keystr((key,), simple=True)
    for text, escape in _ESCAPES:
        name = name.replace(text, escape)
    return name


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)


def _array(name: str, leaf: Any) -> tuple[dict[str, Any], np.ndarray]:
    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
    if not (jnp.issubdtype(array.dtype, np.number) or array.dtype == bool):
        kind = type(leaf).__name__ if array.dtype.hasobject else f"an array of {array.dtype}"
        raise CheckpointError(
            f"cannot save {_label(name)}, {kind}: give arrays of numbers, PRNG keys, or what "
            "JSON can hold"
        )
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return _describe(leaf), array


def _difference(name: str, leaf: Any, described: Mapping[str, Mapping[str, Any]]) -> str | None:
    if leaf is ANY:
        if any(_below(other, name) for other in described):
            return None
        return "is in this run and not in the checkpoint"
    saved = described.get(name)
    if saved is None:
        return "is in this run and not in the checkpoint"
    resizable = isinstance(leaf, AnySize)
    wanted = _describe(leaf.leaf if resizable else leaf)
    if resizable and "shape" in saved and len(saved["shape"]) == len(wanted["shape"]):
        wanted |= {"shape": saved["shape"]}
    there, here = _text(saved), _text(wanted)
    return None if there == here else f"is {there} in the checkpoint and {here} in this run"


def _label(name: str) -> str:
    return name or "the tree"


def _describe(leaf: Any) -> dict[str, Any]:
    if _is_value(leaf):
        return {"value": leaf}
    impl: dict[str, str] = {}

    def data(key: jax.Array) -> jax.Array:
        impl["key"] = str(jax.random.key_impl(key))
        return jax.random.key_data(key)

    parts = jax.eval_shape(data, leaf) if _is_key(leaf) else leaf
    dtype = np.dtype(parts.dtype) if hasattr(parts, "dtype") else np.asarray(parts).dtype
    return {"dtype": dtype.name, "shape": list(np.shape(parts)), **impl}


def _text(entry: Mapping[str, Any]) -> str:
    if "value" in entry:
        return "a plain value"
    kind = f"{entry['key']} keys of " if "key" in entry else ""
    return f"{kind}{entry['dtype']} [{', '.join(map(str, entry['shape']))}]"


def _keyed(entry: Mapping[str, Any], array: np.ndarray) -> Any:
    if "key" in entry:
        return jax.random.wrap_key_data(jnp.asarray(array), impl=entry["key"])
    return array


def _placed(like: Any, found: Any) -> Any:
    like = like.leaf if isinstance(like, AnySize) else like
    if _is_value(like) or isinstance(like, np.ndarray | np.generic):
        return found
    if isinstance(like, jax.Array) and like.committed:
        return jax.device_put(found, like.sharding)
    return jnp.asarray(found)


def _below(name: str, prefix: str) -> bool:
    return not prefix or name == prefix or name.startswith(prefix + "/")


def _nested(found: Mapping[str, Any], prefix: str) -> Any:
    """Return leaves named `prefix/a/[0]/b` as dicts and lists."""
    if prefix in found:
        return found[prefix]
    root: dict[str, Any] = {}
    for name, value in found.items():
        *parents, last = name[len(prefix) + 1 if prefix else 0 :].split("/")
        node = root
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return _listed(root)


def _listed(node: Any) -> Any:
    if not isinstance(node, dict) or not node:
        return node
    if all(_INDEX.fullmatch(name) for name in node):
        return [_listed(entry) for entry in node.values()]
    return {_unescaped(name): _listed(entry) for name, entry in node.items()}


def _unescaped(name: str) -> str:
    for text, escape in reversed(_ESCAPES):
        name = name.replace(escape, text)
    return name
