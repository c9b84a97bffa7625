"""States with room for a number of components, which grow where an update needs more.

Such a state has a number `needed`. An update for which there is no room changes nothing but that,
`driver.run(..., grow=...)` makes the state larger, and the same update follows with the same key.
"""

import math
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Info = TypeVar("Info")


def together(old: Any, moved: Any, info: Info, capacity: int) -> tuple[Any, Info]:
    """Return chains as they were where one of them has no room, else as they have moved.

    All of them grow together, and do the same update again. Leaves have an axis of chains.
    """
    most = jnp.max(moved.needed)
    short = most > capacity
    moved = moved._replace(needed=jnp.full_like(old.needed, most))
    old = old._replace(needed=moved.needed)
    return (
        jax.tree.map(lambda before, after: jnp.where(short, before, after), old, moved),
        jax.tree.map(lambda number: jnp.where(short, jnp.zeros_like(number), number), info),
    )


def doubled(capacity: int, needed: int) -> int:
    """Return the capacity doubled until it has room for `needed`: few sizes to compile."""
    while capacity < needed:
        capacity *= 2
    return capacity


def by_quarters(capacity: int, needed: int) -> int:
    """Return the capacity doubled up to 256, and from there on a quarter larger, until it suffices.

    For components that all take their part of the time, whether they are used or not.
    """
    while capacity < needed:
        capacity = math.ceil(capacity * (2 if capacity < 256 else 1.25))
    return capacity


def starts(middle: int, capacity: int, chains: int) -> list[int]:
    """Return the number of components that each chain starts with.

    Several start with from half to twice `middle`, or the capacity, in proportion, so that R-hat of
    the number means something.
    """
    if chains == 1:
        return [middle]
    spread = np.geomspace(middle / 2, min(2 * middle, capacity), chains)
    return np.maximum(spread.round(), 1).astype(int).tolist()
